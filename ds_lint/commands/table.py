"""Every subcommand: its help, its options and the titles above them. The parser follows this table."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ds_lint.commands import dispatch
from ds_lint.commands import options as own
from ds_lint.commands.environment import VARIABLES
from ds_lint.facts import Sources
from ds_lint.session.options import Options

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterator

    from ds_lint.option import Option, OptionRecord


class Section(NamedTuple):
    """Options below a title of the help: the parts of the records, or single options by name."""

    title: str
    parts: str
    text: str | None = None


class Command(NamedTuple):
    """A subcommand."""

    name: str
    help: str
    description: str
    run: Callable[[Namespace], int]
    records: tuple[type[OptionRecord], ...] = ()
    sections: tuple[Section, ...] = ()
    parts: str = ""  # without a title, above the sections; first what it takes beside options
    usage: str | None = None
    epilog: str | None = None

    def options(self, parts: str) -> Iterator[Option]:
        """The options of these parts, in this order."""
        known = [one for record in self.records for one in record.options()]
        for part in parts.split():
            yield from (one for one in known if part in (one.part, one.name))


_TARGET = "what the config is checked for"
_RULES = Section("rules", "rules")
_SETTINGS = Section("settings", "settings config")
_SETTINGS_FILE = Section("settings", "settings")  # where --config is the DeepSpeed config
_PATTERNS = "Patterns are those of a .gitignore, from the working directory."
_REPORT = (
    _RULES,
    _SETTINGS,
    Section("search of directories", "search", _PATTERNS),
    Section("input and output", "output amount color input notes"),
)
_EXIT_STATUS = """\
exit status:
  0  no findings at or above --fail-on, or --exit-zero
  1  findings
  2  wrong usage, a file that cannot be read or written, or an internal error
