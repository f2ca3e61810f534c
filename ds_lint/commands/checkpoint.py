"""``ds-lint checkpoint``: what a saved folder holds, which of its files are broken, and whether it resumes."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from ds_lint.checkpoints.kinds import saved_folder
from ds_lint.checkpoints.resumed_config import differences
from ds_lint.checkpoints.resumption import answer
from ds_lint.commands.failures import WRONG_USAGE, complain
from ds_lint.commands.one_config import UnreadableConfigError, config_of_launch, one_config
from ds_lint.commands.report import print_text, write_notes
from ds_lint.output import checkpoint_json, checkpoint_text
from ds_lint.output.harmless import JSON, harmless
from ds_lint.output.terminal import terminal_of
from ds_lint.semantics.resumed_settings import resumed_config
from ds_lint.session.session import Session
from ds_lint.targets.releases import numbers_of

if TYPE_CHECKING:
    from ds_lint.commands.options import CheckpointOptions
    from ds_lint.semantics.config import Config
    from ds_lint.session.options import Options


def checkpoint(options: Options, own: CheckpointOptions) -> int:
    """Print what a folder holds; the exit status is 1 if it does not resume as it is, or is broken."""
    if (why := _refusal(own)) is not None:
        return complain(why)
    documents = []
    notes: list[str] = []
    config = None
    if own.config is not None:
        try:
            session = Session(options)
            config = _config(own.config, session)
        except (*WRONG_USAGE, UnreadableConfigError, OSError) as error:
            return complain(error)
        documents, notes = [config.document], session.notes
    resumed = None if config is None else resumed_config(config)
    saved = saved_folder(own.path, is_universal=resumed is not None and resumed.loads_universal)
    found = [] if resumed is None else differences(saved, resumed)
    given = answer(saved, own.path, options.sources.world_size, own.torch_version, found)
    texts = [f"{one.key}: {one.text}" for one in found]
    if own.output_format == "json":
        sys.stdout.write(harmless(checkpoint_json.text(own.path, saved, given, texts), JSON, documents))
    else:
        lines = checkpoint_text.lines(own.path, saved, given, texts, terminal_of(sys.stdout))
        print_text(harmless("".join(f"{line}\n" for line in lines), documents=documents), sys.stdout)
    write_notes(notes, documents)
    resumes = given is None or given.status == "yes"
    return 0 if resumes and saved.is_whole and not saved.mistakes and saved.kind != "unknown" else 1


def _config(path: str, session: Session) -> Config:
    config = one_config(path, session)
    return config if config.accelerate is None else config_of_launch(config, config.accelerate, session)


def _refusal(own: CheckpointOptions) -> str | None:
    """What is wrong with the command line; None if nothing is."""
    if not os.path.exists(own.path):
        return f"{own.path} does not exist"
    if not os.path.isdir(own.path):
        return f"{own.path} is not a folder; checkpoint takes the folder that was saved"
    if not os.access(own.path, os.R_OK | os.X_OK):
        return f"{own.path} cannot be read"
    if own.torch_version is not None and numbers_of(own.torch_version.partition("+")[0]) is None:
        return f"--torch-version {own.torch_version} is not a release, such as 2.6.0"
    return None
