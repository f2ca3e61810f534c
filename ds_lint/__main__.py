"""``python -m ds_lint``."""

from ds_lint.cli import console

console()
