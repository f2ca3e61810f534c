"""From the parsed command line to the function of each subcommand.

A subcommand is imported when it is called, so that none costs the others start-up.
"""

from __future__ import annotations

import os
import sys

from ds_lint.commands import conflicts
from ds_lint.facts import Sources
from ds_lint.session.options import Options
from ds_lint.targets.pin import LIBRARIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace

    from ds_lint.targets.pin import Library


def run_check(options: Namespace) -> int:
    """Check configs, or do what ``check`` can do instead."""
    if said := conflicts.complaint(options):
        return _refused(said)
    asked = _options(options, _versions(options))
    asked.fix, asked.fix_only = options.fix or options.fix_only, options.fix_only
    asked.unsafe_fixes, asked.diff = options.unsafe_fixes, options.diff
    asked.baseline, asked.write_baseline = options.baseline, options.write_baseline
    asked.add_ignore = options.add_ignore
    if options.show_settings:
        from ds_lint.commands.show_settings import show_settings

        return show_settings(asked)
    if options.show_files:
        from ds_lint.commands.show_files import show_files

        return show_files(asked)
    if options.show_launches:
        from ds_lint.commands.show_launches import show_launches

        return show_launches(asked)
    if options.smoke_sbatch is not None:
        from ds_lint.commands.training_runs import write_sbatch

        return write_sbatch(options, asked)
    if options.watch:
        from ds_lint.commands.watch import watch

        return watch(asked)
    from ds_lint.commands.check import check

    if not (options.smoke or options.smoke_launches):
        return check(asked)
    from ds_lint.commands.smoke_launches import launch_runs_of
    from ds_lint.commands.training_runs import smoke_of
    from ds_lint.linter.engine import every_rule

    if options.smoke_lora:
        asked.sources.adapters = "--smoke-lora"
    # A selection of rules does not hide what a run shows.
    asked.extend_select = [*asked.extend_select, *(rule.code for rule in every_rule() if rule.kind == "run")]
    launches = launch_runs_of(options) if options.smoke_launches else None
    return check(asked, smoke_of(options) if options.smoke else None, launches)


def run_smoke(options: Namespace) -> int:
    """Run the user's own script for a few steps."""
    from ds_lint.commands.smoke import ScriptSmoke, smoke
    from ds_lint.linter.engine import every_rule
    from ds_lint.smoke.script.proof import ScriptWish

    if not options.command_words:
        return _refused("smoke needs the command to run, behind --: ds-lint smoke -- torchrun train.py")
    asked = Options([os.curdir], versions=_versions(options), settings=options.settings, isolated=options.isolated)
    for name in ("preview", "output_format", "output_file", "fail_on", "exit_zero", "quiet", "verbose"):
        setattr(asked, name, getattr(options, name))
    asked.select, asked.ignore = options.select or None, options.ignore or []
    asked.extend_select = [*(options.extend_select or []), *(rule.code for rule in every_rule() if rule.kind == "run")]
    asked.said_by = options.said_by
    wish = ScriptWish(
        steps=options.steps,
        resumes=options.resume,
        seconds=options.timeout,
        uses_cpu=options.cpu,
        shrinks=options.shrink,
        profiles=options.profile,
        keep=options.keep,
        folder=options.folder,
    )
    return smoke(asked, ScriptSmoke(options.command_words, wish, options.config, options.report))


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
            return _refused(f"--{name}to needs --{name}from, the old release")
    if said := conflicts.complaint(options):
        return _refused(said)
    if not ends:
        return _refused("upgrade needs the old release: --from, --transformers-from or --accelerate-from")
    return upgrade(_options(options, {}), ends)


def run_effective(options: Namespace) -> int:
    """Print a config as it is used."""
    from ds_lint.commands import effective

    wanted = _about_one(options)
    return effective.run(wanted, against=options.against, everything=options.all)


def run_convert(options: Namespace) -> int:
    """Convert a config to FSDP, or FSDP to a config."""
    from ds_lint.commands.convert import Wish, convert

    return convert(_about_one(options), Wish(**{name: getattr(options, name) for name in Wish._fields}))


def run_memory(options: Namespace) -> int:
    """Print what a run takes of GPUs, hosts and NVMe."""
    from ds_lint.commands.memory import MemoryWish, memory

    return memory(_about_one(options), MemoryWish(options.sweep, options.plot))


def run_explain(options: Namespace) -> int:
    """Explain a rule or a key."""
    from ds_lint.commands.explain import explain

    return explain(options.subject, options.lang)


def run_rules(options: Namespace) -> int:
    """List the rules."""
    from ds_lint.commands.rules import rules

    return rules(options.output_format)


def run_schema(options: Namespace) -> int:
    """Print the JSON Schema of a config."""
    from ds_lint.commands.schema import schema

    return schema(options.deepspeed_version, options.output)


def run_init(options: Namespace) -> int:
    """Write a config to start from."""
    from ds_lint.commands.init import InitOptions, init

    own = {name: getattr(options, name) for name in InitOptions._fields if name != "sources"}
    return init(InitOptions(**own, sources=_sources(options)))


def run_lsp(_options: Namespace) -> int:
    """Start the language server."""
    from ds_lint.commands.lsp import lsp

    return lsp()


def _about_one(options: Namespace) -> Options:
    """The options of a command about one config."""
    wanted = Options(
        [options.path],
        stack=options.stack,
        versions=_versions(options),
        sources=_sources(options),
        settings=options.settings,
        isolated=options.isolated,
        output_format=options.output_format,
    )
    wanted.said_by = options.said_by
    return wanted


def _options(options: Namespace, versions: dict[str, str]) -> Options:
    asked = Options(
        options.paths,
        stack=options.stack,
        versions=versions,
        sources=_sources(options),
        select=options.select or None,
        extend_select=options.extend_select,
        ignore=options.ignore,
        preview=options.preview,
        settings=options.settings,
        isolated=options.isolated,
        output_format=options.output_format,
        output_file=options.output_file,
        stdin_filename=options.stdin_filename,
        detect=options.detect,
        exclude=options.exclude,
        extend_exclude=options.extend_exclude,
        force_exclude=options.force_exclude,
        include_markdown=options.include_markdown,
        respect_gitignore=options.respect_gitignore,
        fail_on=options.fail_on,
        verbose=options.verbose,
        quiet=options.quiet,
        exit_zero=options.exit_zero,
        statistics=options.statistics,
        limit=options.limit,
    )
    asked.said_by = options.said_by
    return asked


def _sources(options: Namespace) -> Sources:
    """The facts that the options of a command give; few commands have them all."""
    sources = Sources(**{name: getattr(options, name, None) for name in Sources.ALL})
    for name, option in ((name, name.replace("_", "-")) for name in Sources.ALL):
        sources.said_by[name] = getattr(options, "said_by", {}).get(option, sources.said_by[name])
    return sources


def _versions(options: Namespace) -> dict[str, str]:
    given = {library: getattr(options, f"{library}_version") for library in LIBRARIES}
    return {library: version for library, version in given.items() if version is not None}


def _refused(complaint: str) -> int:
    from ds_lint.output.harmless import complaint as line

    sys.stderr.write(line(complaint))
    return 2
