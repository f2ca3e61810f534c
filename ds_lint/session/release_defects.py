"""Which defects configs reach with each release of a library, for the choice of one."""

from __future__ import annotations

from ds_lint.knowledge.advisories import advisories, affected_releases, known_releases
from ds_lint.knowledge.keys import Target, knowledge
from ds_lint.record import Record, field
from ds_lint.semantics import configs
from ds_lint.semantics.reached_advisories import reaches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ds_lint.semantics.config import Config
    from ds_lint.session.context import LintContext
    from ds_lint.source.document import Document


class Defects(Record):
    """What configs reach with releases of one library from the old one on: ids of advisories, by release.

    ``possible`` are those of which a fact is not known. A defect of several libraries together is left out: the
    releases of the others are not those of an upgrade.
    """

    library: str
    certain: dict[str, list[str]] = field(factory=dict)
    possible: dict[str, list[str]] = field(factory=dict)

    def least(self) -> str:
        """The newest of the releases that reach the fewest defects, those that certainly apply counted first."""
        return min(reversed(self.certain), key=lambda one: (len(self.certain[one]), len(self.possible[one])))


def defects(library: str, since: str, linted: Iterable[tuple[Document, LintContext]]) -> Defects:
    """What these configs reach with a release and all newer ones."""
    known = known_releases(library)
    releases = known[known.index(since) :]
    found = Defects(library, {one: [] for one in releases}, {one: [] for one in releases})
    alone = {
        record["id"]: (record, affected)
        for record in advisories().values()
        if list(record["libraries"]) == [library]
        and (affected := affected_releases(library, record["libraries"][library], releases))
    }
    reached: dict[str, bool] = {}
    for document, context in linted:
        for basis in context.bases(document):
            at: dict[str, Config] = {}
            for id_, (record, affected) in alone.items():
                if reached.get(id_) or id_ in basis.skipped_advisories:
                    continue
                if (last := affected[-1]) not in at:
                    target = Target(**{library: last})
                    at[last] = configs.from_document(document, basis.but(knowledge=knowledge(target)))
                answer = reaches(at[last], record)
                if answer is not False:
                    reached[id_] = answer is True
    for id_, is_certain in reached.items():
        for release in alone[id_][1]:
            (found.certain if is_certain else found.possible)[release].append(id_)
    return found
