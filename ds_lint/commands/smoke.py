"""``ds-lint smoke -- COMMAND``: a few training steps of the user's own script, checked and reported."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from ds_lint.commands import progress
from ds_lint.commands.failures import WRONG_USAGE, complain
from ds_lint.commands.other_reports import STANDARD_OUTPUT, reports_of
from ds_lint.commands.report import finish
from ds_lint.diagnostics.report import Complaint
from ds_lint.knowledge import tables
from ds_lint.launches.launchers import by_program
from ds_lint.linter.choice import choose
from ds_lint.linter.engine import every_rule
from ds_lint.output.smoke import outcome
from ds_lint.project.globs import relative
from ds_lint.semantics import configs
from ds_lint.session import verdicts
from ds_lint.session.command_line import launches_of
from ds_lint.session.material import with_material
from ds_lint.session.session import Session
from ds_lint.smoke.processes.client import CouldNotRun, ended_by_signal
from ds_lint.smoke.records.fsdp_trace import TORCH
from ds_lint.smoke.script import fsdp_predictions
from ds_lint.smoke.script.follower import follow
from ds_lint.smoke.script.gathering import Nodes, name_of, rank_of_node
from ds_lint.smoke.script.predictions import with_predictions
from ds_lint.smoke.script.proof import Follows, ScriptRunOptions, prove
from ds_lint.smoke.script.sharded_script import script_at
from ds_lint.smoke.small_run import devices
from ds_lint.source import documents
from ds_lint.source.dialect import hjson_refusal, json_refuses
from ds_lint.source.files import bytes_of
from ds_lint.source.tree import dotted, plain
from ds_lint.targets.distributions import installed

if TYPE_CHECKING:
    from ds_lint.diagnostics.report import FileReport
    from ds_lint.diagnostics.rule import Rule
    from ds_lint.diagnostics.verdict import Verdict
    from ds_lint.facts.launched import LaunchFacts
    from ds_lint.launches.launch import Launch
    from ds_lint.semantics.config import Config
    from ds_lint.session.context import LintContext
    from ds_lint.session.options import Options
    from ds_lint.smoke.records.engine_trace import EngineTrace
    from ds_lint.smoke.records.fsdp_trace import FsdpTrace
    from ds_lint.smoke.script.proof import WithoutEngine
    from ds_lint.source.document import Document
    from ds_lint.source.tree import KeyPath

_NO_CONFIG = "<config of the script>"
_SAVING = "saving"  # the family of rules
_OF_INFERENCE = "<init_inference of the script>"


class ScriptSmoke(NamedTuple):
    """The options of ``smoke`` itself."""

    command: list[str]
    run_options: ScriptRunOptions
    config: str | None = None  # the file that the script trains with, if the command does not tell
    nodes: int | None = None  # on each of which this is started; None: as many as the launcher has
    node_timeout: float = 300.0  # seconds for all of them to start


def smoke(options: Options, own: ScriptSmoke) -> int:
    """Run the command, print the report, and return the exit status."""
    unable: list[Complaint] = []
    try:
        files = [one.path for one in reports_of(options.report) if one.path != STANDARD_OUTPUT]
        _demand_places(*files, options.output_file, keep=own.run_options.keep)
        session = Session(options)
        configs_of_script = ConfigsOfScript(own, session)
        run_options = own.run_options._replace(uses_cpu=own.run_options.uses_cpu or devices.visible() == 0)
        if configs_of_script.may_leave_node and run_options.folder is None:
            run_options = run_options._replace(folder=os.curdir)  # which nodes usually share
        run_options = run_options._replace(nodes=configs_of_script.nodes)
        with ended_by_signal(), progress.shown(1, quiet=options.quiet) as show:
            found, without = prove(own.command, run_options, configs_of_script.of_engine, show.config(own.command[0]))
            show.done(", ".join(outcome(one.verdict) for one in found) or "could not run")
    except Follows as follows:
        return _follow(follows, own.command)
    except CouldNotRun as error:
        return complain(error)
    except WRONG_USAGE as error:
        return complain(error)
    linted = configs_of_script.linted(without)
    for one in found:
        report, context = configs_of_script.report_of(one.config)
        size = one.config.world_size
        if one.is_of_fsdp:
            verdict = fsdp_predictions.with_predictions(one.verdict, report)
        else:
            verdict = with_predictions(one.verdict, report, one.seen, own.command, size, is_by_all=_is_by_all(context))
        add_verdict(report, context, verdict, unable)
    if without is not None and (without.verdict.error is not None or not linted):
        unable.append(Complaint(None, f"the script could not be checked: {without.why}"))
    return finish(options, linted, session.notes, unable, can_fix=False)


def _follow(one: Follows, command: list[str]) -> int:
    """Take part in the run of another node."""
    try:
        with ended_by_signal():
            return follow(one.follower, command)
    except CouldNotRun as error:
        return complain(error)


def _demand_places(*files: str | None, keep: str | None) -> None:
    """Find out before minutes of training whether what they give can be written."""
    for file in filter(None, files):
        folder = os.path.dirname(os.path.abspath(file))
        if not os.path.isdir(folder):
            raise CouldNotRun(f"{file} cannot be written: there is no folder {os.path.dirname(file)}")
        if not os.access(file if os.path.exists(file) else folder, os.W_OK):
            raise CouldNotRun(f"{file} cannot be written: permission denied")
    folder = os.path.abspath(keep or os.curdir)
    while not os.path.lexists(folder):  # it is made
        folder = os.path.dirname(folder)
    if keep is not None and not (os.path.isdir(folder) and os.access(folder, os.W_OK)):
        raise CouldNotRun(f"{keep} (--keep) cannot be written: {relative(folder, os.curdir)} is not a writable folder")


def add_verdict(report: FileReport, context: LintContext, verdict: Verdict, unable: list[Complaint]) -> None:
    """Add the run of an engine to the report on its config, with its findings."""
    verdicts.add_verdict(report, context, verdict)
    if verdict.status == "error":
        why = verdict.error or next((check.message for check in verdict.checks if check.status == "error"), "")
        complaint = Complaint(None, f"{report.path}: the run of the script is incomplete", why)
        unable += [complaint] if complaint not in unable else []  # of several engines of one config


class ConfigsOfScript:
    """The configs of a script's engines, linted with what its command tells."""

    def __init__(self, own: ScriptSmoke, session: Session) -> None:
        self._session = session
        self._command = own.command
        self._target = choose("", {}, installed("")).newest
        launches = launches_of(own.command)
        every = [launch.launch for launch, _ in launches]
        number = own.nodes or max((_started_on(launch) for launch in every), default=1)
        script = next((launch.script for launch in every if launch.script), None) or own.command[0]
        self.nodes: Nodes | None = None
        if number > 1:
            name = name_of(script, number, os.environ)
            self.nodes = Nodes(number, rank_of_node(own.command, os.environ), name, own.node_timeout)
        self.may_leave_node = self.nodes is not None or _may_leave_node(
            own.command, [launch.launch for launch, _ in launches]
        )
        self._launch: LaunchFacts | None = launches[0][0] if len(launches) == 1 else None
        self._configs: dict[int, Config] = {}  # by the number of the engine
        self._reports: dict[str, tuple[FileReport, LintContext]] = {}
        self._scripts: dict[str, Document] = {}
        if own.config is not None:
            found = [_config_at(own.config)]
        else:
            found = [_config_at(path, launch) for launch, named in launches for path in named]
        self._named = [document for document in found if document is not None]
        if own.config is not None and any(map(_is_unreadable, self._named)):
            raise CouldNotRun(f"{own.config} cannot be read by any library; run ds-lint check to see why")
        if own.config is not None and not os.path.exists(own.config):
            raise CouldNotRun(f"{own.config} (--config) does not exist")
        if own.config is not None and not self._named:
            raise CouldNotRun(f"{own.config} holds no DeepSpeed config")

    def of_engine(self, engine: EngineTrace) -> Config:
        """The config of an engine as the user wrote it; if it is in no file that is known, as DeepSpeed gets it."""
        if engine.number not in self._configs:
            self._configs[engine.number] = self._config_of(engine)
        return self._configs[engine.number]

    def _config_of(self, engine: EngineTrace) -> Config:
        if engine.fsdp is not None:
            return self._of_sharded(engine, engine.fsdp)
        path = engine.config_path
        named = [] if engine.is_inference else self._documents(path)
        document = next((one for one in named if path is not None or self._makes(one, engine)), None)
        if document is None:
            document = documents.from_dict(_of_script(engine))
            document.path = _NO_CONFIG if not self._reports else f"{_NO_CONFIG} {engine.number}"
            if engine.is_inference:
                document.path = _OF_INFERENCE if not self._reports else f"{_OF_INFERENCE} {engine.number}"
        report, context = self._lint(document, engine)
        basis = context.basis.but(policies=())
        if self._launch is not None:
            basis = with_material(self._launch, basis)
        return configs.from_document(report.document, basis)

    def _of_sharded(self, engine: EngineTrace, own: FsdpTrace) -> Config:
        """The YAML of Accelerate that asks for FSDP, or the script that wraps the model."""
        document = next((one for one in self._named if one.kind == "accelerate"), None)
        if document is None or own.stack == TORCH:
            document = self._scripts.get(own.script) or script_at(own.script, _NO_CONFIG)
            self._scripts[own.script] = document
        report, context = self._lint(document, engine)
        return configs.from_document(report.document, context.basis.but(policies=()))

    def _makes(self, document: Document, engine: EngineTrace) -> bool:
        """Whether the config of an engine has every value of a file that is not ``"auto"``.

        Accelerate and frameworks change values of a YAML for the engine that they train. The copy for an engine without
        an optimizer, such as a reference model, is a config of its own.
        """
        if document.kind == "deepspeed":
            return document.root is None or _is_made_of(engine.config, plain(document.root))
        made = configs.from_document(document, self._session.context(document.path).basis).root
        return made.kind == "object" and (engine.is_trained or _is_made_of(engine.config, plain(made)))

    def _documents(self, path: str | None) -> list[Document]:
        if path is None:
            return self._named
        same = [one for one in self._named if os.path.realpath(one.path) == os.path.realpath(path)]
        return same or [one for one in [_config_at(relative(path, os.curdir))] if one is not None]

    def _lint(self, document: Document, engine: EngineTrace | None = None) -> tuple[FileReport, LintContext]:
        if document.path not in self._reports:
            context = self._session.context(document.path)
            if engine is not None:  # the run shows its stack, whatever ``--stack`` is
                facts = context.basis.facts.copy()
                facts.optimizer = engine.optimizer or (None if engine.is_trained or engine.is_refused else "")
                is_unsaid = facts.world_size is None and facts.nodes is None
                if is_unsaid and self._launch is not None and self._launch.world_size != engine.counted_ranks:
                    facts.world_size = engine.counted_ranks  # the environment may set it, or the script a pipeline
                    facts.tell("world size", f"{engine.counted_ranks}, by the run")
                context = context.about(facts, None if engine.fsdp is not None else engine.stack)
            if self._launch is not None:
                context = context.launched_by([self._launch])
            if engine is not None and engine.evaluated is not None:
                context = context.by(_rules_of(engine, context))
            self._reports[document.path] = context.lint(document, context.rules), context
        return self._reports[document.path]

    def report_of(self, config: Config) -> tuple[FileReport, LintContext]:
        """The report on a config of an engine."""
        return self._reports[config.document.path]

    def linted(self, without: WithoutEngine | None) -> list[tuple[FileReport, LintContext]]:
        """The reports on the configs of all engines; without any engine, on the config that the command names."""
        if not self._reports:
            files = [one for one in self._named if one.kind == "deepspeed"]  # a YAML of Accelerate may name it
            for document in (files or self._named)[:1]:
                report, context = self._lint(document)
                report.smoke = []
                if without is not None:
                    is_by_all = _is_by_all(context)
                    verdict = without.verdict._replace(path=report.path, stack=report.stack or without.verdict.stack)
                    verdict = with_predictions(verdict, report, without.seen, self._command, None, is_by_all=is_by_all)
                    verdicts.add_verdict(report, context, verdict)
        return list(self._reports.values())


