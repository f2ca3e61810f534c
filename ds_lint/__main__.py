"""``python -m ds_lint``."""

from ds_lint.cli import main

main()
