"""Rules about the options that a launch gives its launcher (DS68x)."""

from __future__ import annotations

from ds_lint.diagnostics.finding import Edit, Fix
from ds_lint.diagnostics.problem import Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.semantics.refused_launcher_options import refused_launcher_options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.semantics.config import Config
    from ds_lint.semantics.refused_launcher_options import RefusedLauncherOption

_PROGRAMS = {"accelerate": "accelerate launch"}


@rule("DS684", "unknown-launcher-option", severity="error", effects=("rejected",), kind="syntax", alone_on="names")
def unknown_launcher_option(config: Config) -> Iterator[Problem]:
    """An option before the script that deepspeed, torchrun or accelerate launch does not know."""
    for one in refused_launcher_options(config):
        program = _PROGRAMS.get(one.launcher, one.launcher)
        yield Problem(
            None,
            one.span,
            f"{_what(one, program)}: it stops with exit status 2",
            rejected("load"),
            help=_help(one, program),
            label=f"did you mean `{one.meant}`?" if one.meant else "unknown option",
            fix=_fix(one, config),
            subject=one.name,
        )


def _what(one: RefusedLauncherOption, program: str) -> str:
    if one.could_be:
        return f"`{one.name}` can be short for {', '.join(f'`{name}`' for name in one.could_be[:3])} of `{program}`"
    if one.removed_in:
        return f"`{program}` has no option `{one.name}` since {one.library} {one.removed_in}"
    if one.new_in:
        return f"`{program}` has no option `{one.name}` before {one.library} {one.new_in}"
    return f"`{program}` has no option `{one.name}`"


def _help(one: RefusedLauncherOption, program: str) -> str:
    if one.could_be:
        return "Write the whole name of the option."
    if one.meant:
        return f"Write `{one.meant}`."
    if one.new_in:
        return f"Upgrade to {one.library} {one.new_in}, or delete the option."
    return f"Delete the option. If the script reads it, write it behind the script: `{program} SCRIPT {one.name}`."


def _fix(one: RefusedLauncherOption, config: Config) -> Fix | None:
    """The option that is meant, if the text has this one as it is."""
    document = config.document
    is_written = document.text[one.span.start : one.span.end] == one.name
    if not one.meant or not is_written or document.notebook is not None:
        return None
    return Fix(f"Write {one.meant}", "safe" if one.is_certain else "unsafe", [Edit(one.span, one.meant)])
