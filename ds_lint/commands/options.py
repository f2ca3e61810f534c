"""The options that only one command has; ``session/options.py`` has those that several share, ``facts/`` the facts."""

from __future__ import annotations

from ds_lint.diagnostics.finding import STACKS
from ds_lint.facts import Sources
from ds_lint.option import OptionRecord, argument, option
from ds_lint.rule_pages.languages import LANGUAGES
from ds_lint.scaffold.composition import NVME_PATH, OFFLOADS, PRECISIONS, STAGES
from ds_lint.session.options import OUTPUT_FILE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.diagnostics.finding import Stack

SHELLS = ("bash", "zsh", "fish")
DEFAULT_OUTPUT = "ds_config.json"
_CHECKS = "shown watch diff fix-only add-ignore"


class CheckOptions(OptionRecord):
    """What ``check`` does instead, and its training runs."""

    show_files: bool = option(
        "instead", "list the files that would be checked, and what each is and why", False, not_with="watch"
    )
    show_launches: bool = option(
        "instead",
        "list the commands that start training in scripts, Makefiles, Dockerfiles, workflows, notebooks and "
        "Python, and what is understood of each",
        False, not_with="watch",
    )  # fmt: skip
    show_settings: bool = option(
        "instead", "print the settings, releases and rules that apply to each PATH, and where each comes from", False,
        not_with="watch",
    )  # fmt: skip
    watch: bool = option("watch", "check again when a file changes, until Ctrl-C", False, flags=("-w", "--watch"))
    smoke: bool = option(
        "smoke", "train with each config, on CPU ranks of this machine and on its GPUs, if it has any", False,
        not_with=_CHECKS,
    )  # fmt: skip
    smoke_launches: bool = option(
        "smoke",
        "run a few steps of each launch that --show-launches lists, as ds-lint smoke does: this runs your scripts",
        False, not_with=f"{_CHECKS} job",
    )  # fmt: skip
    smoke_ranks: int | None = option("smoke", "number of CPU ranks (default: 2)", metavar="N", not_with="job")
    smoke_device: str | None = option(
        "smoke", "train only on CPU ranks, or only on GPUs (default: auto)", choices=("auto", "cpu", "cuda")
    )
    smoke_launch: str | None = option(
        "smoke",
        'start the ranks with a launcher: "torchrun --nproc-per-node 4", "deepspeed --num_gpus 2", "accelerate '
        'launch --use_deepspeed --num_processes 2", "srun -N 2 --ntasks-per-node 8"',
        metavar="COMMAND", not_with="job",
    )  # fmt: skip
    smoke_sbatch: str | None = option(
        "smoke",
        "do not train, but write the script of a Slurm job that trains on --nodes with --world-size GPUs in all",
        metavar="FILE", not_with="shown watch fix-only add-ignore",
    )  # fmt: skip
    smoke_folder: str | None = option(
        "smoke", "directory for the runs, which ranks on all nodes can access (default: a temporary one)", metavar="DIR"
    )
    smoke_timeout: int | None = option("smoke", "seconds for each part of a run (default: 120)", metavar="S")
    smoke_build_ops: bool = option(
        "smoke", "compile DeepSpeed's ops, which takes minutes, instead of computing the same with torch", False
    )
    smoke_lora: bool = option(
        "smoke", "freeze the model and train LoRA adapters on its linear layers; needs peft", False
    )
    smoke_keep: str | None = option("smoke", "keep checkpoints and logs of the runs in DIR", metavar="DIR")
    # Rank 0 of `python -m ds_lint.smoke.worker` is this command with that option.
    smoke_join: bool = option("smoke", "", False, is_hidden=True)


class ScriptOptions(OptionRecord):
    """How ``smoke`` runs the user's own script."""

    steps: int = option("run", "optimizer steps up to the checkpoint (default: 3)", 3, metavar="N")
    resume: bool = option("run", "do not start the command again to resume", True, flags=("--no-resume",))
    config: str | None = option(
        "run", "the DeepSpeed config of the script (default: the one that the command names)", metavar="FILE"
    )
    cpu: bool = option(
        "run", "train on CPU ranks, with stand-ins for what needs a GPU (default on a machine without GPUs)", False
    )
    shrink: bool = option("run", "make models small where the script makes them, so that no weights are needed", False)
    timeout: int = option("run", "seconds for each start (default: 1800)", 1800, metavar="S")
    profile: bool = option("run", "profile a step, and report the share of communication in its time", False)
    folder: str | None = option(
        "run", "directory for the run (default: a temporary one; the current one if the command uses several nodes)",
        metavar="DIR",
    )  # fmt: skip
    nodes: int | None = option(
        "run",
        "number of nodes on each of which you start ds-lint (default: as torchrun and accelerate launch say)",
        metavar="N",
    )
    node_timeout: int = option("run", "seconds for all nodes to start (default: 300)", 300, metavar="S")
    keep: str | None = option("run", "keep checkpoints and outputs of the run in DIR", metavar="DIR")


