"""Hold every file that spells where ds-lint is published, or under which name, to ``ds_lint/addresses.py``.

    python -m tools.addresses            the files that say otherwise
    python -m tools.addresses --write    writes into them what the module says

What is replaced is what ``pyproject.toml``, ``mkdocs.yml`` and the extension still name; these three are written last.
Pages that are generated, and the layout of Python, are then checked as after any change.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from ds_lint import addresses

ROOT = Path(__file__).parent.parent
SOURCE = "ds_lint/addresses.py"


class Addresses(NamedTuple):
    """What a published ds-lint is called, and where it is; the fields as in the module."""

    distribution: str
    organisation: str
    publisher: str
    site: str

    def spelled(self) -> tuple[str, ...]:
        """How files spell them; those of two records stand in the same places."""
        return (
            self.distribution,
            self.distribution.replace("-", "_"),  # in the name of a wheel
            f"{self.organisation}/ds-lint",
            f"ghcr.io/{self.organisation.lower()}/{self.distribution}",
            f'"publisher": "{self.publisher}"',
            f"publisher `{self.publisher}`",
            f"namespace `{self.publisher}`",
            f"recipe-maintainers: [{self.organisation}]",
            f"itemName={self.publisher}.{self.distribution}",
            f"@ext:{self.publisher}.{self.distribution}",
            f"open-vsx.org/extension/{self.publisher}/{self.distribution}",
            self.site,
        )


# The file and the pattern by which each of them is known to be written.
WITNESSES = {
    "distribution": ("pyproject.toml", r'^name = "(.+)"$'),
    "organisation": ("pyproject.toml", r'^Source = "https://github\.com/(.+)/ds-lint"$'),
    "publisher": ("editors/vscode/package.json", r'^  "publisher": "(.+)",$'),
    "site": ("mkdocs.yml", r"^site_url: (.+)$"),
}
CURRENT = Addresses(addresses.DISTRIBUTION, addresses.ORGANISATION, addresses.PUBLISHER, addresses.SITE)


def written(root: Path = ROOT) -> Addresses:
    """What the files name."""
    found = {}
    for name, (path, pattern) in WITNESSES.items():
        match = re.search(pattern, (root / path).read_text(encoding="utf-8"), re.MULTILINE)
        if match is None:
            raise SystemExit(f"{path} names no {name}")
        found[name] = match[1]
    return Addresses(**found)


def rewritten(text: str, old: Addresses, new: Addresses) -> str:
    """A text that spells the new ones where it spelled the old ones."""
    instead = dict(zip(old.spelled(), new.spelled(), strict=True))
    longest_first = sorted(instead, key=len, reverse=True)
    pattern = rf"(?<![\w-])(?:{'|'.join(map(re.escape, longest_first))})(?!(?<=\w)\w)"
    return re.sub(pattern, lambda match: instead[match[0]], text)


def changes(old: Addresses, new: Addresses, root: Path = ROOT) -> dict[str, str]:
    """The new text of each tracked file that changes, by its path; those that are asked for the old ones at the end."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True)
    witnesses = {path for path, _ in WITNESSES.values()}
    paths = {path for path in listed.stdout.split("\0") if path and path != SOURCE and (root / path).is_file()}
    changed = {}
    for path in sorted(paths, key=lambda path: (path in witnesses, path)):
        try:
            text = (root / path).read_bytes().decode()
        except UnicodeDecodeError:
            continue  # a picture
        if (now := rewritten(text, old, new)) != text:
            changed[path] = now
    return changed


def main() -> int:
    """Print the files that are stale, or write them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    changed = changes(written(), CURRENT)
    for path, text in changed.items():
        if options.write:
            (ROOT / path).write_bytes(text.encode())
        sys.stdout.write(f"{path}\n")
    return 1 if changed and not options.write else 0


if __name__ == "__main__":
    sys.exit(main())