"""
_NAMES = "\n  ".join(VARIABLES)

COMMANDS = (
    Command(
        "check",
        "check configs",
        "Check DeepSpeed configs. A file is checked as what its content is; a file that\n"
        "launches training or pins releases checks the configs that it reaches. In a\n"
        "directory, the configs in JSON, Python, notebooks, shell scripts, recipes and\n"
        "Accelerate's YAML are checked. Without PATH, the current directory is\n"
        "searched; - is standard input.",
        dispatch.run_check,
        (Options, Sources, own.CheckOptions),
        (
            Section(_TARGET, "stack facts here releases"),
            *_REPORT,
            Section("existing findings", "baseline", "So that only new findings are reported."),
            Section("instead of checking", "instead"),
            Section("while you work", "watch"),
            Section("fixes", "fixes", "--fix exits with 1 if findings are left, --diff if there are fixes."),
            Section(
                "training run",
                "smoke",
                "A few steps of real training with each config: does it shard, train, save and\n"
                "resume? Needs torch, transformers, deepspeed and accelerate beside ds-lint\n"
                "(pip install 'deepspeed-lint[smoke]'). If a run cannot be made, the exit\n"
                "status is 2.",
            ),
        ),
        "paths",
        usage="%(prog)s [PATH ...] [OPTION ...]",
        epilog=f"environment variables, each for the option with its name:\n  {_NAMES}\n\n{_EXIT_STATUS}",
    ),
    Command(
        "smoke",
        "run a few training steps of your own script and check them",
        "Start COMMAND, which trains with DeepSpeed or FSDP, and let it make a few steps\n"
        "on its own model and data. Check what the config promises, save, stop, and start\n"
        "it again to resume. COMMAND is what you would type: torchrun, deepspeed,\n"
        "accelerate launch, srun, a shell script or python. The script is not changed.\n"
        "What it prints goes to standard error.",
        dispatch.run_smoke,
        (own.ScriptOptions, Options),
        (
            Section("training run", "run"),
            _RULES,
            _SETTINGS_FILE,
            Section("output", "output color notes"),
            Section(_TARGET, "releases"),
        ),
        usage="%(prog)s [OPTION ...] -- COMMAND ...",
        epilog="examples:\n"
        "  ds-lint smoke -- torchrun --nproc-per-node 2 train.py --deepspeed ds.json\n"
        "  ds-lint smoke --cpu -- deepspeed --num_gpus 2 train.py --deepspeed ds.json\n\n"
        "exit status:\n"
        "  0  every promise is kept, or no finding is at or above --fail-on\n"
        "  1  findings: the config does something else than it says, or breaks a promise\n"
        "  2  wrong usage, or the script does not come to its steps\n",
    ),
    Command(
        "upgrade",
        "report what an upgrade changes for configs",
        "Report what changes for configs from one release of DeepSpeed, transformers or\n"
        "accelerate to another: keys that become rejected, ignored or read, changed\n"
        "defaults, deprecations.",
        dispatch.run_upgrade,
        (Options, Sources, own.UpgradeOptions),
        (Section(_TARGET, "stack facts here ends"), *_REPORT),
        "paths",
        usage="%(prog)s --from V [--to V] [PATH ...] [OPTION ...]",
        epilog=_EXIT_STATUS,
    ),
    Command(
        "effective",
        "print a config as it is used",
        "Print a config as the stack uses it: every value, and where it comes from: the\n"
        "file, the defaults of the release, the Trainer or Accelerate.",
        dispatch.run_effective,
        (own.EffectiveOptions, own.TextOrJson, Options, Sources),
        (Section(_TARGET, "stack facts here releases"), _SETTINGS),
        "path printed format color",
        usage="%(prog)s PATH [OPTION ...]",
        epilog="exit status:\n"
        "  0  printed; with --against, the configs are the same\n"
        "  1  the two configs differ\n"
        "  2  wrong usage, or a file that cannot be read",
    ),
    Command(
        "memory",
        "estimate what a run needs on GPUs, hosts and NVMe",
        "Estimate what a training run needs on each GPU, each host and NVMe, by kind, and\n"
        "whether it fits. Nothing is started, and torch is not needed. Ranks, model and\n"
        "training arguments come from the launches of the project if they are found.\n"
        "Without a config, compare all stages, offloads and activation checkpointing for\n"
        "--model and --world-size, and with --gpu the largest micro batch of each.",
        dispatch.run_memory,
        (own.MemoryOptions, own.TextOrJson, Options, Sources),
        (Section(_TARGET, "stack facts here samples updates releases"), _SETTINGS),
        "path shown format color",
        usage="%(prog)s [CONFIG|LAUNCH] [OPTION ...]",
        epilog="exit status:\n"
        "  0  it fits, or may fit, or it is not known how much memory there is\n"
        "  1  it does not fit: the least that it takes is more than there is\n"
        "  2  wrong usage, a fact that is missing, or a file that cannot be read",
    ),
    Command(
        "convert",
        "convert a DeepSpeed config to FSDP, or FSDP to DeepSpeed",
        "Write the Accelerate YAML with FSDP that corresponds to a DeepSpeed config, or\n"
        "the DeepSpeed config that corresponds to such a YAML. Notes say what has no\n"
        "counterpart, and what changes in memory, saving and precision.",
        dispatch.run_convert,
        (own.ConvertOptions, own.TextOrJson, Options, Sources),
        (Section(_TARGET, "stack facts here releases"), _SETTINGS),
        "path conversion format color",
        usage="%(prog)s PATH --to fsdp|deepspeed [OPTION ...]",
        epilog="exit status:\n  0  converted\n  2  wrong usage, or a file that cannot be read, converted or written",
    ),
    Command(
        "checkpoint",
        "read a saved checkpoint: what it holds, what is broken, where it resumes",
        "Read a folder that DeepSpeed, the Trainer, Accelerate or FSDP has saved: who\n"
        "wrote it, which files are missing or not whole, what its tensors are, and\n"
        "whether it resumes on a number of ranks. Nothing is loaded: torch is not needed,\n"
        "and no pickle is executed.",
        dispatch.run_checkpoint,
        (own.CheckpointOptions, Options, Sources),
        (Section("the run that resumes", "resumed world_size"), _SETTINGS_FILE),
        "path format color",
        usage="%(prog)s DIR [OPTION ...]",
        epilog="exit status:\n"
        "  0  it resumes as it is, or nothing was asked\n"
        "  1  it does not, has to be converted, or is broken\n"
        "  2  wrong usage, or a folder that cannot be read",
    ),
    Command(
        "advisories",
        "list the known defects of releases, or those that a project reaches",
        "List what is broken in which releases of DeepSpeed, transformers, Accelerate and\n"
        "their neighbours. With an ID, print its page; with a PATH, list the defects that\n"
        "the configs there reach with the releases that the project pins or has\n"
        "installed, and those that they may reach.",
        dispatch.run_advisories,
        (own.AdvisoriesOptions, Options, Sources),
        (Section(_TARGET, "stack facts here releases"), _SETTINGS),
        "named listed color",
        usage="%(prog)s [ID ...|PATH ...] [OPTION ...]",
        epilog="exit status:\n"
        "  0  printed; no config certainly reaches a defect of severity error or warning\n"
        "  1  a config certainly reaches one\n"
        "  2  wrong usage, or a file that cannot be read",
    ),
    Command(
        "doctor",
        "say why a run failed or went wrong, by its log",
        "Read the log of a run: which rank failed first, what it raised in which phase,\n"
        "the key, argument or line behind it, and what to write instead; or how the loss\n"
        "and the loss scale went wrong. With the config or the project that was run, they\n"
        "are checked too, and the finding that explains the log comes first.",
        dispatch.run_doctor,
        (own.DoctorOptions, own.TextOrJson, Options, Sources),
        (Section(_TARGET, "stack facts here releases"), _SETTINGS, Section("while it runs", "followed")),
        "logs format color",
        usage="%(prog)s LOG ... [CONFIG|PROJECT ...] [OPTION ...]",
        epilog="exit status:\n"
        "  0  the log shows no cause of trouble\n"
        "  1  it shows one\n"
        "  2  wrong usage, or a file that cannot be read",
    ),
    Command(
        "bug-report",
        "write what a bug report about a run has to contain",
        "Write what the bug reports of DeepSpeed, transformers and Accelerate ask for, as\n"
        "Markdown: releases, GPUs and driver, DeepSpeed's ops, the launch, the config as\n"
        "it is used, findings, known defects, and what a log shows. Only nvidia-smi is\n"
        "run. Secrets, homes, users, hosts and addresses are hidden. Without a path, the\n"
        "project is the current directory.",
        dispatch.run_bug_report,
        (own.BugReportOptions, Options, Sources),
        (Section(_TARGET, "stack facts releases"), _SETTINGS, Section("training run", "trained")),
        "described written_to",
        usage="%(prog)s [LOG|CONFIG|PROJECT ...] [OPTION ...]",
        epilog="exit status:\n  0  written\n  2  wrong usage, or a file that cannot be read or written",
    ),
    Command(
        "explain",
        "explain a rule, an advisory, a key, or a text of a log",
        "Print the page of a rule (DS101 or unknown-key) or of an advisory\n"
        "(DSA-2026-0001), what a key of the config means: its type, default, releases,\n"
        "what fills it, and where DeepSpeed documents it, or what an exception, an exit\n"
        "status or another text of a log means.",
        dispatch.run_explain,
        (own.ExplainOptions, own.TextOrJson, Options),
        parts="subject page format color",
        usage="%(prog)s CODE|NAME|ID|KEY.PATH|TEXT [OPTION ...]",
    ),
    Command(
        "rules", "list the rules", "List the rules.", dispatch.run_rules, (own.TextOrJson, Options), (), "format color"
    ),
    Command(
        "schema",
        "print the JSON Schema of a config, for editors",
        "Print the JSON Schema (draft-07) of a config for one release of DeepSpeed.",
        dispatch.run_schema,
        (own.SchemaOptions,),
        parts="schema",
    ),
    Command(
        "init",
        "write a config to start from",
        "Write a config with what the guides recommend, and no key that has no effect.\n"
        "For Accelerate, also write the file for `accelerate launch --config_file`.",
        dispatch.run_init,
        (own.InitOptions, Sources),
        (
            Section(
                "what fits",
                "fit gpu host_memory nodes samples",
                "Choose the stage, the offload and the micro batch by the memory that there is,\n"
                "on one machine unless --nodes has another number.",
            ),
        ),
        "purpose model world_size written",
    ),
    Command(
        "lsp",
        "start the language server",
        "Start the language server, which an editor uses over standard input and output.\n"
        "It needs pygls (pip install 'deepspeed-lint[lsp]').",
        dispatch.run_lsp,
        (own.LspOptions,),
        parts="stdio",
    ),
    Command(
        "completion",
        "print a completion script for a shell",
        "Print a script with which a shell completes commands, options, rules and keys:\n\n"
        '  bash   eval "$(ds-lint completion bash)"           in ~/.bashrc\n'
        '  zsh    eval "$(ds-lint completion zsh)"            in ~/.zshrc, after compinit\n'
        "  fish   ds-lint completion fish > ~/.config/fish/completions/ds-lint.fish",
        dispatch.run_completion,
        (own.CompletionOptions,),
        parts="shell",
    ),
)