class UpgradeOptions(OptionRecord):
    """The releases that an upgrade leaves and comes to."""

    deepspeed_from: str | None = option("ends", "the old release of DeepSpeed", metavar="V", flags=("--from",))
    deepspeed_to: str | None = option("ends", "the new one (default: the newest known)", metavar="V", flags=("--to",))
    transformers_from: str | None = option("ends", "the old release of transformers", metavar="V")
    transformers_to: str | None = option("ends", "the new one (default: the newest known)", metavar="V")
    accelerate_from: str | None = option("ends", "the old release of accelerate", metavar="V")
    accelerate_to: str | None = option("ends", "the new one (default: the newest known)", metavar="V")


class TextOrJson(OptionRecord):
    """The formats of a command that does not report findings."""

    output_format: str = option("format", "(default: text)", "text", choices=("text", "json"))


class EffectiveOptions(OptionRecord):
    """What ``effective`` prints."""

    path: str = argument(
        "file, or - for standard input; of several configs in a file, the one at a line, as train.py:12",
        metavar="PATH",
    )  # fmt: skip
    against: str | None = option("printed", "print only the values that differ from this file", metavar="OTHER")
    all: bool = option("printed", "include the defaults of sections that the config does not have", False)


class MemoryOptions(OptionRecord):
    """What ``memory`` shows beside the figures: every stage and offload, and a drawing in a file."""

    path: str | None = argument(
        "config, or - for standard input, or file that launches training; of several configs or launches in a "
        "file, the one at a line, as run.sh:12; without it, all stages are compared",
        metavar="CONFIG|LAUNCH",
    )  # fmt: skip
    sweep: bool = option(
        "shown",
        "also print what each stage of ZeRO takes, without and with offload and activation checkpointing",
        False,
    )
    largest: bool = option(
        "shown", "also print the largest micro batch, sequence length and model that fit on the GPU", False
    )
    build_model: bool = option(
        "shown",
        "build a model whose shapes are not known with the installed transformers, on torch's meta device in a process "
        "of its own; nothing is downloaded, and no code of the model runs",
        False,
    )
    plot: str | None = option(
        "shown",
        "draw each phase by kind against the memory that there is, with --sweep every stage; FILE ends with .html, "
        ".svg or .png (which needs matplotlib), or is - for text on standard output",
        metavar="FILE",
    )


class DoctorOptions(OptionRecord):
    """What ``doctor`` reads."""

    logs: list[str] = argument(
        "log, or - for standard input; several are those of one run, as one for each rank. Configs, scripts and "
        "folders are the project that was run",
        metavar="LOG|CONFIG|PROJECT",
    )  # fmt: skip
    watch: bool = option(
        "followed", "follow a growing log, and stop with exit status 1 when the run goes wrong", False,
        flags=("-w", "--watch"),
    )  # fmt: skip
    stalled: int = option(
        "followed", "with --watch: seconds without a new line that count as stalled (default: 1800)", 1800,
        metavar="SECONDS",
    )  # fmt: skip


class BugReportOptions(OptionRecord):
    """What ``bug-report`` describes, and where it writes it; None is standard output."""

    described: list[str] = argument(
        "log of the run, config, script or folder of the project (default: the current directory)",
        metavar="LOG|CONFIG|PROJECT",
    )  # fmt: skip
    output_file: str | None = option(
        "written_to", "write the report to FILE instead of standard output", metavar="FILE", flags=OUTPUT_FILE
    )
    output_format: str = option("written_to", "(default: markdown)", "markdown", choices=("markdown", "json"))
    smoke: bool = option(
        "trained", "also train a few steps with each config, as ds-lint check --smoke does, and add the verdict", False
    )


