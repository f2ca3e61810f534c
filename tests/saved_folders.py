"""Folders as DeepSpeed, FSDP and others save them, written byte by byte: torch is not needed."""

from __future__ import annotations

import json
import math
import pickle
import struct
import zipfile
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

_STORAGES = {"float32": ("FloatStorage", 4), "bfloat16": ("BFloat16Storage", 2), "int64": ("LongStorage", 8)}


@dataclass(frozen=True)
class Saved:
    """A tensor of a shape; ``value`` is its only element."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    value: float | None = None


@dataclass(frozen=True)
class Named:
    """A class or function of a module, which is called with arguments and gets a state."""

    module: str
    name: str
    arguments: tuple[Any, ...] | None = None
    state: dict[str, Any] | None = None


def stage_of(number: int) -> Named:
    """The member of DeepSpeed's enumeration."""
    return Named("deepspeed.runtime.zero.config", "ZeroStageEnum", (number,))


class _Pickle:
    """Writes protocol 2 as torch does, with one storage for each tensor."""

    def __init__(self) -> None:
        self.bytes = BytesIO()
        self.storages: list[Saved] = []

    def write(self, value: Any) -> None:
        put = self.bytes.write
        if isinstance(value, dict):
            put(b"}(")
            for key, one in value.items():
                self.write(key)
                self.write(one)
            put(b"u")
        elif isinstance(value, (list, tuple)):
            put(b"](" if isinstance(value, list) else b"(")
            for one in value:
                self.write(one)
            put(b"e" if isinstance(value, list) else b"t")
        elif isinstance(value, Saved):
            self._tensor(value)
        elif isinstance(value, Named):
            self._call(value)
        else:
            put(pickle.dumps(value, 2)[2:-1])  # without the protocol and the stop

    def _call(self, value: Named) -> None:
        self.bytes.write(f"c{value.module}\n{value.name}\n".encode())
        if value.arguments is not None:
            self.write(value.arguments)
            self.bytes.write(b"R")
        if value.state is not None:
            self.write(value.state)
            self.bytes.write(b"b")

    def _tensor(self, tensor: Saved) -> None:
        kind, _ = _STORAGES[tensor.dtype]
        key, count = str(len(self.storages)), math.prod(tensor.shape)
        self.storages.append(tensor)
        self.bytes.write(b"ctorch._utils\n_rebuild_tensor_v2\n(")
        self.write(("storage", Named("torch", kind), key, "cpu", count))
        self.bytes.write(b"Q")
        for part in (0, tensor.shape, tuple(1 for _ in tensor.shape), False, {}):
            self.write(part)
        self.bytes.write(b"tR")


def archive(value: Any) -> bytes:
    """The bytes of a file of ``torch.save``."""
    written = _Pickle()
    written.bytes.write(b"\x80\x02")
    written.write(value)
    written.bytes.write(b".")
    file = BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("archive/data.pkl", written.bytes.getvalue())
        for key, tensor in enumerate(written.storages):
            size = _STORAGES[tensor.dtype][1]
            data = bytes(size * math.prod(tensor.shape)) if tensor.value is None else struct.pack("<f", tensor.value)
            made.writestr(f"archive/data/{key}", data)
        made.writestr("archive/version", "3\n")
    return file.getvalue()


def safetensors(tensors: dict[str, tuple[int, ...]], dtype: str = "F32") -> bytes:
    """The bytes of a .safetensors file."""
    header: dict[str, Any] = {}
    end = 0
    for name, shape in tensors.items():
        start, end = end, end + 4 * math.prod(shape)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(end)


WEIGHTS = {"embed.weight": (8, 4), "head.weight": (8, 4)}


def engine_files(
    stage: int, ranks: int = 2, *, prefix: str = "bf16_", step: int = 2, **changes: Any
) -> dict[str, bytes]:
    """The files of ``engine.save_checkpoint`` below a tag; ``changes`` are of the files with weights."""
    shapes = {name: Named("torch", "Size", (shape,)) for name, shape in WEIGHTS.items()}
    config = {"bf16": {"enabled": prefix == "bf16_"}, "zero_optimization": {"stage": stage}}
    optimizer = {"state": {0: {"step": 1}}, "param_groups": []} if stage == 0 else None
    model = {
        "module": {name: Saved((0,) if stage == 3 else shape, "bfloat16") for name, shape in WEIGHTS.items()},
        "optimizer": optimizer, "param_shapes": [shapes], "frozen_param_shapes": {}, "frozen_param_fragments": {},
        "buffer_names": [], "lr_scheduler": {"last_batch_iteration": 1}, "global_steps": step, "skipped_steps": 0,
        "dp_world_size": ranks, "mp_world_size": 1, "ds_config": config, "ds_version": "0.18.2", **changes,
    }  # fmt: skip
    if stage == 0:
        return {"mp_rank_00_model_states.pt": archive(model)}
    files = {}
    if stage < 3:
        files["mp_rank_00_model_states.pt"] = archive(model)
    for rank in range(ranks):
        if stage == 3:
            files[f"zero_pp_rank_{rank}_mp_rank_00_model_states.pt"] = archive(model)
        name = f"{prefix}zero_pp_rank_{rank}_mp_rank_00_optim_states.pt"
        files[name] = archive(optimizer_states(stage, ranks, step=step, config=config))
    return files


