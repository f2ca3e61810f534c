"""Output formats, one module each: ``render(report: Report, terminal: Terminal) -> str``, the text ends with a newline.

A new format is one file and one row here. A format is imported when it is used, so none costs the others start-up.
"""

from __future__ import annotations

from ds_lint.output.harmless import JSON, LOG, TEXT, XML, harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ds_lint.diagnostics.report import Report
    from ds_lint.output.terminal import Terminal
    from ds_lint.source.document import Document

FORMATS = {
    "full": "ds_lint.output.full",
    "concise": "ds_lint.output.concise",
    "github": "ds_lint.output.github",
    "gitlab": "ds_lint.output.gitlab",
    "json": "ds_lint.output.json",
    "junit": "ds_lint.output.junit",
    "sarif": "ds_lint.output.sarif",
}
_LANGUAGES = {"gitlab": JSON, "json": JSON, "junit": XML, "sarif": JSON, "github": LOG}
FOR_PROGRAMS = ("gitlab", "json", "junit", "sarif")  # which want a report even on no file


def renderer(name: str) -> Callable[[Report, Terminal], str]:
    """The ``render`` function of the format with this name."""
    module = __import__(FORMATS[name], fromlist=["render"])  # importlib costs more than the whole of ``full``
    return harmlessly(module.render, name)


def harmlessly(render: Callable[[Report, Terminal], str], name: str) -> Callable[[Report, Terminal], str]:
    """A ``render`` whose text no program takes for its commands, and that shows no secret."""
    language = _LANGUAGES.get(name, TEXT)

    def rendered(report: Report, terminal: Terminal) -> str:
        documents = _documents(report)
        if name in FOR_PROGRAMS and documents:
            from ds_lint.output import secrets

            known = secrets.secrets_of(documents)
            for finding in report.findings:
                if secrets.would_write(finding, known):
                    finding.fix = None
        return harmless(render(report, terminal), language, documents)

    return rendered


def _documents(report: Report) -> list[Document]:
    """The documents that a report quotes; a clean one quotes none."""
    if not report.findings and not report.smoke:
        return []
    return [document for file in report.files for document in (file.document, *(file.material or ()))]
