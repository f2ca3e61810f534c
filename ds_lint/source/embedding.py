"""A config that is written within a file of another language, as a document in the text of that file."""

from __future__ import annotations

from ds_lint.source.parts import in_place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.source.document import Document
    from ds_lint.source.parts import Places


def embedded(document: Document, text: str, places: Places) -> Document:
    """A document of a text that is put together, as one in the text of its file."""
    if document.root is not None:
        in_place(document.root, places)
    for issue in document.issues:
        issue.span = places.span(issue.span)
        if issue.related is not None:
            issue.related = places.span(issue.related)
        if issue.kind == "template":
            issue.found = text[issue.span.start : issue.span.end]
    document.text = text
    document.stand_ins = [*map(places.span, document.stand_ins), *places.stand_ins]
    document.places = places if document.places is None else document.places.within(places)
    if document.comments is not None:
        document.comments = [places.span(comment) for comment in document.comments]
    return document
