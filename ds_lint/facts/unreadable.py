"""What is raised over a fact that cannot be read."""

from __future__ import annotations


class UnreadableFact(ValueError):  # noqa: N818 - it is what the user named that cannot be read
    """A source that does not tell its fact; the message says which and why, in one line."""
