"""The command line in full: options, help, errors."""

from __future__ import annotations

import argparse
import os
import sys

from ds_lint import __version__
from ds_lint.commands import dispatch
from ds_lint.commands.environment import VARIABLES
from ds_lint.commands.init import DEFAULT_OUTPUT
from ds_lint.commands.usage import CommandsHelp, Parser
from ds_lint.diagnostics.finding import SEVERITIES, STACKS
from ds_lint.linter.choice import NAMES
from ds_lint.linter.selection import UnknownRule
from ds_lint.output import FORMATS
from ds_lint.output.harmless import complaint
from ds_lint.output.terminal import COLOURED, colour
from ds_lint.project.discovery import ENDINGS
from ds_lint.rule_pages.translations import LANGUAGES
from ds_lint.scaffold.composition import NVME_PATH, OFFLOADS, PRECISIONS, STAGES
from ds_lint.session.options import LIMIT
from ds_lint.targets.pin import LIBRARIES

SHELLS = ("bash", "zsh", "fish")

_EPILOG = """\
examples:
  ds-lint check ds_config.json                  check one file
  ds-lint check                                 check all configs below here
  ds-lint check ds_config.json --stack trainer  check it for the Trainer only
  ds-lint check - < ds_config.json              check standard input
  ds-lint explain zero_optimization.stage       show what a key means
  ds-lint init --stage 3 --offload cpu          write a config to start from

"ds-lint help COMMAND" prints the options of a command.
"""

_EXIT_STATUS = """\
exit status:
  0  no findings at or above --fail-on, or --exit-zero
  1  findings
  2  wrong usage, a file that cannot be read or written, or an internal error
"""

_NAMES = "\n  ".join(VARIABLES)
_CHECK_EPILOG = f"""\
environment variables, each for the option with its name:
  {_NAMES}

{_EXIT_STATUS}"""


def parse(arguments: list[str]) -> int:
    """Run the subcommand that the command line names."""
    parser = command_line()
    arguments, behind = _split(arguments)
    options, left = parser.parse_known_args(_for_argparse(arguments))
    if behind is not None:
        options.command_words = behind
    if not hasattr(options, "run"):
        parser.print_help(sys.stderr)
        return 2
    if left and hasattr(options, "paths"):
        if "--" in left:
            left.remove("--")
        options.paths += left  # argparse takes the paths before an option, or those behind it
    elif left:
        parser.error(f"unexpected argument {left[0]}")
    colour(getattr(options, "color", None) or "auto")
    try:
        status: int = options.run(options)
    except UnknownRule as error:
        sys.stderr.write(complaint(str(error)))
        return 2
    return status


def _split(arguments: list[str]) -> tuple[list[str], list[str] | None]:
    """The command line of ``smoke`` and the command behind ``--``, whose words are not options of ds-lint."""
    if arguments[:1] != ["smoke"]:
        return arguments, None
    if "--" not in arguments:  # the options of a command that lacks it are not those of ds-lint
        return ["smoke", *(one for one in arguments if one in ("-h", "--help"))], None
    place = arguments.index("--")
    return arguments[:place], arguments[place + 1 :]


def _for_argparse(arguments: list[str]) -> list[str]:
    """The command line for argparse, which takes every word that begins with a dash for an option.

    The flags that follow ``--trainer-args`` are joined to it with ``=``, and a file whose name begins with a dash, as
    pre-commit passes it, gets a ``./``.
    """
    tied: list[str] = []
    for argument in arguments:
        if argument.startswith("-") and argument.endswith(ENDINGS) and "--" not in tied and os.path.isfile(argument):
            tied.append(os.path.join(os.curdir, argument))
        elif tied and tied[-1] == "--trainer-args" and argument.startswith("--") and argument != "--":
            tied[-1] += f"={argument}"
        else:
            tied.append(argument)
    return tied


