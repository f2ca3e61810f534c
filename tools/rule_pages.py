"""Hold the examples of the rule pages to what ds-lint says about them now.

    python -m tools.rule_pages            check: exit status 1 where a page says something else
    python -m tools.rule_pages --write    rewrite the findings, the fixed configs and the table of every page

Messages change while rules are worked on; they should not be typed into a page by hand. What ``--write``
changes is to be read before it is committed: the page is the promise, and ds-lint may be what is wrong. Examples of
training runs are left as they are where DeepSpeed is not installed.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from ds_lint import __version__
from ds_lint.checkpoints.record import EngineState, SavedFolder
from ds_lint.diagnostics.finding import EFFECTS, SEVERITIES
from ds_lint.diagnostics.report import FileReport, Report
from ds_lint.facts.checkpoints import Checkpoint
from ds_lint.facts.launched import LaunchFacts
from ds_lint.facts.policy import Policy
from ds_lint.facts.readers import gather
from ds_lint.fixes.application import fix
from ds_lint.knowledge.keys import knowledge
from ds_lint.launches import files
from ds_lint.launches.keyword_calls import keyword_calls
from ds_lint.launches.recipe import recipe_of
from ds_lint.launches.training_script import read_training_script
from ds_lint.linter.choice import choose
from ds_lint.linter.engine import every_rule
from ds_lint.linter.lint import lint, suppress
from ds_lint.output import concise
from ds_lint.output.terminal import Terminal
from ds_lint.project.launches import at_once
from ds_lint.rule_pages import pages
from ds_lint.semantics.basis import Basis
from ds_lint.session.absent_names import documents_with_absent_names
from ds_lint.session.composed import composed_config
from ds_lint.session.launch_variables import LaunchVariables
from ds_lint.session.launched_words import documents_with_launched_words
from ds_lint.session.material import linted
from ds_lint.session.options import Options
from ds_lint.session.session import Session
from ds_lint.source import documents
from ds_lint.source.absent_name import AbsentName
from ds_lint.source.absent_name import document_of as document_with_names
from ds_lint.source.document import Document, SyntaxIssue
from ds_lint.source.files import MOST_BYTES, ON_DISK, Files
from ds_lint.source.launcher_words import LauncherWords
from ds_lint.source.script_words import ScriptWords
from ds_lint.targets.combination import pins_of
from ds_lint.targets.pin import LIBRARIES, Pin
from ds_lint.targets.requirements_file import requirements
from tools import runs
from tools.differences import show

if TYPE_CHECKING:
    from ds_lint.diagnostics.rule import Rule
    from ds_lint.launches.launch import Launch
    from ds_lint.launches.training_script import TrainingScript

NAME = "config.json"  # what an example is called while it is checked
YAML_NAME = "accelerate.yaml"  # and one in YAML
HYDRA_NAME = "example/config.yaml"  # and one that Hydra composes
PYTHON_NAME = "train.py"  # and one in Python
SHELL_NAME = "run.sh"  # and a launch
POLICY_NAME = "org.schema.json"  # and its policy
MIXED = (
    "the files of rank 1 are of another run or step, with optimizer steps 50 instead of 100: nothing raises, and the "
    "states of the ranks do not belong together"
)


def lint_example(example: pages.Example, rule: Rule | None = None, *, document: Document | None = None) -> FileReport:
    """What ds-lint says about an example, or about another document under its options.

    The rule of its page runs even if it is off by default.
    """
    document = document or document_of(example)
    if example.is_run:
        return runs.lint_run(example, document)
    rules = [one for one in every_rule() if one.is_on or one is rule]

    pins = pins_of_example(example)
    basis = Basis(
        knowledge(choose("", {}, pins).newest if pins else example.target),
        example.stack,
        gather(example.facts),
        policies=[Policy(POLICY_NAME, json.loads(example.policy))] if example.policy else [],
        before=knowledge(example.before) if example.before else None,
        is_upgrade=example.before is not None,
        pins=pins,
    )

    def checked(basis: Basis) -> FileReport:
        report = lint(document, basis, rules)
        suppress(report, rules, lambda only: lint(document, basis, only))
        return report

    launch = launch_of(example)
    return checked(basis) if launch is None else linted(basis, [launch], checked)


def pins_of_example(example: pages.Example) -> dict[str, Pin]:
    """What the requirements beside an example pin, and the releases that it names itself."""
    text = example.files.get(pages.REQUIREMENTS, "")
    pins = {pin.library: pin for pin in pins_of(list(requirements(text, pages.REQUIREMENTS)))}
    for library in LIBRARIES:
        if (release := getattr(example.target, library)) is not None and library not in pins:
            pins[library] = Pin(library, f"=={release}", f"--{library}-version")
    return pins


def launch_of(example: pages.Example) -> LaunchFacts | None:
    """The first launch in the files beside an example; None if there is none."""
    for name, text in example.files.items():
        kind = files.kind_of(name, text.encode())
        if kind != "shell":
            continue
        for launch in files.launches(text, name, kind, example.files.get).launches:
            script = example.files.get(launch.script or "")
            shown = None if script is None else read_training_script(script)
            folder = "example/" if "hydra" in (script or "") else ""  # which has no modules beside the script
            held = None if script is None else Document(f"{folder}{launch.script}", script, None, [])
            facts = LaunchFacts(
                launch, Document(name, text, None, []), shown, held, recipe_beside(example, launch, shown)
            )
            facts.variables = LaunchVariables("", ON_DISK).of(facts)  # whose project has no other files
            if folder:
                facts.composed = composed_config(facts, lambda _: None, ExampleFiles(example))
            if example.checkpoint is not None:
                facts.checkpoint = checkpoint_of(example.checkpoint)
            return facts
    return None


def checkpoint_of(word: str) -> Checkpoint:
    """The checkpoint of an example: its ranks, its stage, weights alone, or files of two steps."""
    if word == "weights":
        return Checkpoint(
            "ckpt", "ckpt", None, SavedFolder("safetensors", partition="none", why_none="it has weights only")
        )
    if word.isdigit():
        return Checkpoint("ckpt/global_step100", "ckpt", int(word))
    engine = EngineState(tag="global_step100", data_ranks=8, config={"bf16": {"enabled": True}}, has_partitions=True)
    stage, mistakes = (2, [MIXED]) if word == "mixed" else (int(word[-1]), [])
    saved = SavedFolder("deepspeed", stage=stage, ranks=8, partition="same", engine=engine, mistakes=mistakes)
    return Checkpoint("ckpt/global_step100", "ckpt", 8, saved)


def recipe_beside(example: pages.Example, launch: Launch, script: TrainingScript | None) -> Document | None:
    """The recipe in the files beside an example that a launch starts with; None if there is none."""
    named = recipe_of(launch, script)
    text = example.files.get(named.path) if named is not None else None
    return None if named is None or text is None else documents.from_text(text, named.path)


def document_of(example: pages.Example) -> Document:
    """The document of an example: YAML is for ``accelerate launch``, Python holds one config, Bash names files."""
    if example.language == "bash":
        return names_of(example)
    if example.language == "python":
        found = documents.configs_in(example.data, PYTHON_NAME)
        calls = [] if found else keyword_calls(example.config, "", None)
        if calls:
            return document_with_names(PYTHON_NAME, example.config, calls)
        (document,) = found or documents.unparsed(example.data, PYTHON_NAME, is_named=True)
        return document
    if example.language == "yaml" and any("hydra" in text for text in example.files.values()):
        (document,) = documents.within(example.data, HYDRA_NAME, "yaml")
        return document
    return documents.from_bytes(example.data, YAML_NAME if example.language == "yaml" else NAME)


class ExampleFiles(Files):
    """The config of an example, as the file that Hydra looks for."""

    __slots__ = ("_example",)

    def __init__(self, example: pages.Example) -> None:
        self._example = example

    def bytes_of(self, path: str, most: int = MOST_BYTES) -> bytes:
        """The content of a file. Raises OSError."""
        if path != HYDRA_NAME or len(self._example.data) > most:
            raise FileNotFoundError(path)
        return self._example.data


def names_of(example: pages.Example) -> Document:
    """A launch with the files beside it, and its names that lead nowhere."""
    with TemporaryDirectory() as folder:
        for name, text in {**example.files, SHELL_NAME: example.config}.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        paths, session = [str(Path(folder, SHELL_NAME))], Session(Options(paths=[]))
        found = documents_with_absent_names(paths, [], [], session, at_once)
        found += documents_with_launched_words(paths, [], session, at_once)
    issues: list[SyntaxIssue] = [
        issue for one in found for issue in one.issues if isinstance(issue, (AbsentName, ScriptWords, LauncherWords))
    ]
    return document_with_names(SHELL_NAME, example.config, issues)


def fixed(example: pages.Example, rule: Rule, safeties: tuple[str, ...]) -> str:
    """What the fixes make of the config of an example."""

    def by_its_options(document: Document) -> FileReport:
        return lint_example(example, rule, document=document)

    return fix(document_of(example), by_its_options, safeties).document.text


def lines(report: FileReport) -> list[str]:
    """The findings in the concise format, without the path of the config."""
    text = concise.render(Report([report], __version__), Terminal())
    return [line.removeprefix(f"{report.path}:") for line in text.splitlines()[: len(report.findings)]]


def corrected(text: str, rule: Rule) -> str:
    """The page as it would read if its findings, its fixed configs and its table were right."""
    for example in reversed(pages.examples(text)):
        if example.kind == "bad" and runs.can_run(example):
            if example.fixed is not None:
                span = example.fixed.span
                text = text[: span.start] + fixed(example, rule, example.fixed.safeties) + text[span.end :]
            span = example.findings_span
            found = "".join(f"{line}\n" for line in lines(lint_example(example, rule)))
            text = text[: span.start] + found + text[span.end :]
    return _with_table(text, rule)


def _with_table(text: str, rule: Rule) -> str:
    """The row of the table, filled with the severities and effects that the bad examples show; ``since`` is kept."""
    since = pages.row(text).since
    if not all(map(runs.can_run, pages.examples(text))):
        return text
    shown = [finding for example in pages.examples(text) for finding in lint_example(example, rule).findings]
    own = [finding for finding in shown if finding.code == rule.code]
    if not own:
        raise pages.PageError("no example has a finding of the rule")
    severities = ", ".join(sorted({finding.severity for finding in own}, key=SEVERITIES.index))
    effects = ", ".join(sorted({finding.effect for finding in own}, key=EFFECTS.index))
    before, table, after = text.partition(pages.TABLE)
    _, end, rest = after.partition("\n")
    return f"{before}{table}| {severities} | {effects} | {since} |{end}{rest}"


def main() -> int:
    """Check or rewrite every page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("codes", nargs="*", metavar="CODE", help="the rules (default: all)")
    parser.add_argument("--write", action="store_true", help="rewrite what is wrong")
    options = parser.parse_args()
    rules = [rule for rule in every_rule() if not options.codes or rule.code in options.codes]
    wrong = [rule for rule in rules if not _is_right(rule, write=options.write)]
    sys.stdout.write(f"{len(rules)} rules, {len(wrong)} wrong pages\n")
    return 1 if wrong else 0


def _is_right(rule: Rule, *, write: bool) -> bool:
    """Whether the page of a rule is right, or was put right."""
    path = Path(pages.path(rule))
    try:
        text = pages.page(rule)
        right = corrected(text, rule)
    except (FileNotFoundError, pages.PageError) as error:
        sys.stderr.write(f"{path.name}: {error}\n")
        return False
    if text == right:
        return True
    if write:
        path.write_text(right, encoding="utf-8", newline="\n")
        sys.stdout.write(f"rewrote {path.name}\n")
    else:
        show(path.name, text, right)
    return write


if __name__ == "__main__":
    sys.exit(main())