def optimizer_states(stage: int, ranks: int, *, step: float = 2, config: Any = None, **changes: Any) -> dict[str, Any]:
    """What the file of the optimizer of a rank has."""
    part = sum(math.prod(shape) for shape in WEIGHTS.values()) // ranks
    moments = {"step": Saved((), "float32", step), "exp_avg": Saved((part,)), "exp_avg_sq": Saved((part,))}
    base = {"state": {0: moments}, "param_groups": [{"lr": 0.001}]}
    of_stage = (
        {"optimizer_state_dict": base, "fp32_flat_groups": [Saved((part,))], "partition_count": ranks}
        if stage == 3
        else {"base_optimizer_state": base, "single_partition_of_fp32_groups": [Saved((part,))],
              "partition_count": [ranks], "group_paddings": [0]}
    )  # fmt: skip
    states = {"zero_stage": stage_of(stage), **of_stage, **changes}
    return {"optimizer_state_dict": states, "ds_config": config or {}, "ds_version": "0.18.2"}


def engine_folder(path: Path, stage: int, ranks: int = 2, *, tag: str = "global_step2", **changes: Any) -> Path:
    """A folder of ``engine.save_checkpoint``."""
    write(path, {f"{tag}/{name}": data for name, data in engine_files(stage, ranks, **changes).items()})
    write(path, {"latest": tag.encode()})
    return path


def universal_folder(path: Path, stage: int = 3, ranks: int = 2) -> Path:
    """A folder of ds_to_universal."""
    models = {name: data for name, data in engine_files(stage, ranks).items() if "model_states" in name}
    states = {
        f"zero/{name}/{state}.pt": archive({"param": Saved(shape)} if state == "fp32" else Saved(shape))
        for name, shape in WEIGHTS.items()
        for state in ("fp32", "exp_avg", "exp_avg_sq")
    }
    optimizer = archive({"zero_stage": stage_of(stage)})
    files = {**models, **states, "zero/optimizer_state.pt": optimizer}
    write(path, {f"global_step2/{name}": data for name, data in files.items()})
    write(path, {"latest_universal": b"global_step2"})
    return path


def fsdp_folder(path: Path, ranks: int = 2) -> Path:
    """A folder of Accelerate with FSDP, in one file for each rank."""
    of = "torch.distributed.checkpoint"
    for part in ("pytorch_model_fsdp_0", "optimizer_0"):
        stored = {
            (name, rank): Named(f"{of}.filesystem", "_StorageInfo", (), {
                "relative_path": f"__{rank}_0.distcp", "offset": 0, "length": 64})
            for name in WEIGHTS for rank in range(ranks)
        }  # fmt: skip
        tensors = {
            name: Named(f"{of}.metadata", "TensorStorageMetadata", (), {
                "properties": Named(f"{of}.metadata", "TensorProperties", (), {"dtype": Named("torch", "float32")}),
                "size": Named("torch", "Size", (shape,)), "chunks": []})
            for name, shape in WEIGHTS.items()
        }  # fmt: skip
        state = {"state_dict_metadata": tensors, "planner_data": {}, "storage_data": stored}
        written = _Pickle()
        written.bytes.write(b"\x80\x02")
        written.write(Named(f"{of}.metadata", "Metadata", (), state))
        files = {f"__{rank}_0.distcp": bytes(64) for rank in range(ranks)}
        write(path / part, {".metadata": written.bytes.getvalue() + b".", **files})
    write(path, {f"random_states_{rank}.pkl": archive({"step": 0}) for rank in range(ranks)})
    return path


def write(folder: Path, files: dict[str, bytes]) -> None:
    """Write files into a folder."""
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def halve(path: Path) -> None:
    """Leave the first half of a file."""
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
