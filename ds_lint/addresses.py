"""Where ds-lint is published, and under which name.

Code reads this module. The files that cannot, such as ``pyproject.toml`` and the pages, spell the same:
``python -m tools.addresses --write`` writes a change of it into all of them.
"""

from __future__ import annotations

DISTRIBUTION = "deepspeed-lint"  # on the package index, and the name of the image and of the extension
ORGANISATION = "ds-lint"  # on GitHub
PUBLISHER = "ds-lint"  # in the marketplaces for extensions
SITE = "https://ds-lint.readthedocs.io/en/latest/"

REPOSITORY = f"https://github.com/{ORGANISATION}/ds-lint"
RAW = f"https://raw.githubusercontent.com/{ORGANISATION}/ds-lint"
IMAGE = f"ghcr.io/{ORGANISATION.lower()}/{DISTRIBUTION}"
