"""Which regular expressions of a policy take too long on a config.

``jsonschema`` matches with ``re``, which goes back and tries again: ``^(a+)+$`` takes hours for 40 letters, and nothing
ends it in the thread that waits. So an expression that could take long is first matched by another process, which is
ended; only where it answers is it matched here.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

SECONDS = 1.0  # for one expression and the texts of a config that it may meet
_LONG = 1000  # characters of a text for which one repetition is enough to take long
_WITHOUT_MEANING = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?(?:P?<\w+>|:|=|!|<=|<!)?", re.DOTALL)
_REPEATS = re.compile(r"[*+?]|\{\d*,?\d*\}")
_REFERS_BACK = re.compile(r"\\[1-9]|\(\?P=")
_MATCH = """\
import json, re, sys
for pattern, texts in json.load(sys.stdin):
    for text in texts:
        re.search(pattern, text)
    print(flush=True)
"""


class PatternLimits:
    """The expressions of one policy: those that take too long are given up for all configs."""

    def __init__(self) -> None:
        self.given_up: set[str] = set()
        self._tried: dict[str, set[str]] = {}  # the texts on which an expression is known to end

    def try_on(self, patterns: Iterable[str], config: Any) -> set[str]:
        """Find out which of these expressions take too long on the texts of a config; those that do so only now."""
        texts = set(_texts(config))
        waiting = []
        for pattern in dict.fromkeys(patterns):
            if pattern not in self.given_up:
                new = [text for text in texts if may_take_long(pattern, text)]
                new = [text for text in new if text not in self._tried.get(pattern, ())]
                waiting += [(pattern, new)] if new else []
        found = set(_too_slow(waiting))
        self.given_up |= found
        for pattern, new in waiting:
            self._tried.setdefault(pattern, set()).update(new)
        return found


def may_take_long(pattern: str, text: str) -> bool:
    """Whether it could take more than a moment to search a text for an expression."""
    rest = _WITHOUT_MEANING.sub("", pattern)
    number = len(_REPEATS.findall(rest))
    return bool(number > 1 or (number and ("|" in rest or len(text) > _LONG)) or _REFERS_BACK.search(pattern))


def objects_in(schema: Any) -> Iterator[dict[str, Any]]:
    """A schema and all objects in it."""
    pending = [schema]
    while pending:
        part = pending.pop()
        if isinstance(part, list):
            pending += part
        elif isinstance(part, dict):
            yield part
            pending += part.values()


def patterns_in(schema: Any) -> Iterator[str]:
    """The regular expressions of a schema, of whatever it holds under these names too."""
    for part in objects_in(schema):
        if isinstance(pattern := part.get("pattern"), str):
            yield pattern
        if isinstance(keys := part.get("patternProperties"), dict):
            yield from keys


def without(schema: Any, patterns: set[str]) -> Any:
    """The schema without what hangs on these expressions."""
    if isinstance(schema, list):
        return [without(part, patterns) for part in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {name: without(part, patterns) for name, part in schema.items()}
    if isinstance(pattern := parts.get("pattern"), str) and pattern in patterns:
        del parts["pattern"]
    if isinstance(keys := parts.get("patternProperties"), dict) and not patterns.isdisjoint(keys):
        parts["patternProperties"] = {name: part for name, part in keys.items() if name not in patterns}
        for closed in ("additionalProperties", "unevaluatedProperties"):  # they would meet the keys that it matched
            parts.pop(closed, None)
    return parts


def _too_slow(waiting: list[tuple[str, list[str]]]) -> Iterator[str]:
    """The expressions that take too long on their texts."""
    while waiting:
        command, data = [sys.executable, "-I", "-S", "-c", _MATCH], json.dumps(waiting).encode()
        try:
            subprocess.run(command, input=data, capture_output=True, timeout=SECONDS, check=False)  # noqa: S603 - of Python itself
        except subprocess.TimeoutExpired as error:
            ended = len((error.stdout or b"").splitlines())
            if ended < len(waiting):
                yield waiting[ended][0]
            waiting = waiting[ended + 1 :]
        except OSError:  # no other process can be started
            return
        else:
            return


def _texts(config: Any) -> Iterator[str]:
    """The keys and the texts in a config."""
    pending = [config]
    while pending:
        part = pending.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, list):
            pending += part
        elif isinstance(part, dict):
            yield from part
            pending += part.values()
