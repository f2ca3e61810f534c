"""Measure how long the playground takes from opening its page to the first finding, in Chromium, from a local server.

    python -m tools.bench.playground [--rounds 11]

The first visit loads everything; the others have it in the browser's cache. Needs the programs of `tools/clients`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import median

from tools.bench.size_texts import ROOT
from tools.site.playground import files

SCRIPT = ROOT / "tests" / "clients" / "playground" / "first.mjs"


class Cached(SimpleHTTPRequestHandler):
    """Serves files as a site does whose pages may be cached, and logs nothing."""

    protocol_version = "HTTP/1.1"

    def end_headers(self) -> None:
        """End the headers, with how long a copy is good."""
        self.send_header("Cache-Control", "max-age=3600")
        super().end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def main() -> None:
    """Print the seconds."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=11)
    rounds = options.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "tools.site.playground", folder], cwd=ROOT, check=True)
        with ThreadingHTTPServer(("127.0.0.1", 0), partial(Cached, directory=folder)) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            address = f"http://127.0.0.1:{server.server_port}/{files.NAME}/"
            words: list[str | Path] = ["node", SCRIPT, address, Path(folder, "profile"), str(rounds)]
            done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
            server.shutdown()
    first, *later = (milliseconds / 1000 for milliseconds in json.loads(done.stdout))
    sys.stdout.write(f"first visit   {first:5.2f} s\n")
    sys.stdout.write(f"later visits  {median(later):5.2f} s, median; {min(later):.2f} to {max(later):.2f} s\n")


if __name__ == "__main__":
    main()
