"""Where a problem with a composed config is: in the file of the mapping, in another one, or in a command."""

from __future__ import annotations

from ds_lint.diagnostics.finding import Related

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.diagnostics.problem import Problem
    from ds_lint.source.composed_places import ComposedPlaces
    from ds_lint.source.tree import Span


def placed(problem: Problem, places: ComposedPlaces, *, is_elsewhere: bool) -> tuple[Span, list[Related], bool] | None:
    """The range in the file of the mapping, the other places, and whether the first of those is where it is shown.

    None if another mapping has the problem, too, and shows it. A problem of a launch, which ``is_elsewhere``, has its
    place there anyway.
    """
    document, span = places.place(problem.span)
    if not places.counts(document):
        return None
    related = [_related(one, places) for one in problem.related]
    if is_elsewhere and related and related[0].path is not None:
        return (span if places.is_own(document) else places.opening), related, True
    if places.is_own(document):
        return span, related, False
    return places.opening, [Related(span, problem.label, document.path), *related], True


def _related(one: Related, places: ComposedPlaces) -> Related:
    if one.path is not None:
        return one
    document, span = places.place(one.span)
    return Related(span, one.label, None if places.is_own(document) else document.path)
