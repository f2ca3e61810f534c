"""``ds-lint init``: write a config to start from, and for Accelerate the file that launches it."""

from __future__ import annotations

import os
import sys
from json import dumps
from shlex import quote
from typing import NamedTuple

from ds_lint.commands.failures import complain
from ds_lint.commands.report import print_text
from ds_lint.diagnostics.finding import LOADERS
from ds_lint.facts.readers import gather
from ds_lint.facts.unreadable import UnreadableFact
from ds_lint.knowledge import keys
from ds_lint.linter.choice import choose
from ds_lint.output.harmless import complaint as line
from ds_lint.scaffold import composition, model_needs
from ds_lint.scaffold.composition import NVME_PATH, Purpose
from ds_lint.source import replacement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.commands.options import InitOptions
    from ds_lint.facts import Facts
    from ds_lint.facts.model import Model
    from ds_lint.knowledge.keys import Knowledge
    from ds_lint.scaffold.fitting import Fitting

STANDARD_OUTPUT = "-"
LAUNCH_FILE = "accelerate_config.yaml"


class File(NamedTuple):
    """A file to write."""

    path: str
    text: str


def init(options: InitOptions) -> int:
    """Write the files, print what was written and what to run next, and return the exit status."""
    try:
        facts = gather(options.sources)
    except UnreadableFact as error:
        return complain(str(error))
    model = facts.model if facts.model is not None and not facts.model.is_stand_in else None
    fitting = None
    purpose = _purpose(options, model)
    complaint = composition.refusal(purpose) or _misplaced(options)
    if options.fit and not complaint:
        complaint = _unfit(options, facts)
        fitting = _fastest(options, purpose, facts) if not complaint else None
        if fitting is None and not complaint:
            return _tell_that_nothing_fits()
    if complaint:
        return complain(complaint)
    if fitting is not None:
        purpose = fitting.purpose
    files = list(_files(options, purpose))
    estimated = _notes_on_memory(fitting, facts) if fitting is not None else ()
    notes = [f"note: {note}\n" for note in (*estimated, *_notes(options, purpose, model))]
    if options.output_file == STANDARD_OUTPUT:
        sys.stdout.write(files[0].text)
        sys.stderr.writelines(notes)
        return 0
    existing = [file.path for file in files if os.path.lexists(file.path)]
    if existing and not options.force:
        return complain(f"{existing[0]} already exists; use --force to overwrite it, or --output-file FILE")
    for file in files:
        (replacement.write if options.force else replacement.create)(file.path, file.text.encode())
    following = f"Next:\n  {_check(options)}\n  {_launch(options, purpose)}{_flags(fitting)}\n"
    print_text("".join((_written(purpose, files), *notes, following)), sys.stdout)
    return 0


def _unfit(options: InitOptions, facts: Facts) -> str | None:
    """What --fit lacks, or what it decides itself; None if nothing is wrong."""
    if options.stage is not None or options.offload is not None:
        return "--fit chooses the stage and the offload; leave out --stage and --offload"
    lacks = [
        option
        for option, known in (
            ("--model or --parameters", facts.model),
            ("--gpu or --gpu-memory", facts.gpu),
            ("--world-size", facts.world_size),
        )
        if known is None
    ]
    if lacks:
        return f"--fit needs {', '.join(lacks)}"
    if facts.model is not None and facts.model.parameter_count is None:
        return f"--fit: the number of parameters of {facts.model.path} is not known"
    return None


def _fastest(options: InitOptions, purpose: Purpose, facts: Facts) -> Fitting | None:
    from ds_lint.scaffold.fitting import fastest

    return fastest(purpose, facts, _knowledge(options))


def _tell_that_nothing_fits() -> int:
    sys.stderr.write(line("no config fits, not even ZeRO stage 3 with everything offloaded to NVMe; use more ranks"))
    return 1


def _notes_on_memory(fitting: Fitting, facts: Facts) -> Iterator[str]:
    """What the run takes, and what that does not include."""
    from ds_lint.output.memory_table import in_units, shown
    from ds_lint.scaffold.fitting import counts_activations

    assert facts.gpu is not None  # noqa: S101 - what has to fit needs one
    counted = counts_activations(fitting)
    checkpointing = " and activation checkpointing" if fitting.is_checkpointed else ""
    samples = f" with micro batch {fitting.micro_batch}{checkpointing}" if counted else ""
    surely = "" if fitting.is_sure else "likely "
    yield (
        f"this is the fastest config that {surely}fits: a GPU takes {shown(fitting.estimate.gpu_bytes)} of its "
        f"{in_units(facts.gpu.memory)}{samples}"
    )
    if not counted:
        why = "set --sequence-length" if facts.sequence_length is None else "they are not known for this model"
        yield f"activations are not included ({why})"
    if fitting.estimate.host_bytes.most:
        takes = f"each host takes {shown(fitting.estimate.host_bytes)}"
        if facts.host_memory is not None:
            yield f"{takes} of its {in_units(facts.host_memory)}"
        else:
            yield f"{takes}; set --host-memory if it may not have that"


def _flags(fitting: Fitting | None) -> str:
    """The training arguments with which the run takes what is estimated."""
    from ds_lint.scaffold.fitting import counts_activations

    if fitting is None or fitting.purpose.stack != "trainer" or not counts_activations(fitting):
        return ""
    return f" --per_device_train_batch_size {fitting.micro_batch} --gradient_checkpointing {fitting.is_checkpointed}"


