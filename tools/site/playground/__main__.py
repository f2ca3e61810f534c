"""Build the playground without the rest of the site, and serve it.

npm ci --prefix tools/site/playground --ignore-scripts
python -m tools.site.playground FOLDER             write it into FOLDER/playground
python -m tools.site.playground FOLDER --serve     and serve it at http://127.0.0.1:8000/playground/
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tools.site.playground import files

PAGE = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>ds-lint playground</title>
<link rel="icon" href="data:,">
<main>
<h1>Playground</h1>
<div data-ds-lint-playground></div>
</main>
<script type="module" src="playground.js"></script>
"""


def main() -> int:
    """Build, and serve."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument(
        "--serve", nargs="?", type=int, const=8000, metavar="PORT", help="serve it (default: port 8000)"
    )
    options = parser.parse_args()
    try:
        files.write(options.folder)
    except FileNotFoundError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    page = options.folder / files.NAME / "index.html"
    if not page.exists():
        page.write_text(PAGE, encoding="utf-8")
    if options.serve is not None:
        address = ("127.0.0.1", options.serve)
        with ThreadingHTTPServer(address, partial(SimpleHTTPRequestHandler, directory=options.folder)) as server:
            sys.stdout.write(f"http://{address[0]}:{server.server_port}/{files.NAME}/\n")
            sys.stdout.flush()
            server.serve_forever()
    return 0


if __name__ == "__main__":
    sys.exit(main())
