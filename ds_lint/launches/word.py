"""A word of a command, as the shell makes it, and what a flag has."""

from __future__ import annotations

from typing import Literal, TypeAlias

Word: TypeAlias = "str | None"  # None where the shell's word is not known
Argument: TypeAlias = "Literal[True] | Word | list[Word]"
