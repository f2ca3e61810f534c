"""What Poetry understands by a version, in the words of PEP 440."""

from __future__ import annotations

import re

from ds_lint.targets.pin import OR
from ds_lint.targets.requirement import specifier_of

_CLAUSE = re.compile(r"(\^|~(?!=)|={1,3}|[~!<>]=|[<>])?\s*v?([0-9][^\s,]*)\s*,?\s*")

_NUMBERS = re.compile(r"\d{1,9}(?:\.\d{1,9})*")  # Python refuses to count further than 4300 digits


def specifier(constraint: str) -> str | None:
    """The specifier of a constraint, "" if it allows everything; None if it says something else.

    ``^1.2``, ``~1.2``, ``1.2.*`` and a version alone are Poetry's own; alternatives are kept as alternatives.
    """
    alternatives = [_alternative(part.strip()) for part in constraint.replace("||", "|").split("|")]
    if "" in alternatives:
        return ""
    found = [alternative for alternative in alternatives if alternative is not None]
    return OR.join(found) if len(found) == len(alternatives) else None


def _alternative(text: str) -> str | None:
    if text == "*":
        return ""
    place, found = 0, []
    while place < len(text):
        match = _CLAUSE.match(text, place)
        clause = _clause(match[1], match[2]) if match else None
        if match is None or clause is None:
            return None
        found.append(clause)
        place = match.end()
    return specifier_of(",".join(found)) if found else None


def _clause(operator: str | None, version: str) -> str | None:
    if operator in (None, "="):
        return f"=={version}"
    if operator not in ("^", "~"):
        return f"{operator}{version}"
    parts = _NUMBERS.match(version)
    if parts is None:
        return None
    numbers = [int(number) for number in parts[0].split(".")[:3]]
    # ^ keeps the first number that is not 0, ~ the second, or the only one.
    kept = next((place for place, number in enumerate(numbers) if number), len(numbers) - 1)
    if operator == "~":
        kept = min(1, len(numbers) - 1)
    end = [*numbers[:kept], numbers[kept] + 1]
    return f">={version},<{'.'.join(map(str, end))}"
