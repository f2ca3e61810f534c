"""Configs as people and their tools lay them out: compact, indented, with tabs, CRLF, comments, or as hjson."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Hand:
    """A way to write a config; without ``newline`` everything stands on one line."""

    newline: str = "\n"
    indent: str = "  "
    colon: str = ": "
    comma: str = ","  # "" for hjson, which takes the end of a line for one
    quotes: bool = True  # around keys
    comments: bool = False
    braces: bool = True  # around it all
    mark: str = ""  # a byte order mark
    end: str = "\n"
    inline: float = 0.0  # how many of the inner sections stand on one line


PLAIN = Hand()
HANDS = {
    "indented": PLAIN,
    "compact": Hand(newline="", colon=":", end=""),
    "one line": Hand(newline=""),
    "tabs": Hand(indent="\t", inline=0.5),
    "odd": Hand(indent="   ", colon=" :  ", end="", inline=0.3),
    "flush left": Hand(indent=""),
    "crlf": Hand(newline="\r\n", end="\r\n", inline=0.2),
    "cr": Hand(newline="\r", end="\r"),
    "bom": replace(PLAIN, mark="\ufeff"),
    "comments": Hand(comments=True, inline=0.3),
    "comments, crlf": Hand(comments=True, newline="\r\n", end="\r\n"),
    "hjson": Hand(comma="", quotes=False, comments=True),
    "hjson without braces": Hand(comma="", quotes=False, braces=False),
}


def written(config: dict[str, Any], hand: Hand, chance: random.Random) -> str:
    """The text of a config."""
    text = _object(config, hand, chance, 0)
    if not hand.braces:
        lines = text.split(hand.newline)[1:-1]
        text = hand.newline.join(line.removeprefix(hand.indent) for line in lines)
    return hand.mark + text + hand.end


def _object(config: dict[str, Any], hand: Hand, chance: random.Random, depth: int) -> str:
    if not config:
        return "{}"
    if not hand.newline or (depth and chance.random() < hand.inline):
        separator = "," if hand.colon == ":" else ", "
        return (
            "{"
            + separator.join(
                _member(*one, replace(hand, newline="", comma=","), chance, depth) for one in config.items()
            )
            + "}"
        )
    lines = ["{"]
    indent = hand.indent * (depth + 1)
    for number, one in enumerate(config.items(), start=1):
        if hand.comments and chance.random() < 0.3:
            lines.append(f"{indent}{chance.choice(('//', '#'))} {chance.random()}")
        behind = hand.comma if number < len(config) else ""
        if hand.comments and hand.comma and chance.random() < 0.3:
            behind += f" // {chance.random()}"
        lines.append(f"{indent}{_member(*one, hand, chance, depth)}{behind}")
    return hand.newline.join([*lines, f"{hand.indent * depth}}}"])


def _member(key: str, value: Any, hand: Hand, chance: random.Random, depth: int) -> str:
    is_plain = key.isidentifier() and not hand.quotes
    name = key if is_plain else json.dumps(key)
    if isinstance(value, dict):
        return f"{name}{hand.colon}{_object(value, hand, chance, depth + 1)}"
    if isinstance(value, str) and value.isalnum() and not hand.comma and chance.random() < 0.5:
        return f"{name}{hand.colon}{value}"
    return f"{name}{hand.colon}{json.dumps(value)}"
