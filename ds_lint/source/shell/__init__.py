"""Bash, as far as it can be known without running anything: the configs that a script holds, and what it starts."""

from __future__ import annotations

from ds_lint.source.shell.configs import read

__all__ = ("read",)
