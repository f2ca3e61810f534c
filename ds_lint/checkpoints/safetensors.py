"""The header of a .safetensors file: names, dtypes and shapes of its tensors, and whether the file is whole.

8 bytes of length, a JSON object, then the bytes of the tensors (https://huggingface.co/docs/safetensors).
"""

from __future__ import annotations

import json
import os
import stat
import struct
from typing import NamedTuple

from ds_lint.checkpoints.archives import FileStatus, missing
from ds_lint.checkpoints.tensors import SavedTensor, shape_of

LARGEST = 100_000_000  # MAX_HEADER_SIZE in safetensors/src/tensor.rs
_DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32",
    "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2",
}  # fmt: skip


class Header(NamedTuple):
    """What the header of a file says."""

    status: FileStatus
    tensors: list[SavedTensor]
    why: str | None = None


def read(path: str) -> Header:
    """Read the header of a file."""
    try:
        there = os.stat(path)
    except OSError as error:
        return Header("missing", [], missing(error).why)
    if not stat.S_ISREG(there.st_mode):
        return Header("missing", [], "it is not a file")  # opening a pipe would wait for its writer
    size = there.st_size
    try:
        with open(path, "rb") as file:
            start = file.read(8)
            if not start:
                return Header("empty", [], "it has no bytes")
            if start == b"version ":
                return Header("truncated", [], "it is a pointer of Git LFS; git lfs pull fetches the file")
            (length,) = struct.unpack("<Q", start.ljust(8, b"\0"))
            if len(start) < 8 or 8 + length > size or length > LARGEST:
                return Header("truncated", [], f"its header would be {length:,} bytes, and the file has {size:,}")
            header = json.loads(file.read(length))
    except OSError as error:
        return Header("truncated", [], f"it cannot be read ({error.strerror})")
    except (ValueError, RecursionError):
        return Header("truncated", [], "its header is not JSON")
    tensors, end = _tensors(header)
    if tensors is None:
        return Header("truncated", [], "its header is not one of safetensors")
    if 8 + length + end > size:
        return Header("truncated", tensors, f"its tensors end at byte {8 + length + end:,}, and the file has {size:,}")
    return Header("ok", tensors)


def _tensors(header: object) -> tuple[list[SavedTensor] | None, int]:
    """The tensors and the end of the last one, counted from the header; None if it is another."""
    if not isinstance(header, dict):
        return None, 0
    tensors, last = [], 0
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        try:
            shape, (_, end), dtype = shape_of(entry["shape"]), entry["data_offsets"], str(entry["dtype"])
        except (KeyError, TypeError, ValueError):
            return None, 0
        if shape is None or not isinstance(end, int):
            return None, 0
        tensors.append(SavedTensor((name,), _DTYPES.get(dtype, dtype), shape))
        last = max(last, end)
    return tensors, last
