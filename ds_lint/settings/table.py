"""Every setting that there is. The reader, the JSON Schema and the documentation follow this table."""

from __future__ import annotations

from ds_lint.facts import Sources
from ds_lint.output import FORMATS
from ds_lint.settings.kinds import (
    FILE,
    NUMBER,
    PATTERN,
    RULES,
    SEVERITY,
    STACK,
    SWITCH,
    VERSION,
    Entries,
    ListOf,
    RuleWord,
    Setting,
    TableOf,
    one_of,
    text,
)

# Settings for all configs, or only for those that a pattern matches.
_OF_A_RUN = (
    Setting("stack", STACK, "What loads the configs: DeepSpeed alone, the Hugging Face Trainer, or Accelerate."),
    *(
        Setting(
            fact.dashed, NUMBER if fact.is_number else text(fact.words or "a text that is not empty"), fact.sentence
        )
        for fact in Sources.options()
        if fact.part == "facts"
    ),
)
CONFIG = (
    Setting("path", PATTERN, "The configs: a path or a pattern, relative to the folder of this file."),
    *_OF_A_RUN,
)
_IGNORES = TableOf("a table of patterns and lists of rules", PATTERN, RULES)
_PATTERNS = ListOf("a list of patterns", PATTERN)
SETTINGS = (
    Setting("extend", FILE, "A settings file whose settings count where this one does not have them."),
    Setting(
        "required-version",
        text('a version such as "0.1.0" or a range such as ">=0.1"'),
        "The version of ds-lint, or a range such as `>=0.1`; another version stops with an error.",
    ),
    Setting("select", RULES, "The rules to enable, and no others: codes, prefixes of codes, names, or ALL."),
    Setting("extend-select", RULES, "Rules to enable in addition to those of `select`, or to the default ones."),
    Setting("ignore", RULES, "Rules to disable."),
    Setting("preview", SWITCH, "Enable rules that are in preview."),
    Setting(
        "severity",
        TableOf("a table of rules and severities", RuleWord(several=False), SEVERITY),
        "The severity of a rule's findings, instead of the default.",
    ),
    Setting(
        "per-file-ignores",
        _IGNORES,
        "Rules to disable for the configs that a pattern matches.",
    ),
    Setting("extend-per-file-ignores", _IGNORES, "Like `per-file-ignores`, added to those of the extended file."),
    Setting("fixable", RULES, "The rules whose fixes may be applied and are offered; all by default."),
    Setting("extend-fixable", RULES, "Rules to add to `fixable`."),
    Setting("unfixable", RULES, "Rules whose fixes are neither applied nor offered, even if they are in `fixable`."),
    Setting("unsafe-fixes", SWITCH, "Also apply the fixes that may change the run."),
    Setting("output-format", one_of(*sorted(FORMATS)), "The format of reports; `full` by default."),
    Setting("fail-on", SEVERITY, "Exit with 1 on findings of this severity or worse; `warning` by default."),
    Setting(
        "exclude",
        _PATTERNS,
        "Files and folders that a search of a directory skips, instead of the default ones: hidden directories, "
        "build, dist, env, node_modules, site-packages, venv, wandb, __pycache__.",
    ),
    Setting("extend-exclude", _PATTERNS, "Like `exclude`, added to it or to its default."),
    Setting(
        "include",
        _PATTERNS,
        "The files that a search of a directory looks at, instead of those whose names end like a config, a script, "
        "a notebook or a recipe.",
    ),
    Setting("extend-include", _PATTERNS, "Like `include`, added to it or to its default."),
    Setting("force-exclude", SWITCH, "Also skip excluded files and directories that the command line names."),
    Setting("include-markdown", SWITCH, "Search Markdown files too, for the configs in their fenced blocks."),
    Setting("respect-gitignore", SWITCH, "Skip what git ignores when a directory is searched; `true` by default."),
    *_OF_A_RUN,
    Setting("deepspeed-version", VERSION, "Release of DeepSpeed, a line such as 0.16, or a range such as >=0.14."),
    Setting("transformers-version", VERSION, "The same for Transformers."),
    Setting("accelerate-version", VERSION, "The same for Accelerate."),
    Setting("policy", ListOf("a list of files", FILE), "JSON Schemas of your own that every config must match."),
    Setting("baseline", FILE, "The findings to suppress, as `--write-baseline` wrote them."),
    Setting("configs", Entries("a list of tables", CONFIG), "Settings for some configs only; the last match wins."),
)
