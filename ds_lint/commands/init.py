"""``ds-lint init``: write a config to start from, and for Accelerate the file that launches it."""

from __future__ import annotations

import os
import sys
from json import dumps
from shlex import quote
from typing import NamedTuple

from ds_lint import composing
from ds_lint.composing import NVME_PATH, Wish

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

DEFAULT_OUTPUT = "ds_config.json"
STANDARD_OUTPUT = "-"
LAUNCH_FILE = "accelerate_config.yaml"

_LOADERS = {"trainer": "the Trainer", "accelerate": "Accelerate", "deepspeed": "plain DeepSpeed"}


class Options(NamedTuple):
    """What the command line of ``init`` asks for."""

    stack: str
    stage: int
    offload: str
    precision: str | None
    gpus: int | None
    nvme_path: str | None
    output: str
    force: bool


class File(NamedTuple):
    """A file to write."""

    path: str
    text: str


def init(options: Options) -> int:
    """Write, say what was written and what to run next, and return the exit status."""
    wish = _wish(options)
    complaint = composing.refusal(wish) or _misplaced(options)
    if complaint:
        sys.stderr.write(f"ds-lint: {complaint}\n")
        return 2
    files = list(_files(options, wish))
    if options.output == STANDARD_OUTPUT:
        sys.stdout.write(files[0].text)
        sys.stderr.writelines(f"note: {note}\n" for note in _notes(options, wish))
        return 0
    if not options.force and (existing := [file.path for file in files if os.path.lexists(file.path)]):
        sys.stderr.write(f"ds-lint: {existing[0]} exists; --force replaces it, --output FILE writes another\n")
        return 2
    for file in files:
        with open(file.path, "w" if options.force else "x", encoding="utf-8", newline="\n") as stream:
            stream.write(file.text)
    sys.stdout.writelines(f"{line}\n" for line in _report(options, wish, files))
    return 0


def _wish(options: Options) -> Wish:
    return Wish(
        options.stack,
        options.stage,
        options.offload,
        options.precision or "bf16",
        options.nvme_path or NVME_PATH,
    )


def _misplaced(options: Options) -> str | None:
    """What is wrong with options that do not go together; None if they do."""
    if options.nvme_path is not None and options.offload != "nvme":
        return "--nvme-path is for --offload nvme"
    if options.stack == "accelerate" and options.output == STANDARD_OUTPUT:
        return "--stack accelerate writes two files, which do not fit on standard output; choose --output FILE"
    if options.stack == "accelerate" and os.path.basename(options.output) == LAUNCH_FILE:
        return f"{LAUNCH_FILE} is the name of the file for `accelerate launch`; choose another --output for the config"
    return None


def _files(options: Options, wish: Wish) -> Iterator[File]:
    yield File(options.output, dumps(composing.config(wish), indent=2) + "\n")
    if options.stack == "accelerate":
        from yaml import safe_dump

        launch = composing.launch_file(options.output, wish, options.gpus)
        text = safe_dump(launch, sort_keys=False, allow_unicode=True, width=float("inf"))
        yield File(_launch_path(options), text)


def _launch_path(options: Options) -> str:
    return os.path.join(os.path.dirname(options.output), LAUNCH_FILE)


def _report(options: Options, wish: Wish, files: list[File]) -> Iterator[str]:
    paths = " and ".join(file.path for file in files)
    offload = f", offload to {wish.offload}" if wish.offload != "none" else ""
    yield f"Wrote {paths}: ZeRO stage {wish.stage}{offload}, {wish.precision}, for {_LOADERS[wish.stack]}."
    yield from (f"note: {note}" for note in _notes(options, wish))
    yield "Next:"
    yield f"  {_check(options)}"
    yield f"  {_launch(options, wish)}"


def _notes(options: Options, wish: Wish) -> Iterator[str]:
    """What a person has to know or do that no file can say."""
    if options.gpus == 1 and wish.stage > 0 and wish.offload == "none":
        yield (
            f"on 1 GPU stage {wish.stage} has nothing to shard, so it costs time and saves no memory; "
            "--offload cpu saves memory, --stage 0 saves time"
        )
    if wish.offload == "nvme":
        yield (
            f"{wish.nvme_path} has to be a directory on an NVMe drive of each machine, which the run may write to "
            "(--nvme-path names another), and DeepSpeed needs libaio; `ds_nvme_tune` measures what `aio` should say"
        )
    if wish.stack == "deepspeed":
        yield "the batch size of 1 and the learning rate are where to start; a schedule is the script's to make"
    if wish.stack == "accelerate" and wish.stage == 3 and wish.hidden_size is None:
        yield 'a model without `config.hidden_size` stops the run: delete the three sizes that are "auto" for it'


def _check(options: Options) -> str:
    ranks = f" --world-size {options.gpus}" if options.gpus else ""
    return f"ds-lint check {quote(options.output)} --stack {options.stack}{ranks}"


def _launch(options: Options, wish: Wish) -> str:
    """The command that starts a run; the precision of the Trainer is its own to switch on."""
    if wish.stack == "accelerate":
        ranks = "" if options.gpus else " --num_processes N"
        return f"accelerate launch --config_file {quote(_launch_path(options))}{ranks} train.py"
    if wish.stack == "trainer":
        switch = f" --{wish.precision}" if wish.precision != "fp32" else ""
        return f"deepspeed train.py --deepspeed {quote(options.output)}{switch}"
    return f"deepspeed train.py --deepspeed --deepspeed_config {quote(options.output)}"