class ConvertOptions(OptionRecord):
    """What to convert to, and where to write it; None is standard output, and the newest version of FSDP."""

    path: str = argument(
        "DeepSpeed config or Accelerate YAML, or - for standard input; of several configs in a file, the one at a "
        "line, as train.py:12, in a notebook at a cell and line, as train.ipynb:3:1",
        metavar="PATH",
    )  # fmt: skip
    to: str = option("conversion", "what to convert to", choices=("fsdp", "deepspeed"), is_required=True)
    fsdp_version: int | None = option(
        "conversion", "version of FSDP (default: 2, or 1 before accelerate 1.6.0)", choices=(1, 2)
    )
    output_file: str | None = option(
        "conversion", "write it to FILE instead of standard output", metavar="FILE", flags=OUTPUT_FILE
    )
    force: bool = option("conversion", "overwrite an existing FILE", False)
    smoke: bool = option(
        "conversion", "train for a few steps with the original and with what corresponds to it, and compare them", False
    )
    smoke_ranks: int | None = option("conversion", "number of CPU ranks with --smoke (default: 2)", metavar="N")


class InitOptions(OptionRecord):
    """What ``init`` writes, and where."""

    stack: Stack = option("purpose", "what loads the config (default: trainer)", "trainer", choices=STACKS)
    stage: int | None = option(
        "purpose",
        "what ZeRO shards: 0 nothing, 1 optimizer states, 2 also gradients, 3 also parameters (default: 2)",
        choices=STAGES,
    )
    offload: str | None = option(
        "purpose", "offload the optimizer, and at stage 3 the parameters, to CPU memory or NVMe (default: none)",
        choices=OFFLOADS,
    )  # fmt: skip
    precision: str | None = option(
        "purpose", "precision of the training (default: that of the model, else bf16)", choices=PRECISIONS
    )
    nvme_path: str | None = option("written", f"directory for --offload nvme (default: {NVME_PATH})", metavar="DIR")
    output_file: str = option(
        "written", f"file to write, or - for standard output (default: {DEFAULT_OUTPUT})", DEFAULT_OUTPUT,
        metavar="FILE", flags=OUTPUT_FILE,
    )  # fmt: skip
    force: bool = option("written", "overwrite existing files", False)
    fit: bool = option(
        "fit",
        "write the fastest config that fits; needs --model or --parameters, --gpu or --gpu-memory, and --world-size",
        False,
    )
    sources: Sources = Sources()  # of the facts with which it has to fit


class ExplainOptions(OptionRecord):
    """What ``explain`` explains, and in which language."""

    subject: str | None = argument(
        "a rule, an advisory, a key, or a text of a log", metavar="CODE|NAME|ID|KEY.PATH|TEXT"
    )
    all: bool = option("page", "explain all rules", False)
    lang: str | None = option(
        "page",
        f"print the page of a rule in {' or '.join(one.english_name for one in LANGUAGES.values())}, if it is "
        "translated",
        choices=LANGUAGES,
    )


class AdvisoriesOptions(OptionRecord):
    """What ``advisories`` lists, and in which form."""

    named: list[str] = argument("ids of advisories, or files and directories with configs", metavar="ID|PATH")
    output_format: str = option(
        "listed", "text for people, json for programs, or the OSV format (default: text)", "text",
        choices=("text", "json", "osv"),
    )  # fmt: skip


class CheckpointOptions(OptionRecord):
    """The folder that is read, and what it has to fit."""

    path: str = argument("folder that was saved, or the one with the checkpoints of a run", metavar="DIR")
    config: str | None = option(
        "resumed", "the DeepSpeed config of the run that resumes, to compare with the one that saved", metavar="FILE"
    )
    torch_version: str | None = option("resumed", "the release of torch with which the run resumes", metavar="V")
    output_format: str = option("format", "(default: text)", "text", choices=("text", "json"))


class SchemaOptions(OptionRecord):
    """Which JSON Schema is printed."""

    deepspeed_version: str | None = option(
        "schema", "a release, or a line such as 0.16 (default: the newest known)", metavar="V"
    )
    output_file: str | None = option(
        "schema", "write it to FILE instead of standard output", metavar="FILE", flags=OUTPUT_FILE
    )


class LspOptions(OptionRecord):
    """Options that editors add."""

    stdio: bool = option("stdio", "accepted because some editors add it; has no effect", False)


class CompletionOptions(OptionRecord):
    """For which shell."""

    shell: str = argument("the shell", choices=SHELLS)