def _rules_of(engine: EngineTrace, context: LintContext) -> list[Rule]:
    """The rules about the config of an engine that trains nothing: what training saves does not matter.

    The config of ``init_inference`` is not that of a training.
    """
    chosen = context.rules if context.rules is not None else [rule for rule in every_rule() if rule.is_on]
    return [rule for rule in chosen if rule.kind == "run" or not (engine.is_inference or rule.family == _SAVING)]


def _may_leave_node(command: list[str], launches: list[Launch]) -> bool:
    """Whether a command may start ranks on other nodes than this one."""
    programs = by_program()
    names = (os.path.basename(word) for word in command)
    is_around = any(programs[name].is_around for name in names if name in programs)
    return is_around or any(launch.nodes != 1 or launch.around for launch in launches)


def _started_on(launch: Launch) -> int:
    """The nodes on each of which the user starts a launcher; 1 if it starts on the others what it needs there."""
    is_started_on_each = launch.launcher in ("torchrun", "accelerate") and not launch.around
    return (launch.nodes or 1) if is_started_on_each and launch.surroundings.machines is None else 1


def _of_script(engine: EngineTrace) -> dict[str, Any]:
    """The config of an engine without what a library, and not the script, has put into it.

    TRL writes names with dots, such as ``zero_optimization.reduce_bucket_size``, beside the sections of a reference
    model (``prepare_deepspeed`` in trl/models/utils.py). Nothing reads them.
    """
    config = engine.config or {}
    if engine.is_trained or engine.optimizer or engine.is_refused:
        return config
    return {name: value for name, value in config.items() if "." not in name}


