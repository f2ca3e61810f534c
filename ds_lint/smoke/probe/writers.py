"""Writers in C++ and Rust, which open files that no audit hook of Python sees."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any

from ds_lint.smoke.journal import hook
from ds_lint.smoke.probe import imports
from ds_lint.smoke.probe.leading import Leading

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from ds_lint.smoke.probe.plan import Plan


def install(plan: Plan) -> None:
    """Tell the journal of each file before it is written."""
    leading = Leading(plan)
    imports.after("torch.serialization", _torch)
    for name in ("safetensors.torch", "safetensors.numpy"):
        imports.after(name, functools.partial(_safetensors, leading))
    imports.after("transformers.tokenization_utils_tokenizers", _tokenizers)
    imports.after("transformers.tokenization_utils_fast", _tokenizers)  # before transformers 5
    imports.after("pyarrow.parquet.core", _parquet)


def _torch(module: ModuleType) -> None:
    """``torch.save`` with a path, whatever calls it."""
    writer = module._open_zipfile_writer_file  # noqa: SLF001 - the one that opens the file
    begin = writer.__init__

    @functools.wraps(begin)
    def watched(self: Any, name: Any) -> None:
        hook.about_to_write(name)
        begin(self, name)

    writer.__init__ = watched


def _safetensors(leading: Leading, module: ModuleType) -> None:
    """``save_file``, and thereby the user's own file stays if there is one."""
    write = module.serialize_file

    @functools.wraps(write)
    def watched(tensors: Any, filename: Any, *args: Any, **kwargs: Any) -> Any:
        path = leading.for_saving(filename)
        hook.about_to_write(path)
        return write(tensors, path, *args, **kwargs)

    module.serialize_file = watched  # type: ignore[attr-defined]


def _tokenizers(module: ModuleType) -> None:
    """The files of a fast tokenizer: ``Tokenizer.save`` is in Rust and cannot be replaced."""
    for owner in vars(module).values():
        save = vars(owner).get("_save_pretrained") if isinstance(owner, type) else None
        if save is not None:
            owner._save_pretrained = _with_files_of_tokenizer(save)  # noqa: SLF001 # type: ignore[attr-defined]


def _with_files_of_tokenizer(save: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(save)
    def watched(tokenizer: Any, save_directory: Any, *args: Any, **kwargs: Any) -> Any:
        prefix = kwargs.get("filename_prefix") or (args[2] if len(args) > 2 else None)
        hook.about_to_write(os.path.join(save_directory, f"{f'{prefix}-' if prefix else ''}tokenizer.json"))
        return save(tokenizer, save_directory, *args, **kwargs)

    return watched


def _parquet(module: ModuleType) -> None:
    begin = module.ParquetWriter.__init__

    @functools.wraps(begin)
    def watched(self: Any, where: Any, *args: Any, **kwargs: Any) -> None:
        if isinstance(where, str):
            hook.about_to_write(where)
        begin(self, where, *args, **kwargs)

    module.ParquetWriter.__init__ = watched
