"""The input of every output format: the checked files and their findings."""

from __future__ import annotations

from ds_lint.diagnostics.finding import SEVERITIES, Related
from ds_lint.record import Record, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dataclasses import KW_ONLY

    from ds_lint.diagnostics.finding import Finding, Stack, Unfixed
    from ds_lint.diagnostics.rule import Rule
    from ds_lint.diagnostics.verdict import Verdict
    from ds_lint.source.document import Document


class FileReport(Record):
    """One checked config, what it was checked against, and its findings in the order of the text.

    ``stacks`` are those that may load the file, if more than one may. ``missing`` names the facts that were not
    known, and ``facts`` what was known and its source, by the same names. ``ranges`` has the oldest and the newest
    release of each library of which several were linted, and ``sources`` the source of the releases.
    ``material`` are documents that findings point into beside the config.
    ``suppressed`` counts the findings that comments in the file suppress, ``in_baseline`` those in a baseline.
    ``fixed`` are the findings that are no longer there, because their fixes were applied; None if no fixes were
    requested. ``unfixed`` are those whose fixes were tried and not applied; ``may_be_unfixable`` says that fixes were
    left untried. ``smoke`` are the training runs that were made with the file; None if none was requested. Findings
    less severe than ``fail_on`` do not count for the exit status. ``applies_unsafe`` says that ``--fix`` alone also
    applies unsafe fixes. ``possible_advisories`` are the ids of those that may
    apply, each with what is not known, in words; ``states_releases`` says whether the project or the user names a
    release, and not only the environment.
    """

    path: str
    document: Document
    _: KW_ONLY
    stack: Stack | None  # None if it is unknown
    target: dict[str, str]  # version by library, in the order in which they are named to the reader
    missing: list[str]
    findings: list[Finding]
    stacks: tuple[Stack, ...] = ()
    facts: dict[str, str] = field(factory=dict)
    material: list[Document] = field(factory=list)
    ranges: dict[str, tuple[str, str]] = field(factory=dict)
    sources: dict[str, str] = field(factory=dict)
    fixed: list[Finding] | None = None
    unfixed: list[Unfixed] = field(factory=list)
    may_be_unfixable: bool = False
    smoke: list[Verdict] | None = None  # None without a training run
    fail_on: str = "warning"
    applies_unsafe: bool = False
    suppressed: int = 0
    in_baseline: int = 0
    possible_advisories: dict[str, list[str]] = field(factory=dict)
    states_releases: bool = False

    def __post_init__(self) -> None:
        self.findings = _in_order(self.findings)

    @property
    def unreported(self) -> dict[str, int]:
        """How many findings are not reported, by what suppresses them."""
        numbers = {"comments": self.suppressed, "baseline": self.in_baseline}
        return {name: number for name, number in numbers.items() if number}

    def counts(self, finding: Finding) -> bool:
        """Whether a finding counts for the exit status."""
        return SEVERITIES.index(finding.severity) <= SEVERITIES.index(self.fail_on)

    def place(self, finding: Finding) -> Related:
        """Where a finding is shown: in the script or launch that it is about, else in the config."""
        first = finding.related[0] if finding.is_elsewhere else None
        if first is not None and first.path is not None and self.document_at(first.path) is not None:
            return first
        return Related(finding.span, finding.label, self.path)

    def related(self, finding: Finding) -> list[Related]:
        """The other places of a finding: the config, too, where it is shown elsewhere."""
        if self.place(finding) is not next(iter(finding.related), None):
            return finding.related
        return [Related(finding.span, finding.label, self.path), *finding.related[1:]]

    def document_at(self, path: str) -> Document | None:
        """The config, or what findings point into beside it; None for a file that was not read."""
        if path == self.path:
            return self.document
        return next((one for one in self.material if one.path == path), None)

    def shown_document(self, finding: Finding) -> Document:
        """The text that a finding is shown in."""
        return self.document_at(self.place(finding).path or self.path) or self.document

    def add(self, findings: list[Finding]) -> None:
        """Put findings where they are in the text."""
        self.findings = _in_order([*self.findings, *findings])


def _in_order(findings: list[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: (finding.span.start, finding.span.end, finding.code))


class Complaint(Record):
    """Why the exit status is 2: a file or folder that could not be opened, read or written, or a run that failed.

    ``stack`` and ``target`` are what a file would have been checked against; ``target`` is None if that is unknown.
    ``detail`` is what the report has elsewhere too, such as the error of a run.
    """

    path: str | None  # None if it is about no file
    summary: str
    detail: str | None = None
    stack: Stack | None = None
    target: dict[str, str] | None = None

    @property
    def reason(self) -> str:
        """All of it, without the path."""
        return self.summary if self.detail is None else f"{self.summary}: {self.detail}"

    def __str__(self) -> str:
        """The complaint as one line."""
        return self.reason if self.path is None else f"{self.path}: {self.reason}"


class Report(Record):
    """The outcome of one run. ``material`` are documents without configs that findings point into.

    ``can_fix`` says whether the command that wrote the report also applies fixes. ``unreadable`` are the complaints
    about what could not be checked. ``limit`` is how many findings of one rule and severity a report for people
    shows with their lines; 0 for all. ``is_quiet`` leaves notes and the summary out of the formats for people.
    """

    files: list[FileReport]
    version: str  # of ds-lint
    _: KW_ONLY
    notes: list[str] = field(factory=list)  # what a person should know beside the findings
    material: list[Document] = field(factory=list)
    can_fix: bool = False
    unreadable: list[Complaint] = field(factory=list)
    limit: int = 0
    is_quiet: bool = False
    named: list[str] = field(factory=list)  # the paths of the command line

    def __post_init__(self) -> None:
        self._documents = {document.path: document for document in self.material}
        self._documents.update((document.path, document) for file in self.files for document in file.material)
        self._documents.update((file.path, file.document) for file in self.files)

    @property
    def findings(self) -> list[Finding]:
        """All findings, file by file, each file's in the order of its text."""
        return [finding for file in self.files for finding in file.findings]

    @property
    def unopened(self) -> list[Complaint]:
        """The complaints about files that are not among ``files``, because they could not be opened or checked."""
        checked = {file.path for file in self.files}
        by_path = {complaint.path: complaint for complaint in self.unreadable if complaint.path not in checked}
        return [complaint for path, complaint in by_path.items() if path is not None]

    @property
    def fixed(self) -> list[Finding]:
        """The findings of all files that are no longer there, because their fixes were applied."""
        return [finding for file in self.files for finding in file.fixed or ()]

    @property
    def smoke(self) -> list[Verdict]:
        """The training runs that were made with all files."""
        return [verdict for file in self.files for verdict in file.smoke or ()]

    def document(self, path: str) -> Document | None:
        """The text at ``path``, or None if it was not read."""
        return self._documents.get(path)


def page_url(rule: Rule | Finding) -> str:
    """Where the page of a rule, or of what was found, is published."""
    from ds_lint.addresses import SITE  # which a clean check does without

    if (advisory := getattr(rule, "advisory", None)) is not None:
        return f"{SITE}advisories/{advisory}/"
    return f"{SITE}rules/{rule.code}-{rule.name}/"
