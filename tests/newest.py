"""The newest releases that ds-lint knows, for tests that show one.

They stand in the stores, which a program extends. A test with such a number by hand is wrong with the next release.
"""

from __future__ import annotations

from ds_lint.knowledge import tables

NEWEST = {library: tables.load(library)["releases"][-1] for library in ("deepspeed", "transformers", "accelerate")}
# For a command, which else takes the releases that are installed.
FLAGS = tuple(f"--{library}-version={release}" for library, release in NEWEST.items())
