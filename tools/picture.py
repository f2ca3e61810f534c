"""Draw the pictures in documents: a finding as ``ds-lint check`` prints it, and that of ``ds-lint memory --plot``.

python -m tools.picture            check that the pictures show what is printed
python -m tools.picture --write    draw them again
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from pathlib import Path
from xml.sax.saxutils import escape

from tools.documents import ROOT, Folder, blocks, text_of

PICTURE = ROOT / "docs" / "images" / "finding.svg"
MEMORY_PICTURE = ROOT / "docs" / "images" / "memory.svg"
MEMORY_COMMAND = (  # about the first files of docs/memory.md
    "ds-lint memory ds_config.json --stack deepspeed --model models/llama-8b --world-size 8 --gpu A100-40GB "
    "--sequence-length 4096 --plot memory.svg"
)
CONFIG = """\
{
  "train_micro_batch_size_per_gpu": 4,
  "bf16": {"enabled": true},
  "zero-optimization": {"stage": 3},
  "optimizer": {"type": "AdamW", "params": {"lr": 3e-5}}
}
"""
COMMAND = "ds-lint check ds_config.json --stack deepspeed"
COLUMNS = 88

SIZE, WIDTH, HEIGHT, MARGIN = 14, 8.43, 20, 20  # of a character, a line and the frame, in pixels
BACKGROUND, TEXT = "#0d1117", "#e6edf3"
STYLES = {
    "1": 'font-weight="bold"',
    "2": 'opacity="0.7"',
    "31": 'fill="#ff7b72"',
    "35": 'fill="#d2a8ff"',
    "91": 'fill="#ff7b72"',
    "94": 'fill="#79c0ff"',
}

_PAINTED = re.compile(r"\x1b\[([\d;]+)m(.*?)\x1b\[0m")


def printed() -> str:
    """What the command prints on a terminal with colours."""
    with tempfile.TemporaryDirectory() as place:
        folder = Folder(Path(place))
        (folder.path / "ds_config.json").write_text(CONFIG, encoding="utf-8")
        return folder.printed_by(f"env -u NO_COLOR FORCE_COLOR=1 COLUMNS={COLUMNS} {COMMAND}")


def memory() -> str:
    """The picture of the first run that docs/memory.md estimates."""
    with tempfile.TemporaryDirectory() as place:
        folder = Folder(Path(place))
        for block in blocks(text_of("docs/memory.md")):
            if "title" in block.options:
                folder.write(block)
        folder.printed_by(MEMORY_COMMAND)
        return (folder.path / "memory.svg").read_text(encoding="utf-8")


def drawn(text: str) -> str:
    """A terminal with the command and this output, as SVG."""
    lines = [f"$ {COMMAND}", *text.splitlines()]
    width = round(COLUMNS * WIDTH + 2 * MARGIN)
    height = len(lines) * HEIGHT + 2 * MARGIN
    rows = "".join(
        f'<text x="{MARGIN}" y="{MARGIN + number * HEIGHT - 5}">{_spans(line)}</text>\n'
        for number, line in enumerate(lines, start=1)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">\n'
        f'<rect width="{width}" height="{height}" rx="8" fill="{BACKGROUND}"/>\n'
        f'<g fill="{TEXT}" font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" '
        f'font-size="{SIZE}">\n{rows}</g>\n</svg>\n'
    )


def _spans(line: str) -> str:
    spans, end = "", 0
    for painted in _PAINTED.finditer(line):
        style = " ".join(STYLES[parameter] for parameter in painted[1].split(";"))
        spans += f"{_kept(line[end : painted.start()])}<tspan {style}>{_kept(painted[2])}</tspan>"
        end = painted.end()
    return spans + _kept(line[end:])


def _kept(text: str) -> str:
    """Text with spaces that browsers do not collapse."""
    return escape(text.replace(" ", "\N{NO-BREAK SPACE}"))


def main() -> int:
    """Check or draw the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="draw them again")
    is_writing, status = parser.parse_args().write, 0
    for path, picture in ((PICTURE, drawn(printed())), (MEMORY_PICTURE, memory())):
        if is_writing:
            path.write_text(picture, encoding="utf-8", newline="\n")
        elif path.read_text(encoding="utf-8") != picture:
            sys.stderr.write(f"{path.relative_to(ROOT)} shows something else: python -m tools.picture --write\n")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