def _knowledge(options: InitOptions) -> Knowledge:
    """What the releases of the libraries read that the folder of the config is for."""
    return keys.knowledge(choose(os.path.dirname(options.output_file), {}).newest)


def _purpose(options: InitOptions, model: Model | None) -> Purpose:
    """The purpose of the config from the options, and from the model."""
    purpose = Purpose(
        options.stack,
        options.stage if options.stage is not None else Purpose().stage,
        options.offload or Purpose().offload,
        options.precision or Purpose().precision,
        options.nvme_path or NVME_PATH,
    )
    if model is None:
        return purpose
    used = _knowledge(options)
    return purpose._replace(
        precision=options.precision or model_needs.trained_in(model) or purpose.precision,
        hidden_size=model_needs.size_to_write(model, options.stack, used),
        leaf_modules=model_needs.leaf_modules(model, used),
    )


def _misplaced(options: InitOptions) -> str | None:
    """What is wrong with options that cannot be combined; None if nothing is."""
    if options.nvme_path is not None and options.offload != "nvme" and not options.fit:
        return "--nvme-path needs --offload nvme"
    if options.stack == "accelerate" and options.output_file == STANDARD_OUTPUT:
        return "--stack accelerate writes two files and cannot write to standard output; use --output-file FILE"
    if options.stack == "accelerate" and os.path.basename(options.output_file) == LAUNCH_FILE:
        return f"{LAUNCH_FILE} is the file for `accelerate launch`; use another --output-file for the config"
    return None


def _files(options: InitOptions, purpose: Purpose) -> Iterator[File]:
    yield File(options.output_file, dumps(composition.config(purpose), indent=2) + "\n")
    if options.stack == "accelerate":
        from yaml import safe_dump

        launch = composition.launch_file(options.output_file, purpose, options.sources.world_size)
        text = safe_dump(launch, sort_keys=False, allow_unicode=True, width=float("inf"))
        yield File(_launch_path(options), text)


def _launch_path(options: InitOptions) -> str:
    return os.path.join(os.path.dirname(options.output_file), LAUNCH_FILE)


def _written(purpose: Purpose, files: list[File]) -> str:
    paths = " and ".join(file.path for file in files)
    what = "offload of the optimizer" if purpose.stage == 3 and purpose.keeps_parameters else "offload"
    offload = f", {what} to {purpose.offload}" if purpose.offload != "none" else ""
    return f"Wrote {paths}: ZeRO stage {purpose.stage}{offload}, {purpose.precision}, for {LOADERS[purpose.stack]}.\n"


def _notes(options: InitOptions, purpose: Purpose, model: Model | None) -> Iterator[str]:
    """Notes on what people have to know or do."""
    if options.sources.world_size == 1 and purpose.stage > 0 and purpose.offload == "none":
        yield (
            f"with 1 rank, stage {purpose.stage} has nothing to shard: it costs time and saves no memory; "
            "--offload cpu saves memory, --stage 0 saves time"
        )
    if purpose.offload == "nvme":
        yield (
            f"{purpose.nvme_path} must be a writable directory on an NVMe drive of each machine (--nvme-path sets "
            "another), and DeepSpeed needs libaio; `ds_nvme_tune` measures the best values for `aio`"
        )
        yield "a checkpoint lacks some of what is on NVMe, so a resumed run gives different results (DS702)"
    if model is not None:
        yield from _notes_on_precision(options, purpose, model)
    if purpose.stack == "deepspeed":
        yield "the batch size of 1 and the learning rate are starting points; the script must create a schedule"
    if purpose.stack == "accelerate" and purpose.stage == 3 and model is None:
        yield 'with a model without `config.hidden_size`, the run fails: delete the three sizes that are "auto"'


def _notes_on_precision(options: InitOptions, purpose: Purpose, model: Model) -> Iterator[str]:
    if purpose.precision == "fp16" and model_needs.trained_in(model) == "bf16":
        yield (
            "the model was trained or saved in bf16: its values may be too large for fp16, and then the loss becomes "
            "NaN; use --precision bf16, which needs an Ampere GPU or newer"
        )
    if options.precision is None and model.dtype == "float32":
        yield "the model was saved in fp32; bf16 has the same range but fewer digits; --precision fp32 keeps them"


def _check(options: InitOptions) -> str:
    ranks = f" --world-size {options.sources.world_size}" if options.sources.world_size else ""
    model = f" --model {quote(options.sources.model)}" if options.sources.model else ""
    return f"ds-lint check {quote(options.output_file)} --stack {options.stack}{ranks}{model}"


def _launch(options: InitOptions, purpose: Purpose) -> str:
    """The command that starts a run; the Trainer has its own switch for the precision."""
    if purpose.stack == "accelerate":
        ranks = "" if options.sources.world_size else " --num_processes N"
        return f"accelerate launch --config_file {quote(_launch_path(options))}{ranks} train.py"
    if purpose.stack == "trainer":
        switch = f" --{purpose.precision}" if purpose.precision != "fp32" else ""
        return f"deepspeed train.py --deepspeed {quote(options.output_file)}{switch}"
    return f"deepspeed train.py --deepspeed --deepspeed_config {quote(options.output_file)}"
