"""Output formats, one module each: ``render(report: Report, terminal: Terminal) -> str``, whole lines.

A new format is one file and one row here. A format is imported when it is used, so none costs the others start-up.
"""

from __future__ import annotations

from ds_lint.output.harmless import AZURE, JSON, LOG, TEXT, XML, harmless

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from ds_lint.diagnostics.finding import Finding, Fix
    from ds_lint.diagnostics.report import Report
    from ds_lint.output.terminal import Terminal
    from ds_lint.source.document import Document

FORMATS = {
    "full": "ds_lint.output.full",
    "concise": "ds_lint.output.concise",
    "grouped": "ds_lint.output.grouped",
    "azure": "ds_lint.output.azure",
    "github": "ds_lint.output.github",
    "gitlab": "ds_lint.output.gitlab",
    "json": "ds_lint.output.json",
    "junit": "ds_lint.output.junit",
    "markdown": "ds_lint.output.markdown_report",
    "pylint": "ds_lint.output.pylint",
    "rdjson": "ds_lint.output.rdjson",
    "sarif": "ds_lint.output.sarif",
}
_LANGUAGES = {
    "azure": AZURE, "github": LOG, "gitlab": JSON, "json": JSON, "junit": XML, "rdjson": JSON, "sarif": JSON,
}  # fmt: skip
HTML = "html"  # the page about training runs, which is a report beside another one
WITH_TRIED_FIXES = ("rdjson",)  # which offer only the fixes that would be applied, as what people read does
FOR_PROGRAMS = ("gitlab", "json", "junit", "pylint", "rdjson", "sarif")  # which want a report even on no file


def renderer(name: str) -> Callable[[Report, Terminal], str]:
    """The ``render`` function of the format with this name."""
    module = __import__(FORMATS[name], fromlist=["render"])  # importlib costs more than the whole of ``full``
    return harmlessly(module.render, name)


def harmlessly(render: Callable[[Report, Terminal], str], name: str) -> Callable[[Report, Terminal], str]:
    """A ``render`` whose text no program takes for its commands, and that shows no secret."""
    language = _LANGUAGES.get(name, TEXT)

    def rendered(report: Report, terminal: Terminal) -> str:
        documents = _documents(report)
        secret = _with_secret_fixes(report, documents) if name in FOR_PROGRAMS and documents else []
        for finding, _ in secret:
            finding.fix = None
        text = harmless(render(report, terminal), language, documents)
        for finding, fix in secret:  # another report may follow
            finding.fix = fix
        return text

    return rendered


def _with_secret_fixes(report: Report, documents: list[Document]) -> list[tuple[Finding, Fix | None]]:
    """The findings whose fixes would write a secret."""
    from ds_lint.output import secrets

    known = secrets.secrets_of(documents)
    return [(finding, finding.fix) for finding in report.findings if secrets.would_write(finding, known)]


def _documents(report: Report) -> list[Document]:
    """The documents that a report quotes; a clean one quotes none."""
    if not report.findings and not report.smoke:
        return []
    return [document for file in report.files for document in (file.document, *(file.material or ()))]
