"""What a script ended for: a file of a hub that is not on this machine, or a library that needs a GPU.

The traceback of the exception that ends the script tells: the outermost call of a loader in it has the name that the
script gives. A script that catches the exception and goes on is not affected.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

# Exceptions of a file that is not there, while nothing is asked of a hub; transformers and datasets raise them as
# OSError, ValueError and ConnectionError.
_HUB = frozenset({
    "LocalEntryNotFoundError", "OfflineModeIsEnabled", "EntryNotFoundError", "RepositoryNotFoundError",
    "HFValidationError", "DatasetNotFoundError", "DataFilesNotFoundError", "EmptyDatasetError",
})  # fmt: skip
_ALSO = (OSError, ValueError)
# Libraries whose kernels no CPU has.
_FOR_GPUS = frozenset({
    "apex", "bitsandbytes", "causal_conv1d", "cupy", "flash_attn", "mamba_ssm", "pynvml", "transformer_engine",
    "triton", "unsloth", "vllm", "xformers",
})  # fmt: skip


class _LoadingCall(NamedTuple):
    """A function that loads something by a name that the script gives."""

    library: str
    function: str
    argument: str  # that has the name


_LOADING_CALLS = (
    _LoadingCall("transformers", "from_pretrained", "pretrained_model_name_or_path"),
    _LoadingCall("transformers", "from_pretrained", "pretrained_model_name"),  # of a GenerationConfig
    _LoadingCall("transformers", "pipeline", "model"),
    _LoadingCall("peft", "from_pretrained", "pretrained_model_name_or_path"),
    _LoadingCall("peft", "from_pretrained", "model_id"),
    _LoadingCall("datasets", "load_dataset", "path"),
    _LoadingCall("datasets", "load_from_disk", "dataset_path"),
    _LoadingCall("evaluate", "load", "path"),
    _LoadingCall("huggingface_hub", "hf_hub_download", "repo_id"),
    _LoadingCall("huggingface_hub", "snapshot_download", "repo_id"),
)

_KINDS = {  # by what the names of their classes have
    "Tokenizer": "tokenizer", "ImageProcessor": "image processor", "Processor": "processor",
    "FeatureExtractor": "feature extractor", "GenerationConfig": "generation config",
}  # fmt: skip


def from_this_machine(error: BaseException, *, uses_cpu: bool) -> str | None:
    """What is missing, in one sentence; None if the exception has another cause."""
    if uses_cpu and (library := _library_for_gpus(error)) is not None:
        return f"`{library}` computes on GPUs only, and this machine trains on CPUs: leave it out of this run"
    one: BaseException | None = error
    while one is not None:
        if (found := _file(one)) is not None:
            return found
        one = one.__cause__  # of ``raise ... from error``; what a script catches and leaves behind is not its end
    return None


def _file(error: BaseException) -> str | None:
    """The file that a loader does not find."""
    if not isinstance(error, _ALSO) and type(error).__name__ not in _HUB:
        return None
    return next((found for frame in _frames(error) if (found := _requested_by(frame, error)) is not None), None)


def _library_for_gpus(error: BaseException) -> str | None:
    """The library that cannot be imported, or in which an exception is raised."""
    for one in _chain(error):
        if isinstance(one, ImportError):
            named = (one.name or "").partition(".")[0]
            words = str(one).replace("-", "_").replace("`", " ").replace("'", " ").split()
            found = named if named in _FOR_GPUS else next((word for word in words if word in _FOR_GPUS), None)
            if found is not None:
                return found
    frames = list(_frames(error))
    last = _library_of(frames[-1]) if frames else ""
    return last if last in _FOR_GPUS else None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An exception, and those that it comes from."""
    seen: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and one not in seen:
        yield one
        seen.append(one)
        one = one.__cause__ or one.__context__


def _frames(error: BaseException) -> Iterator[FrameType]:
    """From the script to where an exception is raised."""
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame
        trace = trace.tb_next


def _library_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0]


def _requested_by(frame: FrameType, error: BaseException) -> str | None:
    """What a call of a loader was asked for; None if a frame is not one."""
    library, function, given = _library_of(frame), frame.f_code.co_name, frame.f_locals
    for one in _LOADING_CALLS:
        name = given.get(one.argument)
        if (library, function) == (one.library, one.function) and isinstance(name, str):
            wanted = _files_of(given) or name
            if one.library == "datasets" and type(error) is ValueError and os.path.exists(wanted):
                return None  # it is there, and has no such split, or is of another kind
            return _sentence(wanted, _kind(one, given, error), given)
    return None


def _files_of(given: dict[str, Any]) -> str | None:
    """The first of the files that a builder of data sets, such as ``json``, is given."""
    files = given.get("data_files")
    while isinstance(files, (list, tuple, dict)) and files:
        files = next(iter(files.values() if isinstance(files, dict) else files))
    return files if isinstance(files, str) else None


def _kind(loader: _LoadingCall, given: dict[str, Any], error: BaseException) -> str:
    if loader.library in ("datasets", "evaluate"):
        return "data set" if loader.library == "datasets" else "metric"
    if loader.library == "huggingface_hub":
        return "file" if given.get("filename") else "repository"
    if loader.library == "peft":
        return "adapter"
    class_name = getattr(given.get("cls"), "__name__", "")
    kind = next((kind for word, kind in _KINDS.items() if word in class_name), None)
    if kind is not None:
        return kind
    reads_config = any(frame.f_code.co_name == "_get_config_dict" for frame in _frames(error))
    return "config" if "Config" in class_name or reads_config else "weights"


def _sentence(name: str, kind: str, given: dict[str, Any]) -> str:
    if kind == "config":
        return f"the config of `{name}` is not on this machine: pass a folder with its config.json"
    if kind == "weights":
        return f"the weights of `{name}` are not on this machine: pass a folder with them, or --shrink to need none"
    if kind == "file":
        return f"`{given['filename']}` of `{name}` is not on this machine: download it, or pass a local file"
    if kind == "repository":
        return f"`{name}` is not on this machine: download it, or pass a local folder"
    if kind == "data set":
        return f"the data set `{name}` is not on this machine: download it, or pass local files"
    return f"the {kind} of `{name}` is not on this machine: download it, or pass a local folder with it"
