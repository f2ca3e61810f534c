"""Check that every file that names the release of ds-lint names the same one, and that a tag is the tag of it.

    python -m tools.release v0.1.0 [--index FILE]

With the names of the package index (as ``application/vnd.pypi.simple.v1+json``), also that it accepts the name of the
distribution: it refuses one that folds to the same as another. The workflow that publishes runs it before it builds;
``tests/test_release.py`` runs the same without a tag.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ds_lint import __version__
from ds_lint.addresses import DISTRIBUTION, ORGANISATION

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = Path(__file__).parent.parent
# What the index takes for the same: ultranormalize_name in its database (warehouse).
_ALIKE = str.maketrans({"l": "1", "i": "1", "o": "0", ".": "", "_": "", "-": ""})


def named() -> dict[str, str]:
    """The release that each file names."""
    extension = Path("editors/vscode/package.json")
    lock = extension.with_name("package-lock.json")
    return {
        "ds_lint/__init__.py": __version__,
        "CITATION.cff": _found(r"^version: (\S+)$", Path("CITATION.cff")),
        "CHANGELOG.md": _found(r"^## ([\d.]+)", Path("CHANGELOG.md")),
        "packaging/conda/recipe.yaml": _found(r'^  version: "(\S+)"$', Path("packaging/conda/recipe.yaml")),
        str(extension): json.loads(_text(extension))["version"],
        str(lock): json.loads(_text(lock))["version"],
        str(extension.with_name("CHANGELOG.md")): _found(r"^## ([\d.]+)", extension.with_name("CHANGELOG.md")),
    }


def pinned() -> dict[str, str]:
    """The release that a document tells its readers to pin, where it is another than this one."""
    pins = re.compile(rf"(?:\b{ORGANISATION}/ds-lint[@/]|\brev: )v(\d[\d.]*\d)")
    paths = [Path("README.md"), *sorted(path.relative_to(ROOT) for path in (ROOT / "docs").rglob("*.md"))]
    return {str(path): found for path in paths for found in pins.findall(_text(path)) if found != __version__}


def unreleased() -> list[str]:
    """The files that still say that nothing of the release is out."""
    notices = {
        "CHANGELOG.md": f"\n## {__version__}, unreleased\n",
        "editors/vscode/CHANGELOG.md": f"\n## {__version__}, unreleased\n",
        "docs/install.md": "\n## Until the first release\n",
    }
    return [path for path, words in notices.items() if words in _text(Path(path))]


def folded(name: str) -> str:
    """What two names have in common of which the index accepts only one."""
    return name.lower().translate(_ALIKE)


def in_the_way(names: Iterable[str]) -> list[str]:
    """The names of the index for which it refuses that of the distribution; its own is not in the way."""
    own = folded(DISTRIBUTION)
    return [name for name in names if folded(name) == own and re.sub(r"[._-]+", "-", name).lower() != DISTRIBUTION]


def problems(tag: str, names: Iterable[str] = ()) -> list[str]:
    """What keeps this tag from being published, also for these names of the index."""
    release = tag.removeprefix("v")
    named_or_pinned = (named() | pinned()).items()
    wrong = [f"{path} names {found}, and the tag is {tag}" for path, found in named_or_pinned if found != release]
    wrong += [f"{path} says that {__version__} is not released" for path in unreleased()]
    return [*wrong, *(f"the package index has {name}, and refuses {DISTRIBUTION} for it" for name in in_the_way(names))]


def _text(path: Path) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def _found(pattern: str, path: Path) -> str:
    found = re.search(pattern, _text(path), re.MULTILINE)
    return found[1] if found else "no release"


def main() -> int:
    """Print what is wrong with a tag."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tag", help="such as v0.1.0")
    parser.add_argument("--index", type=Path, metavar="FILE", help="the names of the package index, as JSON")
    options = parser.parse_args()
    names = [] if options.index is None else [one["name"] for one in json.loads(options.index.read_bytes())["projects"]]
    found = problems(options.tag, names)
    sys.stderr.write("".join(f"{line}\n" for line in found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
