"""What a command is made of: its words, as the shell hands them over."""

from __future__ import annotations

from typing import Literal, TypeAlias

Word: TypeAlias = "str | None"  # None where the shell's word is not known
Argument: TypeAlias = "Literal[True] | Word | list[Word]"  # what stands behind a flag; True if nothing does
