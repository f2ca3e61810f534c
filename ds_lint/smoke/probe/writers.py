"""Writers in C++ and Rust, which open files that no audit hook of Python sees."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from ds_lint.smoke.journal import hook
from ds_lint.smoke.probe import imports
from ds_lint.smoke.probe.leading import Leading
from ds_lint.smoke.wrapping import around

if TYPE_CHECKING:
    from types import ModuleType

    from ds_lint.smoke.probe.plan import Plan


def install(plan: Plan) -> None:
    """Tell the journal of each file before it is written."""
    leading = Leading(plan)
    imports.after("torch.serialization", _torch)
    for name in ("safetensors.torch", "safetensors.numpy"):
        imports.after(name, functools.partial(_safetensors, leading))
    imports.after("tokenizers", _tokenizers)
    imports.after("pyarrow", _arrow)
    imports.after("pyarrow.parquet.core", _parquet)


def _torch(module: ModuleType) -> None:
    """``torch.save`` with a path, whatever calls it."""

    @around(module._open_zipfile_writer_file, "__init__")  # noqa: SLF001 - the one that opens the file
    def watched(begin: Any, writer: Any, name: Any) -> None:
        hook.about_to_write(name)
        begin(writer, name)


def _safetensors(leading: Leading, module: ModuleType) -> None:
    """``save_file``, and thereby the user's own file stays if there is one."""

    @around(module, "serialize_file")
    def watched(write: Any, tensors: Any, filename: Any, *args: Any, **kwargs: Any) -> Any:
        path = leading.for_saving(filename)
        hook.about_to_write(path)
        return write(tensors, path, *args, **kwargs)


def _tokenizers(module: ModuleType) -> None:
    """``Tokenizer.save``, in Rust, also that of a fast tokenizer of transformers."""

    @around(module.Tokenizer, "save")
    def watched(save: Any, tokenizer: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
        hook.about_to_write(path)
        return save(tokenizer, path, *args, **kwargs)


def _arrow(module: ModuleType) -> None:
    """Files that pyarrow opens in C++, as pandas does for Parquet and Feather."""

    class OSFile(module.OSFile):  # type: ignore[misc,name-defined,unused-ignore]
        def __new__(cls, path: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
            if mode not in ("r", "rb"):
                hook.about_to_write(path)
            return super().__new__(cls, path, mode, *args, **kwargs)

    module.OSFile = OSFile  # type: ignore[attr-defined]


def _parquet(module: ModuleType) -> None:
    @around(module.ParquetWriter, "__init__")
    def watched(begin: Any, writer: Any, where: Any, *args: Any, **kwargs: Any) -> None:
        if isinstance(where, str):
            hook.about_to_write(where)
        begin(writer, where, *args, **kwargs)
