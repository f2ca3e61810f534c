"""The records of the store of advisories, as far as they say in which releases a defect is and how that was proved."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from tools.releases_of.question import TIMEOUT, Question
from tools.releases_of.ranges import Stretch
from tools.releases_of.trees import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

CLAIMS = ROOT / "tests" / "advisories" / "claims"


class Proof(NamedTuple):
    """A claim that was run."""

    question: Question
    right: str
    measured: Mapping[str, str]  # by release


class Advisory(NamedTuple):
    """A record of the store; its fields are changed in place by those who write the store."""

    content: dict[str, Any]

    @property
    def id(self) -> str:
        """What it is called."""
        return str(self.content["id"])

    @property
    def libraries(self) -> dict[str, list[dict[str, Any]]]:
        """The stretches of each library, each perhaps with the pattern that finds it."""
        found: dict[str, list[dict[str, Any]]] = self.content["libraries"]
        return found

    def stretches(self, library: str) -> list[Stretch]:
        """The releases of a library that have the defect; several libraries mean all of them."""
        return [Stretch(one["introduced"], one["fixed"]) for one in self.libraries.get(library, [])]

    def affects(self, releases: Mapping[str, str]) -> bool:
        """Whether the defect is in these releases, as the store has it; a library that is not there has none."""
        return all(
            library in releases and any(part.has(releases[library]) for part in self.stretches(library))
            for library in self.libraries
        )

    def proof(self, claims: Path = CLAIMS) -> Proof | None:
        """The proof by a run, where the record has one."""
        proof = self.content["proof"]
        if proof["kind"] != "run":
            return None
        question = Question(
            claim=claims / f"{proof['claim']}.py",
            arguments=tuple(proof.get("arguments", ())),
            library=proof.get("library", "deepspeed"),
            ranks=proof.get("ranks", 1),
            beside=proof.get("needs", {}),
            timeout=proof.get("timeout", TIMEOUT),
        )
        return Proof(question, str(proof["right"]), proof["measured"])


def read(path: Path) -> list[Advisory]:
    """The records of a store, or of a list of records."""
    content = json.loads(path.read_text(encoding="utf-8"))
    return [Advisory(one) for one in (content["advisories"] if isinstance(content, dict) else content)]
