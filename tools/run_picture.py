"""Take the picture of a run's report in documents: a real run, and the top of its page as Chromium shows it.

    python -m tools.run_picture [--chromium PROGRAM]

It needs the libraries that ``--smoke`` trains with, and Chromium. Seconds and fonts differ between machines, so no test
compares the picture; take it again when the page of a run looks different.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.documents import ROOT, Folder

PICTURE = ROOT / "docs" / "images" / "run.png"
WIDTH, HEIGHT = 1280, 788
CONFIG = """\
{
  "train_micro_batch_size_per_gpu": 4,
  "bf16": {"enabled": true},
  "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
  "zero_optimization": {"stage": 3}
}
"""
COMMAND = "ds-lint check ds_config.json --smoke --stack deepspeed --report html=run.html || [ $? -eq 1 ]"


def main() -> int:
    """Run, and take the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chromium", default="chromium", metavar="PROGRAM", help="(default: chromium)")
    chromium = parser.parse_args().chromium
    with tempfile.TemporaryDirectory() as place:
        folder = Folder(Path(place))
        (folder.path / "ds_config.json").write_text(CONFIG, encoding="utf-8")
        folder.printed_by(COMMAND)
        page = (folder.path / "run.html").resolve(strict=True).as_uri()
        looks = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={WIDTH},{HEIGHT}")
        command = [chromium, *looks, f"--user-data-dir={place}/profile", f"--screenshot={PICTURE}", page]
        subprocess.run(command, check=True, capture_output=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
