"""Write the sources of the site as plain Markdown, and build them.

python -m tools.site FOLDER                          write the sources
python -m tools.site FOLDER --build                  and build every language into FOLDER/site
python -m tools.site FOLDER --build --with zensical  with Zensical instead of mkdocs
python -m mkdocs serve -f FOLDER/mkdocs.yml          show the English pages; writing the sources again reloads them
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tools.site import building, sources


def main() -> int:
    """Write, and build."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where to write the sources")
    parser.add_argument("--build", action="store_true", help="build every language into FOLDER/site")
    parser.add_argument(
        "--with", dest="generator", choices=building.GENERATORS, default="mkdocs", help="(default: mkdocs)"
    )
    options = parser.parse_args()
    sources.write(options.folder)
    return building.build(options.folder, options.generator) if options.build else 0


if __name__ == "__main__":
    sys.exit(main())
