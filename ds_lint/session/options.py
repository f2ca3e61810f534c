"""The options of a run: what is checked and for what, with which rules and settings, and how it is reported.

What an option is for stands here and nowhere else: the surfaces are made from it, as docs/dev/options.md says.
"""

from __future__ import annotations

from ds_lint.diagnostics.finding import SEVERITIES, STACKS
from ds_lint.facts import Sources
from ds_lint.option import OptionRecord, argument, option
from ds_lint.output import FORMATS, HTML
from ds_lint.output.terminal import COLOURED
from ds_lint.targets.pin import LIBRARIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from ds_lint.diagnostics.finding import Stack
    from ds_lint.option import Option

OUTPUT_FILE = ("-o", "--output-file")  # of every command that may write what it prints to a file
LIMIT = 10  # findings of one rule and severity: more of them say nothing new, and hide what the others say
_CHANGES = "shown watch job"


class Options(OptionRecord):
    """The options of ``check``, of an editor, and of the commands about one config, which take some of them."""

    paths: list[str] = argument("file, directory, or - for standard input", metavar="PATH", kw_only=False)

    stack: Stack | None = option(
        "stack", "what loads the config (default: inferred from the config, else all)", choices=STACKS,
        variable=True, meanings=(
            "Inferred from the config, else all that are possible", "deepspeed.initialize reads the file",
            "The Trainer of Hugging Face Transformers reads it", "Hugging Face Accelerate reads it",
        ),
    )  # fmt: skip
    deepspeed_version: str | None = option(
        "releases",
        'release of DeepSpeed, a line such as 0.16, or a range such as ">=0.14" (default: the release that the project '
        "pins, else the installed one, else the newest known)",
        metavar="V", variable=True,
    )  # fmt: skip
    transformers_version: str | None = option("releases", "the same for transformers", metavar="V", variable=True)
    accelerate_version: str | None = option("releases", "the same for accelerate", metavar="V", variable=True)

    select: list[str] | None = option(
        "rules", "enable only these rules: codes, prefixes of codes, names or ALL, separated by commas", metavar="RULES"
    )
    extend_select: Sequence[str] = option("rules", "enable these rules too", (), metavar="RULES")
    ignore: Sequence[str] = option("rules", "disable these rules", (), metavar="RULES")
    per_file_ignores: Sequence[str] = option(
        "rules",
        'disable rules for the configs that a pattern matches, as in "tests/**:DS101,old.json:unknown-key", instead of '
        "those of the settings",
        (), metavar="PATTERN:RULE",
    )  # fmt: skip
    extend_per_file_ignores: Sequence[str] = option("rules", "disable these too", (), metavar="PATTERN:RULE")
    preview: bool = option("rules", "enable rules that are in preview", False)
    fail_on: str | None = option(
        "rules", "exit with 1 if there are findings of this severity or worse (default: warning)", choices=SEVERITIES,
        variable=True,
    )  # fmt: skip
    exit_zero: bool = option(
        "rules", "exit with 0 even if there are findings; errors still exit with 2", False, flags=("-e", "--exit-zero")
    )

    settings: str | None = option(
        "settings", "settings file (default: the nearest ds-lint.toml, or pyproject.toml with [tool.ds-lint])",
        metavar="FILE", either="settings", variable=True,
    )  # fmt: skip
    config_options: Sequence[str] = option(
        "config",
        "a setting that overrides those of all files, as in 'fail-on=\"error\"', or a settings file whose paths are "
        "relative to the current directory",
        (), metavar="KEY=VALUE|FILE", flags=("--config",), is_whole=True,
    )  # fmt: skip
    isolated: bool = option("settings", "ignore all settings files", False, either="settings")

    exclude: list[str] | None = option(  # patterns of what a search leaves out, from the working directory
        "search",
        "skip what these patterns match, instead of hidden directories, build, dist, env, node_modules, site-packages, "
        "venv, wandb and __pycache__",
        metavar="PATTERNS",
    )
    extend_exclude: Sequence[str] = option("search", "skip these too", (), metavar="PATTERNS")
    include: list[str] | None = option(
        "search", "look only at files that these patterns match, whatever their names end with", metavar="PATTERNS"
    )
    extend_include: Sequence[str] = option("search", "look at these too", (), metavar="PATTERNS")
    force_exclude: bool | None = option("search", "skip excluded files and directories even if they are named")
    include_markdown: bool | None = option(
        "search", "search Markdown files too, for the configs in their fenced blocks"
    )
    respect_gitignore: bool | None = option("search", "skip what git ignores (default: on)")

    output_format: str | None = option(  # None: the usual one for where it goes
        "output",
        f"one of {', '.join(sorted(FORMATS))} (default: full; in a GitHub workflow, github)",
        metavar="FORMAT", choices=sorted(FORMATS), variable=True, not_with="fix-only add-ignore",
    )  # fmt: skip
    output_file: str | None = option(
        "output", "write the report to FILE instead of standard output", metavar="FILE",
        not_with="shown watch fix-only add-ignore", flags=OUTPUT_FILE,
    )  # fmt: skip
    report: Sequence[str] = option(
        "output",
        "also write the report in this format to this file; can be given several times. The format html is a page "
        "about the training runs",
        (), metavar="FORMAT=FILE", choices=(*sorted(FORMATS), HTML), is_repeated=True,
        not_with="shown watch diff fix-only add-ignore",
    )  # fmt: skip
    statistics: bool = option(
        "amount", "print the number of findings of each rule instead of the findings", False,
        not_with="shown diff fix-only add-ignore",
    )  # fmt: skip
    limit: int = option(
        "amount", f"how many findings of one rule and severity `full` prints, 0 for all (default: {LIMIT})", LIMIT,
        metavar="N", least=0,
    )  # fmt: skip
    color: str | None = option("color", "when to use colors (default: auto, in a terminal)", choices=COLOURED)
    stdin_filename: str | None = option("input", "name of standard input in the report", metavar="NAME")
    detect: bool = option("input", "skip named files without a DeepSpeed config, as in a directory", False)
    verbose: bool = option(
        "notes", "print which releases and facts are used, and where they come from", False,
        flags=("-v", "--verbose"), either="notes",
    )  # fmt: skip
    quiet: bool = option(
        "notes", "print findings and training runs, but no notes and no summary", False,
        flags=("-q", "--quiet"), either="notes",
    )  # fmt: skip

    baseline: str | None = option("baseline", "suppress the findings that are listed in this file", metavar="FILE")
    write_baseline: bool = option(
        "baseline", "write all findings to the baseline (default: ds-lint-baseline.json) and suppress them", False,
        not_with=f"{_CHANGES} undone fix-only add-ignore",
    )  # fmt: skip
    add_ignore: bool = option(
        "baseline",
        "suppress all findings in the files: with comments if only DeepSpeed reads the config, else with "
        "per-file-ignores in the settings file, which is created if there is none",
        False, not_with=f"{_CHANGES} undone",
    )  # fmt: skip

    fix: bool = option(
        "fixes", "apply the safe fixes and report the remaining findings; - is fixed to standard output", False,
        either="fixes", not_with=f"{_CHANGES} suppressed",
    )  # fmt: skip
    fix_only: bool = option(
        "fixes", "apply the safe fixes, but do not report the remaining findings, nor exit with 1 for them", False,
        either="fixes", not_with=f"{_CHANGES} suppressed",
    )  # fmt: skip
    diff: bool = option(
        "fixes", "print what --fix would change instead of a report, and change nothing", False,
        either="fixes", not_with=_CHANGES,
    )  # fmt: skip
    unsafe_fixes: bool | None = option("fixes", "also apply, or with --diff show, the fixes that may change the run")
    fixable: Sequence[str] = option("fixes", "apply and offer only the fixes of these rules", (), metavar="RULES")
    extend_fixable: Sequence[str] = option("fixes", "apply and offer the fixes of these too", (), metavar="RULES")
    unfixable: Sequence[str] = option("fixes", "neither apply nor offer the fixes of these rules", (), metavar="RULES")

    always: Sequence[str] = ()  # rules that no selection leaves out, as one that is ignored
    sources: Sources = Sources()  # of facts, which are options too
    given_by: dict[str, str] = {}  # noqa: RUF012 - never changed: by option, the environment variable that gives it

    if not TYPE_CHECKING:

        def __init__(self, paths: list[str], **given: object) -> None:
            super().__init__(paths=paths or ["."], **given)

    @property
    def versions(self) -> dict[str, str]:
        """The releases that are named, by library."""
        named = {library: getattr(self, f"{library}_version") for library in LIBRARIES}
        return {library: version for library, version in named.items() if version is not None}

    def source(self, option: str) -> str:
        """What gives the value of an option: the option, or an environment variable."""
        return self.given_by.get(option, f"--{option}")

    @property
    def names_rules(self) -> bool:
        """Whether it says anything about rules."""
        return self.select is not None or bool(self.extend_select or self.ignore or self.preview or self.always)

    @property
    def gives_settings(self) -> bool:
        """Whether it gives settings that count over those of files."""
        return bool(
            self.config_options
            or self.per_file_ignores
            or self.extend_per_file_ignores
            or self.fixable
            or self.extend_fixable
            or self.unfixable
        )


def terms() -> list[Option]:
    """What a config is checked for, as callers in Python and editors give it too: stack, releases and facts."""
    own = [one for one in Options.options() if one.part in ("stack", "releases")]
    return own + [one for one in Sources.options() if one.part == "facts"]


def terms_of_memory() -> list[Option]:
    """The same for what a run takes: also what decides on memory alone."""
    return terms() + [one for one in Sources.options() if one.part in ("samples", "updates")]


def options_of_terms(values: Mapping[str, Any], given_by: str) -> Options:
    """The options that these values of terms by name come to, and who gives them."""
    facts = {name: value for name, value in values.items() if hasattr(Sources, name)}
    others = {name: value for name, value in values.items() if name not in facts}
    return Options([], **others, sources=Sources(**facts, given_by=given_by))
