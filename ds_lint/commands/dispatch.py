"""From the parsed command line to the function of each subcommand.

A subcommand is imported when it is called, so that none costs the others start-up.
"""

from __future__ import annotations

import os
import sys

from ds_lint.commands import conflicts
from ds_lint.commands.documents import STANDARD_INPUT
from ds_lint.commands.failures import complain
from ds_lint.commands.options import (
    BugReportOptions,
    CheckpointOptions,
    ConvertOptions,
    InitOptions,
    MemoryOptions,
)
from ds_lint.facts import Sources
from ds_lint.session.options import Options
from ds_lint.targets.pin import LIBRARIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from ds_lint.targets.pin import Library


def run_check(options: Namespace) -> int:
    """Check configs, or do what ``check`` can do instead."""
    if complaint := conflicts.complaint(options):
        return complain(complaint)
    common = _options(options)
    common.fix = options.fix or options.fix_only
    if options.show_settings:
        from ds_lint.commands.show_settings import show_settings

        return show_settings(common)
    if options.show_files:
        from ds_lint.commands.show_files import show_files

        return show_files(common)
    if options.show_launches:
        from ds_lint.commands.show_launches import show_launches

        return show_launches(common)
    if options.smoke_sbatch is not None:
        from ds_lint.commands.training_runs import write_sbatch

        return write_sbatch(options, common)
    if options.watch:
        from ds_lint.commands.watch import watch

        return watch(common)
    from ds_lint.commands.check import check

    if not (options.smoke or options.smoke_launches):
        return check(common)
    if sys.platform == "win32":
        return _complain_of_windows()
    from ds_lint.commands.smoke_launches import launch_runs_of
    from ds_lint.commands.training_runs import smoke_of
    from ds_lint.linter.engine import every_rule

    if options.smoke_lora:
        common.sources.adapters = "--smoke-lora"
    # A selection of rules does not hide what a run shows.
    common.always = [rule.code for rule in every_rule() if rule.kind == "run"]
    launches = launch_runs_of(options) if options.smoke_launches else None
    return check(common, smoke_of(options) if options.smoke else None, launches)


def run_smoke(options: Namespace) -> int:
    """Run the user's own script for a few steps."""
    from ds_lint.commands import other_reports
    from ds_lint.commands.smoke import ScriptSmoke, smoke
    from ds_lint.linter.engine import every_rule
    from ds_lint.smoke.script.proof import ScriptRunOptions

    if sys.platform == "win32":
        return _complain_of_windows()
    if not options.command_words:
        return complain("smoke needs the command to run, behind --: ds-lint smoke -- torchrun train.py")
    for complaint in other_reports.complaints(options, (), has_runs=True):
        return complain(complaint)
    common = _options(options)
    common.always = [rule.code for rule in every_rule() if rule.kind == "run"]
    run_options = ScriptRunOptions(
        steps=options.steps,
        resumes=options.resume,
        seconds=options.timeout,
        uses_cpu=options.cpu,
        shrinks=options.shrink,
        profiles=options.profile,
        keep=options.keep,
        folder=options.folder,
    )
    own = ScriptSmoke(options.command_words, run_options, options.config, options.nodes, options.node_timeout)
    return smoke(common, own)


def _complain_of_windows() -> int:
    """Say that there are no training runs here."""
    from ds_lint.smoke.processes.client import NEEDS_FORK

    return complain(NEEDS_FORK)


def run_upgrade(options: Namespace) -> int:
    """Report what changes with other releases."""
    from ds_lint.commands.upgrade import upgrade

    ends: dict[Library, tuple[str, str | None]] = {}
    for library in LIBRARIES:
        first, last = getattr(options, f"{library}_from"), getattr(options, f"{library}_to")
        if first is not None:
            ends[library] = (first, last)
        elif last is not None:
            name = "" if library == "deepspeed" else f"{library}-"
            return complain(f"--{name}to needs --{name}from, the old release")
    if complaint := conflicts.complaint(options):
        return complain(complaint)
    if not ends:
        return complain("upgrade needs the old release: --from, --transformers-from or --accelerate-from")
    return upgrade(_options(options), ends)


def run_effective(options: Namespace) -> int:
    """Print a config as it is used."""
    from ds_lint.commands import effective

    return effective.run(_options(options), against=options.against, everything=options.all)


def run_convert(options: Namespace) -> int:
    """Convert a config to FSDP, or FSDP to a config."""
    from ds_lint.commands.convert import convert

    return convert(_options(options), ConvertOptions.of(options))


def run_memory(options: Namespace) -> int:
    """Print what a run needs on GPUs, hosts and NVMe."""
    from ds_lint.commands.memory import memory

    return memory(_options(options), MemoryOptions.of(options))


def run_doctor(options: Namespace) -> int:
    """Say why a run failed."""
    from ds_lint.commands import doctor

    common = _options(options)
    common.paths = list(options.logs)
    return doctor.watch(common, options.stalled) if options.watch else doctor.doctor(common)


def run_bug_report(options: Namespace) -> int:
    """Write a bug report."""
    from ds_lint.commands.bug_report import bug_report

    common = _options(options)
    common.paths = list(options.described)
    return bug_report(common, BugReportOptions.of(options))


def run_checkpoint(options: Namespace) -> int:
    """Print what a saved folder holds, and whether it resumes."""
    from ds_lint.commands.checkpoint import checkpoint

    return checkpoint(_options(options), CheckpointOptions.of(options))


def run_explain(options: Namespace) -> int:
    """Explain a rule, an advisory, a key or a text, or all rules."""
    from ds_lint.commands.explain import explain, explain_all

    as_json = options.output_format == "json"
    if options.all == (options.subject is not None):
        return complain("explain needs a rule, an advisory, a key or a text, or --all alone for all rules")
    if options.all:
        return explain_all(options.lang, as_json=as_json)
    return explain(options.subject, options.lang, as_json=as_json)


def run_advisories(options: Namespace) -> int:
    """List advisories, or those that a project reaches."""
    from ds_lint.commands import advisories

    common = _options(options)
    common.paths = list(options.named)
    return advisories.run(common)


def run_rules(options: Namespace) -> int:
    """List the rules."""
    from ds_lint.commands.rules import rules

    return rules(options.output_format)


def run_schema(options: Namespace) -> int:
    """Print the JSON Schema of a config."""
    from ds_lint.commands.schema import schema

    return schema(options.deepspeed_version, _output_file(options))


def run_init(options: Namespace) -> int:
    """Write a config to start from."""
    from ds_lint.commands.init import init

    return init(InitOptions.of(options, sources=Sources.of(options)))


def run_lsp(_options: Namespace) -> int:
    """Start the language server."""
    from ds_lint.commands.lsp import lsp

    return lsp()


def run_completion(options: Namespace) -> int:
    """Print the script of a shell."""
    from ds_lint.commands.completion import completion

    return completion(options.shell, options.parser)


def _options(options: Namespace) -> Options:
    """The options of a command that lints, of which few have all."""
    paths = getattr(options, "paths", None) or [getattr(options, "path", None) or os.curdir]
    _output_file(options)
    variables = {name.replace("-", "_"): variable for name, variable in options.given_by.items()}
    found = Options.of(options, paths=paths, sources=Sources.of(options, given_by=variables), given_by=options.given_by)
    found.select = found.select or None  # of no rule at all, as of all
    return found


def _output_file(options: Namespace) -> str | None:
    """The file that gets what is printed; None if it goes to standard output, as ``-`` says too."""
    if getattr(options, "output_file", None) == STANDARD_INPUT:
        options.output_file = None
    return getattr(options, "output_file", None)