def _is_by_all(context: LintContext) -> bool:
    """Whether a config is linted by all rules that are on by default."""
    return context.rules is None or {rule.code for rule in every_rule() if rule.is_on} <= (context.codes or set())


def _is_unreadable(document: Document) -> bool:
    """Whether no library reads the text."""
    return bool(json_refuses(document)) and hjson_refusal(document) is not None


def _config_at(path: str, launch: LaunchFacts | None = None) -> Document | None:
    """The one DeepSpeed config in a file; None if a launch that names the file cannot mean it as one."""
    try:
        found = documents.configs_in(bytes_of(path), path)
    except OSError:
        return None
    known = [one for one in found if one.kind in ("deepspeed", "accelerate", "recipe")]
    if launch is not None:
        known = [one for one in known if launch.may_name(one)]
    return known[0] if len(known) == 1 else None


def _is_made_of(config: object, written: object) -> bool:
    """Whether a config has every value of another one that is not ``"auto"`` or overwritten by a stack."""
    overwritten = {key for library in ("transformers", "accelerate") for key in tables.load(library)["overwrites"]}
    return _agrees(written, config, (), overwritten)


def _agrees(written: object, given: object, path: KeyPath, overwritten: set[str]) -> bool:
    if isinstance(written, dict):
        return isinstance(given, dict) and all(
            _agrees(value, given.get(name), (*path, name), overwritten) for name, value in written.items()
        )
    return written == "auto" or given is None or written == given or dotted(path) in overwritten
