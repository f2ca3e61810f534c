"""What a page says of itself above its text: what it is about, and where it is in other languages."""

from __future__ import annotations

import html
import re
from typing import Any

import yaml

LONGEST = 160  # characters of a description that search engines show

_FENCE = "---\n"
_NOT_PROSE = (
    "#",
    "|",
    "```",
    "    ",
    "- ",
    "* ",
    "<!--",
    "![",
    "{:",
    ":",
    ">",
    "<p ",
    "<div",
    "<a href",
    "<img",
    "1. ",
)
_LINK = re.compile(r"!?\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\([^)]*\)")
_TAG = re.compile(r"<(?:/?[a-z]+(?: [^>]*)?|https?:[^>]*)>")


def parted(text: str) -> tuple[dict[str, Any], str]:
    """What is above a page, and the page."""
    if not text.startswith(_FENCE):
        return {}, text
    above, _, below = text.removeprefix(_FENCE).partition(f"\n{_FENCE}")
    return yaml.safe_load(above) or {}, below.lstrip("\n")


def joined(above: dict[str, Any], text: str) -> str:
    """A page below what it says of itself."""
    return f"{_FENCE}{yaml.safe_dump(above, allow_unicode=True, sort_keys=False, width=1000)}{_FENCE}\n{text}"


def description(text: str) -> str:
    """What a page is about, in plain words: the beginning of its first paragraph."""
    for paragraph in re.split(r"\n\s*\n", text):
        if not paragraph.startswith(_NOT_PROSE):
            return shortened(plain(paragraph))
    return ""


def plain(paragraph: str) -> str:
    """A paragraph without its Markdown."""
    words = _TAG.sub("", _LINK.sub(r"\1", paragraph))
    words = re.sub(r"(?<!\w)\*{1,2}([^*]+)\*{1,2}(?!\w)", r"\1", words.replace("`", ""))
    return " ".join(html.unescape(re.sub(r"\\([\\*_\[\]|<>])", r"\1", words)).split())


def shortened(text: str) -> str:
    """The text, or as many of its sentences as fit, or else its words."""
    if len(text) <= LONGEST:
        return text
    begun = text[: LONGEST + 1]
    if sentences := re.match(r".*[.!?](?= )|.*\u3002", begun, re.DOTALL):
        return sentences[0]
    words, space, _ = begun[:LONGEST].rpartition(" ")
    return f"{words if space else begun[: LONGEST - 1]}…"
