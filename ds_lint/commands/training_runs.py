"""``ds-lint check --smoke``: train with each config, and report the runs with the findings."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from shlex import quote
from typing import NamedTuple

from ds_lint.commands import progress
from ds_lint.commands.documents import complaints_into, documents
from ds_lint.commands.failures import WRONG_USAGE, complain
from ds_lint.commands.report import print_text
from ds_lint.diagnostics.report import Complaint
from ds_lint.diagnostics.verdict import CPU, CUDA, FAKE
from ds_lint.facts import Sources
from ds_lint.linter.choice import choose
from ds_lint.output.smoke import outcome, verdict_of
from ds_lint.output.text import counted
from ds_lint.session.options import LIMIT, Options
from ds_lint.session.session import Session
from ds_lint.session.verdicts import add_verdict
from ds_lint.smoke.processes.client import CouldNotRun, Pool, ended_by_signal, ending_signal
from ds_lint.smoke.small_run import command, devices
from ds_lint.smoke.small_run.batch_script import minutes_of, sbatch
from ds_lint.smoke.small_run.options import BUILDING, RANKS, SECONDS, RunOptions
from ds_lint.smoke.small_run.proof import PEFT, place_of, prove
from ds_lint.source import replacement
from ds_lint.targets.distributions import installed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from ds_lint.diagnostics.report import FileReport
    from ds_lint.diagnostics.verdict import Verdict
    from ds_lint.knowledge.keys import Target
    from ds_lint.session.context import LintContext
    from ds_lint.smoke.small_run.options import Runner


AUTO = "auto"  # on CPU ranks, and on the GPUs if there are any
CPU_RANKS, GPUS = "cpu", "cuda"
_NO_GPU = "nvidia-smi shows none that CUDA_VISIBLE_DEVICES does not hide"
# The options that are passed on to a launched run, beside the config.
_PASSED_ON = (
    "stack", *(fact.name for fact in Sources.options() if fact.part not in ("samples", "updates")),
    "settings", "isolated", "smoke_timeout", "smoke_build_ops", "smoke_keep", "smoke_device", "smoke_folder",
    "smoke_lora",
)  # fmt: skip
# And what a job needs to find the same configs and to report by itself.
_FOR_A_JOB = tuple(
    one.name
    for one in Options.options()
    if one.is_named and not {"job", *_PASSED_ON} & {one.name, *one.not_with.split()}
)
_REPEATED = [one.name for one in Options.options() if one.is_repeated]
_ON_OR_OFF = [one.name for one in Options.options() if one.type == "bool | None"]  # None if neither is given


class Smoke(NamedTuple):
    """The options about runs."""

    run_options: RunOptions = RunOptions(RANKS, SECONDS)
    device: str = AUTO
    folder: str | None = None  # where runs may write; None: a temporary one
    launcher: str | None = None  # the command line that starts the ranks
    passed_on: tuple[str, ...] = ()  # the options that they get
    joins: bool = False  # this process is rank 0 of ranks that a launcher started
    quiet: bool = False  # no progress is shown
    timeout: int | None = None  # the seconds of --smoke-timeout, if it is given


def smoke_of(options: Namespace) -> Smoke:
    """The same from the options of ``check``."""
    run_options = RunOptions(
        options.smoke_ranks or RANKS,
        options.smoke_timeout or SECONDS,
        options.smoke_build_ops,
        options.smoke_keep,
        has_adapters=options.smoke_lora,
    )
    return Smoke(
        run_options,
        device=options.smoke_device or AUTO,
        folder=options.smoke_folder,
        launcher=options.smoke_launch,
        passed_on=tuple(_as_flags(options, _PASSED_ON)),
        joins=options.smoke_join,
        quiet=options.quiet,
        timeout=options.smoke_timeout,
    )


def _as_flags(options: Namespace, names: tuple[str, ...]) -> list[str]:
    """The options of these names that were given, as they could be given again."""
    return [flag for name in names for flag in _as_flag(name, getattr(options, name))]


def _as_flag(name: str, value: object) -> Iterator[str]:
    option = name.replace("_", "-")
    if value is True:
        yield f"--{option}"
    elif value is False:
        yield from [f"--no-{option}"] if name in _ON_OR_OFF else []
    elif isinstance(value, list) and name in _REPEATED:
        yield from (f"--{option}={one}" for one in value)
    elif isinstance(value, list):
        yield f"--{option}={','.join(value)}"
    elif value is not None and (name, value) != ("limit", LIMIT):
        yield f"--{option}={value}"


def write_sbatch(options: Namespace, common: Options) -> int:
    """Write the script of a job that trains on the nodes of a cluster; return the exit status."""
    nodes, ranks = options.nodes, options.world_size
    if nodes is None or ranks is None or ranks % nodes:
        sys.stderr.write(
            "ds-lint: --smoke-sbatch needs --nodes and --world-size, which must be a multiple of --nodes\n"
        )
        return 2
    arguments = [*options.paths, *_as_flags(options, (*_PASSED_ON, *_FOR_A_JOB))]
    if options.smoke_folder is None and nodes > 1:
        arguments.append("--smoke-folder=.")  # the folder that the job is sent from, which nodes usually share
    seconds = (options.smoke_timeout or SECONDS) + (BUILDING if options.smoke_build_ops else 0.0)
    try:
        minutes = minutes_of(_number_of_configs(common), seconds)
    except WRONG_USAGE as error:
        return complain(error)
    script = sbatch(arguments, nodes=nodes, gpus_per_node=ranks // nodes, minutes=minutes)
    if options.smoke_sbatch == "-":
        sys.stdout.write(script)
        return 0
    if os.path.lexists(options.smoke_sbatch):
        sys.stderr.write(
            f"ds-lint: {options.smoke_sbatch} already exists; delete it, or write to another file or to -\n"
        )
        return 2
    replacement.create(options.smoke_sbatch, script.encode())
    wrote = f"Wrote {options.smoke_sbatch}: a job for {counted(ranks, 'GPU')} on {counted(nodes, 'node')}."
    print_text(f"{wrote} Nothing was checked.\nNext:\n  sbatch {quote(options.smoke_sbatch)}\n", sys.stdout)
    return 0


def _number_of_configs(common: Options) -> int:
    """The configs that a job will find, as far as they are here."""
    unreadable: list[Complaint] = []
    session = Session(common, on_error=complaints_into(unreadable))
    found = [document for _, document in documents(common, session, unreadable)]
    return sum(1 for one in found if one.named is None and one.has_config) + len(unreadable)


def prove_all(linted: list[tuple[FileReport, LintContext]], smoke: Smoke) -> list[Complaint]:
    """Train with every config, add the runs to its report, and return complaints about what could not be run."""
    # A recipe may name one of the others, and what Python does not parse has no config that is known.
    linted = [one for one in linted if one[0].document.named is None and one[0].document.has_config]
    if not linted:
        return []
    complaints: list[Complaint] = []
    for report, _ in linted:
        report.smoke = []
    try:
        with ended_by_signal(), progress.shown(len(linted), quiet=smoke.quiet) as show:
            if smoke.launcher is not None:
                complaints += _launch(linted, smoke, smoke.launcher, show)
            else:
                complaints += _run(linted, smoke, show)
    except CouldNotRun as error:
        complaints.append(Complaint(None, f"the smoke run could not be made: {error}"))
    except (KeyboardInterrupt, SystemExit) as ended:
        sys.stderr.write(f"ds-lint: {ending_signal(ended)} ended the smoke run; its files and processes are removed\n")
        raise
    return complaints


def _run(linted: list[tuple[FileReport, LintContext]], smoke: Smoke, show: progress.Show) -> Iterator[Complaint]:
    """Make the runs on ranks of our own, or on those that a launcher started together with this process."""
    if smoke.run_options.has_adapters and find_spec(PEFT) is None:
        raise CouldNotRun("--smoke-lora needs peft: pip install peft")
    if not smoke.joins:
        _demand_gpus(smoke, smoke.device == GPUS and devices.visible() > 0, _NO_GPU)
    with _ranks(smoke) as ranks:
        # The releases that run are the installed ones, whatever the project pins. The ranks import theirs meanwhile.
        target = choose("", {}, installed("")).newest
        session = _runs(smoke, ranks)
        for report, context in linted:
            yield from _prove(ranks, report, context, target, session, show)


def _prove(
    ranks: Runner,
    report: FileReport,
    context: LintContext,
    target: Target,
    session: list[RunOptions],
    show: progress.Show,
) -> Iterator[Complaint]:
    """Train with one config and add the run to its report; yields complaints if it could not be made."""
    stack = report.stack or context.basis.stack
    on_phase = show.config(report.path)
    outcomes = []
    for run_options in session:
        try:
            verdicts = prove(
                ranks.of(run_options.mode),
                report.document,
                stack=stack,
                facts=context.basis.facts,
                target=target,
                options=run_options,
                on_phase=on_phase,
            )
        except (OSError, RecursionError) as error:  # noqa: PERF203 - a run takes a second
            outcomes.append("could not run")
            yield Complaint(None, f"{report.path}: the smoke run could not be made: {_cause(error)}")
        else:
            outcomes += map(outcome, verdicts)
            for verdict in verdicts:
                yield from _add(report, context, verdict)
    show.done(", ".join(dict.fromkeys(outcomes)))


def _ranks(smoke: Smoke) -> Runner:
    if not smoke.joins:
        return Pool(smoke.folder, CUDA if smoke.device == GPUS else CPU)
    from ds_lint.smoke.records.rendezvous import NoRendezvous, find
    from ds_lint.smoke.small_run.ranks import LaunchedRanks  # imports torch

    try:
        return LaunchedRanks(find(os.environ), smoke.folder, smoke.timeout)
    except NoRendezvous as error:
        raise CouldNotRun(str(error)) from None


def _runs(smoke: Smoke, ranks: Runner) -> list[RunOptions]:
    """The runs to make with each config; raises CouldNotRun if the ranks cannot be started."""
    versions = ranks.versions
    may_use_gpus = smoke.device != CPU_RANKS
    hidden = None
    if may_use_gpus and devices.visible() and not ranks.has_cuda:
        hidden = f"torch {versions['torch']} is built without CUDA"
    if not isinstance(ranks, Pool):
        has_gpus = may_use_gpus and hidden is None and ranks.have_gpus
        _demand_gpus(smoke, has_gpus, hidden or "not every rank has one")
        mode = CUDA if has_gpus else CPU
        about = _about_cpus(hidden)
        return [smoke.run_options._replace(ranks=ranks.world_size, mode=mode, is_real_world=True, about_gpus=about)]
    gpus, about = devices.chosen() if may_use_gpus and hidden is None else ([], hidden)
    if not gpus:
        _demand_gpus(smoke, has_gpus=False, why=about or _NO_GPU)
        return [smoke.run_options._replace(about_gpus=_about_cpus(about))]
    on_cpu = [] if smoke.device == GPUS else [smoke.run_options]
    # DeepSpeed reads numbers only (``_get_nvml_gpu_id`` in deepspeed/accelerator/cuda_accelerator.py). An instance of
    # MIG has none, and CUDA takes the same one by itself.
    names = tuple(gpu.name for gpu in gpus if gpu.name.isdecimal())
    on_gpus = smoke.run_options._replace(ranks=len(gpus), mode=CUDA, simulates=not on_cpu, gpus=names, about_gpus=about)
    return [*on_cpu, on_gpus]


def _about_cpus(why: str | None) -> str | None:
    """The sentence about a run on CPU ranks beside GPUs that cannot be used."""
    return f"the run uses CPU ranks only, because {why}" if why else None


def _demand_gpus(smoke: Smoke, has_gpus: bool, why: str) -> None:
    if smoke.device == GPUS and not has_gpus:
        raise CouldNotRun(f"--smoke-device {GPUS} needs a GPU for each rank, and {why}")


def _launch(
    linted: list[tuple[FileReport, LintContext]], smoke: Smoke, launcher: str, show: progress.Show
) -> Iterator[Complaint]:
    """Make the runs through the launcher of the user, one config after the other."""
    start = command.command(launcher)
    made: dict[str, list[Verdict]] = {}  # by file, with each of its configs
    for report, context in linted:
        path = report.path
        if not os.path.isfile(path):
            raise CouldNotRun(f"--smoke-launch needs configs in files, and {path} is not a file")
        show.config(path)
        if path not in made:
            made[path] = [verdict_of(one) for one in command.runs(start, path, list(smoke.passed_on), smoke.folder)]
        verdicts = [verdict for verdict in made[path] if verdict.place == place_of(report.document)]
        if not verdicts:
            where = place_of(report.document)
            yield Complaint(None, f"{path}: the ranks of the launcher have not found the config at {where}")
        for verdict in verdicts:
            yield from _add(report, context, verdict)
        show.done(", ".join(dict.fromkeys(map(outcome, verdicts))))


def _add(report: FileReport, context: LintContext, verdict: Verdict) -> Iterator[Complaint]:
    """Add a verdict to the report on its config; yields a complaint if the run could not be made."""
    add_verdict(report, context, verdict)
    if verdict.status == "error":
        what = f"the simulation of {verdict.world_size:,} ranks" if verdict.mode == FAKE else "the smoke run"
        yield Complaint(None, f"{report.path}: {what} could not be made", f"{_obstacle(verdict)}{_log(verdict)}")


def _obstacle(verdict: Verdict) -> str | None:
    """Why a run was not made, or not to its end."""
    return verdict.error or next((check.message for check in verdict.checks if check.status == "error"), None)


def _cause(error: OSError | RecursionError) -> str:
    if isinstance(error, RecursionError):
        return "the config is nested too deeply"
    place = f"{error.filename}: " if error.filename else ""
    return f"{place}{error.strerror or error}"


def _log(verdict: Verdict) -> str:
    return f" (output of the libraries: {verdict.log})" if verdict.log else ""