def command_line() -> Parser:
    """The parser with all subcommands and their options."""
    parser = Parser(
        prog="ds-lint",
        description="A linter for DeepSpeed configs: what DeepSpeed, the Hugging Face Trainer and\n"
        "Accelerate really do with a config, before the job starts.",
        epilog=_EPILOG,
        formatter_class=CommandsHelp,
    )
    parser.add_argument("-V", "--version", action="version", version=f"ds-lint {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    _add_check(commands)
    _add_script(commands)
    _add_upgrade(commands)
    _add_effective(commands)
    _add_memory(commands)
    _add_convert(commands)
    _add_explain(commands)
    _add_rules(commands)
    _add_schema(commands)
    _add_init(commands)
    _add_lsp(commands)
    _add_completion(commands, parser)
    _add_help(commands, parser)
    return parser


def _add_check(commands: argparse._SubParsersAction[Parser]) -> None:
    check = commands.add_parser(
        "check",
        help="check configs",
        usage="%(prog)s [PATH ...] [OPTION ...]",
        description="Check DeepSpeed configs. A file is checked as what its content is; a file that\n"
        "launches training or pins releases checks the configs that it reaches. In a\n"
        "directory, the configs in JSON, Python, notebooks, shell scripts, recipes and\n"
        "Accelerate's YAML are checked. Without PATH, the current directory is\n"
        "searched; - is standard input.",
        epilog=_CHECK_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    target = _add_common(check)
    _add_versions(target)
    baseline = check.add_argument_group("existing findings", "So that only new findings are reported.")
    baseline.add_argument("--baseline", metavar="FILE", help="suppress the findings that are listed in this file")
    baseline.add_argument(
        "--write-baseline",
        action="store_true",
        help="write all findings to the baseline (default: ds-lint-baseline.json) and suppress them",
    )
    baseline.add_argument(
        "--add-ignore",
        action="store_true",
        help="suppress all findings in the files: with comments if only DeepSpeed reads the config, else with "
        "per-file-ignores in the settings file, which is created if there is none",
    )
    instead = check.add_argument_group("instead of checking")
    instead.add_argument(
        "--show-files", action="store_true", help="list the files that would be checked, and what each is and why"
    )
    instead.add_argument(
        "--show-launches",
        action="store_true",
        help="list the commands that start training in scripts, Makefiles, Dockerfiles, workflows, notebooks and "
        "Python, and what is understood of each",
    )
    instead.add_argument(
        "--show-settings",
        action="store_true",
        help="print the settings, releases and rules that apply to each PATH, and where each comes from",
    )
    check.add_argument_group("while you work").add_argument(
        "--watch",
        action="store_true",
        help="check again when a file changes, until Ctrl-C",
    )
    _add_fixing(check)
    _add_smoke(check)
    check.set_defaults(run=dispatch.run_check)


def _add_smoke(check: argparse.ArgumentParser) -> None:
    smoke = check.add_argument_group(
        "training run",
        "A few steps of real training with each config: does it shard, train, save and\n"
        "resume? Needs torch, transformers, deepspeed and accelerate beside ds-lint\n"
        "(pip install 'ds-lint[smoke]'). If a run cannot be made, the exit status is 2.",
    )
    smoke.add_argument(
        "--smoke",
        action="store_true",
        help="train with each config, on CPU ranks of this machine and on its GPUs, if it has any",
    )
    smoke.add_argument(
        "--smoke-launches",
        action="store_true",
        help="run a few steps of each launch that --show-launches lists, as ds-lint smoke does: this runs your scripts",
    )
    smoke.add_argument("--smoke-ranks", type=_positive, metavar="N", help="number of CPU ranks (default: 2)")
    smoke.add_argument(
        "--smoke-device",
        choices=("auto", "cpu", "cuda"),
        help="train only on CPU ranks, or only on GPUs (default: auto)",
    )
    smoke.add_argument(
        "--smoke-launch",
        metavar="COMMAND",
        help='start the ranks with a launcher: "torchrun --nproc-per-node 4", "deepspeed --num_gpus 2", "accelerate '
        'launch --use_deepspeed --num_processes 2", "srun -N 2 --ntasks-per-node 8"',
    )
    smoke.add_argument(
        "--smoke-sbatch",
        metavar="FILE",
        help="do not train, but write the script of a SLURM job that trains on --nodes with --world-size GPUs in all",
    )
    smoke.add_argument(
        "--smoke-folder",
        metavar="DIR",
        help="directory for the runs, which ranks on all nodes can access (default: a temporary one)",
    )
    smoke.add_argument(
        "--smoke-timeout", type=_positive, metavar="S", help="seconds for each part of a run (default: 120)"
    )
    smoke.add_argument(
        "--smoke-build-ops",
        action="store_true",
        help="compile DeepSpeed's ops, which takes minutes, instead of computing the same with torch",
    )
    smoke.add_argument(
        "--smoke-lora",
        action="store_true",
        help="freeze the model and train LoRA adapters on its linear layers; needs peft",
    )
    smoke.add_argument("--smoke-report", metavar="FILE", help="write an HTML report of the runs to FILE")
    smoke.add_argument("--smoke-keep", metavar="DIR", help="keep checkpoints and logs of the runs in DIR")
    # Rank 0 of `python -m ds_lint.smoke.worker` is this command with that option.
    smoke.add_argument("--smoke-join", action="store_true", help=argparse.SUPPRESS)


def _add_script(commands: argparse._SubParsersAction[Parser]) -> None:
    smoke = commands.add_parser(
        "smoke",
        help="run a few training steps of your own script and check them",
        usage="%(prog)s [OPTION ...] -- COMMAND ...",
        description="Start COMMAND, which trains with DeepSpeed, and let it make a few steps on its own model\n"
        "and data. Check what the config promises, save, stop, and start it again to resume.\n"
        "COMMAND is what you would type: torchrun, deepspeed, accelerate launch, srun, a\n"
        "shell script or python. The script is not changed. What it prints goes to\n"
        "standard error.",
        epilog="examples:\n"
        "  ds-lint smoke -- torchrun --nproc-per-node 2 train.py --deepspeed ds.json\n"
        "  ds-lint smoke --cpu -- deepspeed --num_gpus 2 train.py --deepspeed_config ds.json\n\n"
        "exit status:\n"
        "  0  every promise is kept, or no finding is at or above --fail-on\n"
        "  1  findings: the config does something else than it says, or a promise is broken\n"
        "  2  wrong usage, or the script does not come to its steps\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run = smoke.add_argument_group("training run")
    run.add_argument(
        "--steps", type=_positive, metavar="N", default=3, help="optimizer steps up to the checkpoint (default: 3)"
    )
    run.add_argument(
        "--no-resume", dest="resume", action="store_false", help="do not start the command again to resume"
    )
    run.add_argument(
        "--config",
        metavar="FILE",
        help="the DeepSpeed config of the script (default: the one that the command names)",
    )
    run.add_argument(
        "--cpu",
        action="store_true",
        help="train on CPU ranks, with stand-ins for what needs a GPU (default on a machine without GPUs)",
    )
    run.add_argument(
        "--shrink",
        action="store_true",
        help="make models small where the script makes them, so that no weights are needed",
    )
    run.add_argument(
        "--timeout", type=_positive, metavar="S", default=1800, help="seconds for each start (default: 1800)"
    )
    run.add_argument(
        "--profile", action="store_true", help="profile a step, and report the share of communication in its time"
    )
    run.add_argument("--folder", metavar="DIR", help="directory for the run (default: a temporary one)")
    run.add_argument("--keep", metavar="DIR", help="keep checkpoints and outputs of the run in DIR")
    run.add_argument("--report", metavar="FILE", help="write an HTML report of the run to FILE")
    _add_rules_of_a_report(smoke)
    _add_settings(smoke)
    files = smoke.add_argument_group("output")
    _add_output(files)
    _add_color(files)
    _add_volume(files)
    _add_versions(smoke.add_argument_group("what the config is checked for"))
    smoke.set_defaults(run=dispatch.run_smoke, command_words=[])


def _add_fixing(check: argparse.ArgumentParser) -> None:
    fixing = check.add_argument_group("fixes", "--fix exits with 1 if findings are left, --diff if there are fixes.")
    how = fixing.add_mutually_exclusive_group()
    how.add_argument(
        "--fix",
        action="store_true",
        help="apply the safe fixes and report the remaining findings; - is fixed to standard output",
    )
    how.add_argument(
        "--fix-only",
        action="store_true",
        help="apply the safe fixes, but do not report the remaining findings, nor exit with 1 for them",
    )
    how.add_argument(
        "--diff", action="store_true", help="print what --fix would change instead of a report, and change nothing"
    )
    fixing.add_argument(
        "--unsafe-fixes",
        action="store_true",
        help="also apply, or with --diff show, the fixes that may change the run",
    )


def _add_upgrade(commands: argparse._SubParsersAction[Parser]) -> None:
    upgrade = commands.add_parser(
        "upgrade",
        help="report what an upgrade changes for configs",
        usage="%(prog)s --from V [--to V] [PATH ...] [OPTION ...]",
        description="Report what changes for configs from one release of DeepSpeed, transformers or\n"
        "accelerate to another: keys that become rejected, ignored or read, changed\n"
        "defaults, deprecations.",
        epilog=_EXIT_STATUS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    target = _add_common(upgrade)
    target.add_argument("--from", dest="deepspeed_from", metavar="V", help="the old release of DeepSpeed")
    target.add_argument("--to", dest="deepspeed_to", metavar="V", help="the new one (default: the newest known)")
    for library in LIBRARIES[1:]:
        target.add_argument(f"--{library}-from", metavar="V", help=f"the old release of {library}")
        target.add_argument(f"--{library}-to", metavar="V", help="the new one (default: the newest known)")
    upgrade.set_defaults(run=dispatch.run_upgrade)


def _add_effective(commands: argparse._SubParsersAction[Parser]) -> None:
    effective = commands.add_parser(
        "effective",
        help="print a config as it is used",
        usage="%(prog)s PATH [OPTION ...]",
        description="Print a config as the stack uses it: every value, and where it comes from: the\n"
        "file, the defaults of the release, the Trainer or Accelerate.",
        epilog="exit status:\n"
        "  0  printed; with --against, the configs are the same\n"
        "  1  the two configs differ\n"
        "  2  wrong usage, or a file that cannot be read",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    effective.add_argument(
        "path",
        metavar="PATH",
        help="file, or - for standard input; of several configs in a file, the one at a line, as train.py:12",
    )
    effective.add_argument("--against", metavar="OTHER", help="print only the values that differ from this file")
    effective.add_argument(
        "--all", action="store_true", help="include the defaults of sections that the config does not have"
    )
    effective.add_argument("--output-format", choices=("text", "json"), default="text", help="(default: text)")
    _add_color(effective)
    _add_versions(_add_target(effective))
    _add_settings(effective)
    effective.set_defaults(run=dispatch.run_effective)


def _add_memory(commands: argparse._SubParsersAction[Parser]) -> None:
    memory = commands.add_parser(
        "memory",
        help="estimate what a run takes of GPUs, hosts and NVMe",
        usage="%(prog)s CONFIG|LAUNCH [OPTION ...]",
        description="Estimate what a training run takes of each GPU, each host and NVMe, by kind, and\n"
        "whether it fits. Nothing is started, and torch is not needed. Ranks, model and\n"
        "training arguments come from the launches of the project if they are found.",
        epilog="exit status:\n"
        "  0  it fits, or may fit, or it is not known how much memory there is\n"
        "  1  it does not fit: the least that it takes is more than there is\n"
        "  2  wrong usage, a fact that is missing, or a file that cannot be read",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    memory.add_argument(
        "path",
        metavar="CONFIG|LAUNCH",
        help="config, or - for standard input, or file that launches training; of several configs or launches in a "
        "file, the one at a line, as run.sh:12",
    )
    memory.add_argument(
        "--sweep", action="store_true", help="also print what each stage of ZeRO takes, without and with offload"
    )
    memory.add_argument(
        "--plot",
        metavar="FILE",
        help="draw bars by kind against the memory that there is, with --sweep for every stage; FILE ends with .svg, "
        ".html or .png (which needs matplotlib)",
    )
    memory.add_argument("--output-format", choices=("text", "json"), default="text", help="(default: text)")
    _add_color(memory)
    target = _add_target(memory)
    _add_samples(target)
    _add_versions(target)
    _add_settings(memory)
    memory.set_defaults(run=dispatch.run_memory)


def _add_samples(target: argparse._ArgumentGroup) -> None:
    """The options about what decides on memory alone."""
    target.add_argument(
        "--parameters",
        metavar="COUNT",
        help="number of parameters, such as 7B, of a model whose shapes are not known",
    )
    target.add_argument(
        "--lora",
        metavar="ADAPTERS",
        help="train LoRA adapters, such as r=16,targets=q_proj+v_proj (targets may be all-linear; default: those of "
        "peft)",
    )
    target.add_argument(
        "--gpu-memory", metavar="SIZE", help="memory of each GPU, such as 80GB, if it has no known name"
    )
    target.add_argument("--micro-batch", type=_positive, metavar="B", help="samples that one GPU computes at once")
    target.add_argument("--sequence-length", type=_positive, metavar="S", help="tokens of a sample")


def _add_convert(commands: argparse._SubParsersAction[Parser]) -> None:
    convert = commands.add_parser(
        "convert",
        help="convert a DeepSpeed config to FSDP, or FSDP to DeepSpeed",
        usage="%(prog)s PATH --to fsdp|deepspeed [OPTION ...]",
        description="Write the Accelerate YAML with FSDP that corresponds to a DeepSpeed config, or the\n"
        "DeepSpeed config that corresponds to such a YAML. Notes say what has no\n"
        "counterpart, and what changes in memory, saving and precision.",
        epilog="exit status:\n  0  converted\n  2  wrong usage, or a file that cannot be read, converted or written",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    convert.add_argument(
        "path",
        metavar="PATH",
        help="DeepSpeed config or Accelerate YAML, or - for standard input; of several configs in a file, the one at a "
        "line, as train.py:12, in a notebook at a cell and line, as train.ipynb:3:1",
    )
    convert.add_argument("--to", choices=("fsdp", "deepspeed"), required=True, help="what to convert to")
    convert.add_argument(
        "--fsdp-version", type=int, choices=(1, 2), help="version of FSDP (default: 2, or 1 before accelerate 1.6.0)"
    )
    convert.add_argument("--output", metavar="FILE", help="write it to FILE instead of standard output")
    convert.add_argument("--force", action="store_true", help="overwrite an existing FILE")
    convert.add_argument("--output-format", choices=("text", "json"), default="text", help="(default: text)")
    _add_color(convert)
    _add_versions(_add_target(convert))
    _add_settings(convert)
    convert.set_defaults(run=dispatch.run_convert)


def _add_common(command: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """The options of both ``check`` and ``upgrade``; returns the group about what configs are checked for."""
    command.add_argument("paths", nargs="*", metavar="PATH", help="file, directory, or - for standard input")
    target = _add_target(command)
    _add_rules_of_a_report(command)
    _add_settings(command)
    _add_search(command)
    files = command.add_argument_group("input and output")
    _add_output(files)
    files.add_argument(
        "--statistics", action="store_true", help="print the number of findings of each rule instead of the findings"
    )
    files.add_argument(
        "--limit", type=_not_negative, metavar="N", default=LIMIT,
        help=f"how many findings of one rule and severity `full` prints, 0 for all (default: {LIMIT})",
    )  # fmt: skip
    _add_color(files)
    files.add_argument("--stdin-filename", metavar="NAME", help="name of standard input in the report")
    files.add_argument(
        "--detect", action="store_true", help="skip named files without a DeepSpeed config, as in a directory"
    )
    _add_volume(files)
    return target


def _add_rules_of_a_report(command: argparse.ArgumentParser) -> None:
    rules = command.add_argument_group("rules")
    rules.add_argument(
        "--select",
        type=_words,
        action="extend",
        metavar="RULES",
        help="enable only these rules: codes, prefixes of codes, names or ALL, separated by commas",
    )
    rules.add_argument("--extend-select", type=_words, action="extend", metavar="RULES", help="enable these rules too")
    rules.add_argument("--ignore", type=_words, action="extend", metavar="RULES", help="disable these rules")
    rules.add_argument("--preview", action="store_true", help="enable rules that are in preview")
    rules.add_argument(
        "--fail-on",
        choices=SEVERITIES,
        help="exit with 1 if there are findings of this severity or worse (default: warning)",
    )
    rules.add_argument(
        "--exit-zero", action="store_true", help="exit with 0 even if there are findings; errors still exit with 2"
    )


def _add_output(files: argparse._ArgumentGroup) -> None:
    files.add_argument(
        "--output-format", choices=sorted(FORMATS), metavar="FORMAT",
        help=f"one of {', '.join(sorted(FORMATS))} (default: full; in a GitHub workflow, github)",
    )  # fmt: skip
    files.add_argument("--output-file", metavar="FILE", help="write the report to FILE instead of standard output")


def _add_volume(files: argparse._ArgumentGroup) -> None:
    volume = files.add_mutually_exclusive_group()
    volume.add_argument(
        "-v", "--verbose", action="store_true", help="print which releases and facts are used, and where they come from"
    )
    volume.add_argument(
        "-q", "--quiet", action="store_true", help="print findings and training runs, but no notes and no summary"
    )


def _add_search(command: argparse.ArgumentParser) -> None:
    search = command.add_argument_group(
        "search of directories", "Patterns are those of a .gitignore, from the working directory."
    )
    search.add_argument(
        "--exclude",
        type=_words,
        action="extend",
        metavar="PATTERNS",
        help="skip what these patterns match, instead of hidden directories, build, dist, env, node_modules, "
        "site-packages, venv, wandb and __pycache__",
    )
    search.add_argument("--extend-exclude", type=_words, action="extend", metavar="PATTERNS", help="skip these too")
    search.add_argument(
        "--force-exclude",
        action=argparse.BooleanOptionalAction,
        help="skip excluded files and directories even if they are named",
    )
    search.add_argument(
        "--include-markdown",
        action=argparse.BooleanOptionalAction,
        help="search Markdown files too, for the configs in their fenced blocks",
    )
    search.add_argument(
        "--respect-gitignore", action=argparse.BooleanOptionalAction, help="skip what git ignores (default: on)"
    )


def _add_color(command: argparse._ActionsContainer) -> None:
    command.add_argument("--color", choices=COLOURED, help="when to use colors (default: auto, in a terminal)")


def _add_settings(command: argparse.ArgumentParser) -> None:
    settings = command.add_argument_group("settings").add_mutually_exclusive_group()
    settings.add_argument(
        "--settings",
        metavar="FILE",
        help="settings file (default: the nearest ds-lint.toml, or pyproject.toml with [tool.ds-lint])",
    )
    settings.add_argument("--isolated", action="store_true", help="ignore all settings files")


def _add_target(command: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """The options about the run that the config is for: what loads the config, and the facts."""
    target = command.add_argument_group("what the config is checked for")
    target.add_argument(
        "--stack", choices=STACKS, help="what loads the config (default: inferred from the config, else all)"
    )
    target.add_argument("--world-size", type=_positive, metavar="N", help="number of ranks of the run")
    target.add_argument(
        "--nodes", type=_positive, metavar="N", help="number of machines that the ranks are spread over"
    )
    target.add_argument(
        "--trainer-args",
        metavar="FILE|FLAGS",
        help='training arguments: a JSON or YAML file of TrainingArguments fields, flags such as "--bf16 True", or '
        "a whole launch command",
    )
    target.add_argument(
        "--model",
        metavar="NAME|FOLDER",
        help="the model: a folder with its config.json, or the name of a model that was downloaded before, "
        "or whose shapes ship with ds-lint",
    )
    target.add_argument("--gpu", metavar="NAME", help="the GPU that the run uses, such as A100-80GB or T4")
    target.add_argument("--host-memory", metavar="SIZE", help="memory of each machine, such as 512GB")
    target.add_argument(
        "--here", action="store_const", const=True, help="the run uses this machine: read its GPU and its memory"
    )
    return target


def _add_versions(group: argparse._ArgumentGroup) -> None:
    for library in LIBRARIES:
        group.add_argument(
            f"--{library}-version",
            metavar="V",
            help=f'release of {NAMES[library]}, a line such as 0.16, or a range such as ">=0.14" (default: the '
            "release that the project pins, else the installed one, else the newest known)"
            if library == "deepspeed"
            else f"the same for {library}",
        )


def _add_explain(commands: argparse._SubParsersAction[Parser]) -> None:
    explain = commands.add_parser(
        "explain",
        help="explain a rule or a key",
        description="Print the page of a rule (DS101 or unknown-key), or what a key of the config means: its type, "
        "default, releases, what fills it, and where DeepSpeed documents it.",
    )
    explain.add_argument("subject", metavar="CODE|NAME|KEY.PATH", help="a rule or a key")
    languages = " or ".join(language.english_name for language in LANGUAGES.values())
    explain.add_argument(
        "--lang",
        choices=LANGUAGES,
        help=f"print the page of a rule in {languages}, if it is translated",
    )
    _add_color(explain)
    explain.set_defaults(run=dispatch.run_explain)


def _add_rules(commands: argparse._SubParsersAction[Parser]) -> None:
    rules = commands.add_parser("rules", help="list the rules", description="List the rules.")
    rules.add_argument("--output-format", choices=("text", "json"), default="text", help="(default: text)")
    _add_color(rules)
    rules.set_defaults(run=dispatch.run_rules)


def _add_schema(commands: argparse._SubParsersAction[Parser]) -> None:
    schema = commands.add_parser(
        "schema",
        help="print the JSON Schema of a config, for editors",
        description="Print the JSON Schema (draft-07) of a config for one release of DeepSpeed.",
    )
    schema.add_argument(
        "--deepspeed-version", metavar="V", help="a release, or a line such as 0.16 (default: the newest known)"
    )
    schema.add_argument("--output", metavar="FILE", help="write it to FILE instead of standard output")
    schema.set_defaults(run=dispatch.run_schema)


def _add_init(commands: argparse._SubParsersAction[Parser]) -> None:
    init = commands.add_parser(
        "init",
        help="write a config to start from",
        description="Write a config with what the guides recommend, and no key that has no effect.\n"
        "For Accelerate, also write the file for `accelerate launch --config_file`.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    init.add_argument("--stack", choices=STACKS, default="trainer", help="what loads the config (default: trainer)")
    init.add_argument(
        "--stage", type=int, choices=STAGES,
        help="what ZeRO shards: 0 nothing, 1 optimizer states, 2 also gradients, 3 also parameters (default: 2)",
    )  # fmt: skip
    init.add_argument(
        "--offload", choices=OFFLOADS,
        help="offload the optimizer, and at stage 3 the parameters, to CPU memory or NVMe (default: none)",
    )  # fmt: skip
    init.add_argument(
        "--precision", choices=PRECISIONS, help="precision of the training (default: that of the model, else bf16)"
    )
    init.add_argument(
        "--model",
        metavar="NAME|FOLDER",
        help="the model: a folder with its config.json, or the name of a model that was downloaded before, "
        "or whose shapes ship with ds-lint",
    )
    init.add_argument("--world-size", type=_positive, metavar="N", help="number of ranks of the run")
    init.add_argument("--gpus", dest="world_size", type=_positive, help=argparse.SUPPRESS)  # its old name
    init.add_argument("--nvme-path", metavar="DIR", help=f"directory for --offload nvme (default: {NVME_PATH})")
    init.add_argument(
        "--output", metavar="FILE", default=DEFAULT_OUTPUT,
        help=f"file to write, or - for standard output (default: {DEFAULT_OUTPUT})",
    )  # fmt: skip
    init.add_argument("--force", action="store_true", help="overwrite existing files")
    fit = init.add_argument_group(
        "what fits", "Choose the stage, the offload and the micro batch by the memory that there is."
    )
    fit.add_argument(
        "--fit",
        action="store_true",
        help="write the fastest config that fits; needs --model or --parameters, --gpu or --gpu-memory, and "
        "--world-size",
    )
    fit.add_argument("--gpu", metavar="NAME", help="the GPU that the run uses, such as A100-80GB or T4")
    fit.add_argument("--host-memory", metavar="SIZE", help="memory of each machine, such as 512GB")
    fit.add_argument(
        "--nodes", type=_positive, metavar="N", help="number of machines that the ranks are spread over (default: 1)"
    )
    _add_samples(fit)
    init.set_defaults(run=dispatch.run_init)


def _add_lsp(commands: argparse._SubParsersAction[Parser]) -> None:
    lsp = commands.add_parser(
        "lsp",
        help="start the language server",
        description="Start the language server, which an editor uses over standard input and output.\n"
        "It needs pygls (pip install 'ds-lint[lsp]').",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    lsp.add_argument("--stdio", action="store_true", help="accepted because some editors add it; has no effect")
    lsp.set_defaults(run=dispatch.run_lsp)


def _add_completion(commands: argparse._SubParsersAction[Parser], parser: Parser) -> None:
    completion = commands.add_parser(
        "completion",
        help="print a completion script for a shell",
        description="Print a script with which a shell completes commands, options, rules and keys:\n\n"
        '  bash   eval "$(ds-lint completion bash)"           in ~/.bashrc\n'
        '  zsh    eval "$(ds-lint completion zsh)"            in ~/.zshrc, after compinit\n'
        "  fish   ds-lint completion fish > ~/.config/fish/completions/ds-lint.fish",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    completion.add_argument("shell", choices=SHELLS, help="the shell")

    def run(options: argparse.Namespace) -> int:
        from ds_lint.commands.completion import completion

        return completion(options.shell, parser)

    completion.set_defaults(run=run)


def _add_help(commands: argparse._SubParsersAction[Parser], parser: Parser) -> None:
    names = commands.choices
    told = commands.add_parser("help", help="print the help of a command", description="Print the help of a command.")
    told.add_argument("command", nargs="?", choices=list(names), metavar="COMMAND", help="the command (default: all)")

    def run(options: argparse.Namespace) -> int:
        (parser if options.command is None else names[options.command]).print_help()
        return 0

    told.set_defaults(run=run)


def _positive(text: str) -> int:
    return _whole(text, 1)


def _not_negative(text: str) -> int:
    return _whole(text, 0)


def _whole(text: str, least: int) -> int:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
    return number


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
