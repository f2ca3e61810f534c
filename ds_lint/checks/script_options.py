"""Rules about the arguments that a launch gives a script of which the parser is known (DS68x)."""

from __future__ import annotations

from ds_lint.diagnostics.finding import Edit, Fix
from ds_lint.diagnostics.problem import IGNORED, Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.semantics.refused_script_options import refused_script_options
from ds_lint.targets.text import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.launches.parser_options import CommandLine
    from ds_lint.semantics.config import Config
    from ds_lint.semantics.refused_script_options import RefusedScriptOption

# What each parser does with a word that it does not know, and says. Sources: ``parse_args_into_dataclasses`` in
# transformers/hf_argparser.py, ``parse_args`` in argparse, ``_PrintResult`` in fire/core.py, click/exceptions.py.
_UNKNOWN = {
    "HfArgumentParser": ("HfArgumentParser raises ValueError", "Some specified arguments are not used"),
    "TrlParser": ("TrlParser raises ValueError", "Some specified arguments are not used"),
    "argparse": ("argparse stops the script", "unrecognized arguments"),
    "fire": ("Fire stops the script", "Could not consume arg"),
    "click": ("click stops the script", "No such option"),
    "typer": ("Typer stops the script", "No such option"),
}
_OF_CLASSES = ("HfArgumentParser", "TrlParser")


@rule("DS681", "unknown-argument", severity="error", effects=("rejected", "ignored"), kind="syntax", alone_on="names")
def unknown_argument(config: Config) -> Iterator[Problem]:
    """A launch gives its script an argument that the parser of the script does not know."""
    for one in refused_script_options(config):
        if one.is_training or one.word.what not in ("unknown", "stray", "ambiguous"):
            continue
        line: CommandLine = one.launch.command_line
        script = one.launch.script
        if not one.is_read:
            yield Problem(
                None,
                one.span,
                f"`{one.flag}` is not an argument of {script}: `{line.function}` returns it, and nothing reads it",
                IGNORED,
                help=f"{_did_you_mean(one)}The run has the default of the argument that is meant.",
                label="no such argument",
                severity="warning",
                fix=_fix(one, config),
            )
        elif one.word.what == "stray":
            yield Problem(
                None,
                one.span,
                f"no argument of {script} takes `{one.flag}`: {_UNKNOWN[line.kind][0]}",
                rejected("initialize"),
                help=f"Delete it, or write the argument that it belongs to. {_says(line)}",
                label="belongs to no argument",
            )
        elif one.word.what == "ambiguous":
            yield Problem(
                None,
                one.span,
                f"`{one.flag}` is ambiguous: it {one.message}, and argparse stops the script",
                rejected("initialize"),
                help=f"Write the whole name. {_parsed_at(line)}",
                label="ambiguous",
            )
        else:
            yield Problem(
                None,
                one.span,
                f"`{one.flag}` is not an argument of {script}: {_UNKNOWN[line.kind][0]}",
                rejected("initialize"),
                help=f"{_did_you_mean(one)}{_opposite(one)}{_says(line)}",
                label="no such argument",
                fix=_fix(one, config),
            )


@rule("DS682", "argument-value-refused", severity="error", effects=("rejected",), kind="syntax", alone_on="names")
def argument_value_refused(config: Config) -> Iterator[Problem]:
    """A launch gives an argument of its script a value that the parser rejects, or no value."""
    for one in refused_script_options(config):
        if not one.is_training and one.word.what in ("value", "choice", "no-value", "missing"):
            yield value_problem(one, config)


def value_problem(one: RefusedScriptOption, config: Config) -> Problem:
    """The problem of a value that a parser refuses."""
    line: CommandLine = one.launch.command_line
    is_missing = one.word.what == "missing"
    return Problem(
        None,
        one.span,
        f"{one.message}: {'argparse' if line.kind in _OF_CLASSES else line.kind} stops the script",
        rejected("initialize"),
        help=f"{_did_you_mean(one)}{'Add' if is_missing else 'Change'} `{one.flag}`. {_parsed_at(line)}",
        label="missing argument" if is_missing else "rejected",
        fix=_fix(one, config) if one.word.what == "choice" else None,
        subject=(one.flag, one.word.what),
    )


def other_release_problem(one: RefusedScriptOption, config: Config) -> Problem:
    """The problem of a field of TrainingArguments that another release has."""
    line: CommandLine = one.launch.command_line
    happens = f"{line.kind} raises" if one.is_read else "nothing reads it"
    return Problem(
        None,
        one.span,
        f"`{one.flag}` {one.message}: {happens}",
        rejected("initialize") if one.is_read else IGNORED,
        help=f"{_did_you_mean(one)}Delete it, or write what replaces it. {_parsed_at(line)}",
        label="no field of TrainingArguments",
        severity=None if one.is_read else "warning",
        fix=_fix(one, config),
        subject=one.flag,
    )


def _did_you_mean(one: RefusedScriptOption) -> str:
    return f"Did you mean {one.meant}? " if one.meant else ""


def _opposite(one: RefusedScriptOption) -> str:
    """What ``--no_x`` is for: only fields that are true by default have it."""
    line: CommandLine = one.launch.command_line
    name = one.flag.lstrip("-").replace("-", "_")
    if line.kind not in _OF_CLASSES or not name.startswith("no_"):
        return ""
    return "Only an argument that is true by default has a --no_ form. "


def _says(line: CommandLine) -> str:
    return f"The error is: {_UNKNOWN[line.kind][1]}. {_parsed_at(line)}"


def _parsed_at(line: CommandLine) -> str:
    method = line.function.rpartition(".")[2]
    where = f" ({shown(line.path)}:{line.line})" if line.path else ""
    return f"{method}{where} parses the arguments."


def _fix(one: RefusedScriptOption, config: Config) -> Fix | None:
    """What was meant, if the text has the word as it is."""
    document = config.document
    text = document.text[one.span.start : one.span.end]
    written = one.word.text if one.word.what == "choice" else one.flag
    if not one.meant or text != written or document.notebook is not None:
        return None
    return Fix(f"Write {one.meant}", "unsafe", [Edit(one.span, one.meant)])
