"""A file that torch.save has written, read as data: whole or not, what its pickle says, and its tensors.

Since torch 1.6 it is a zip archive of a pickle and one file for each storage; before, a pickle with storages behind it.
"""

from __future__ import annotations

import os
import stat
import struct
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ds_lint.checkpoints import pickled, zip_directory
from ds_lint.checkpoints.tensors import storage_of, storages_of, tensor_of
from ds_lint.checkpoints.zip_directory import NotAnArchiveError, PackedFile

if TYPE_CHECKING:
    from typing import BinaryIO

    from ds_lint.checkpoints.pickled import OpcodeAllowance
    from ds_lint.checkpoints.tensors import Storage

FileStatus = Literal["ok", "missing", "truncated", "empty"]

LARGEST = 64 << 20  # bytes of a pickle that are read; those of the largest models take a few
_COMPARED = 4 << 20  # bytes of an archive that is compared with its checksums; of a larger one its pickle is
_ZIP = b"PK\x03\x04"
_OLD_MAGIC = 0x1950A86A20F9469CFC6C  # MAGIC_NUMBER in torch/serialization.py
LFS_POINTER = b"version https://git-lfs."
_NUMBERS = {"float32": "<f", "float64": "<d", "int64": "<q", "int32": "<i", "int16": "<h", "int8": "<b", "uint8": "<B"}


class Archive(NamedTuple):
    """A file of ``torch.save``: its status and, if it can be read, what the pickle says."""

    status: FileStatus
    value: Any = None
    why: str | None = None  # of a status that is not ok, or of a value that is not read
    storages: dict[str, PackedFile] = {}  # noqa: RUF012 - never changed


def read(path: str, allowance: OpcodeAllowance) -> Archive:
    """Read a file that ``torch.save`` has written."""
    try:
        there = os.stat(path)
    except OSError as error:
        return missing(error)
    if not stat.S_ISREG(there.st_mode):
        return Archive("missing", why="it is not a file")  # opening a pipe would wait for its writer
    if there.st_size == 0:
        return Archive("empty", why="it has no bytes")
    try:
        with open(path, "rb", buffering=0) as file:
            return _of(file, there.st_size, allowance)
    except OSError as error:
        return Archive("truncated", why=f"it cannot be read ({error.strerror})")


def missing(error: OSError) -> Archive:
    """A file that is not there, or whose link leads nowhere."""
    is_absent = isinstance(error, (FileNotFoundError, NotADirectoryError))
    return Archive("missing", why=None if is_absent else f"it cannot be opened ({error.strerror})")


def _of(file: BinaryIO, size: int, allowance: OpcodeAllowance) -> Archive:
    start = file.read(len(LFS_POINTER))
    if start == LFS_POINTER:
        return Archive("truncated", why="it is a pointer of Git LFS; git lfs pull fetches the file")
    if start.startswith(_ZIP):
        return _of_zip(file, size, allowance)
    if not start.startswith(b"\x80"):
        return Archive("truncated", why="it does not begin as torch.save writes")
    file.seek(0)
    return _of_pickles(_all(file, LARGEST), size, allowance)


def _all(file: BinaryIO, most: int) -> bytes:
    parts: list[bytes] = []
    while most > 0 and (part := file.read(most)):
        parts.append(part)
        most -= len(part)
    return b"".join(parts)


def _of_zip(file: BinaryIO, size: int, allowance: OpcodeAllowance) -> Archive:
    try:
        inside = {one.name.partition("/")[2]: one for one in zip_directory.entries(file, size)}
        pickle = inside.get("data.pkl")
        if pickle is None:
            return Archive("ok", why="no data.pkl is in it")
        if pickle.size > LARGEST or allowance.opcodes <= 0:
            return Archive("ok", why="its pickle is too large to read")
        damaged = _damaged(file, inside, size)
        if damaged == "data.pkl":
            return Archive("truncated", why="its pickle is not what was written, by its checksum")
        value, _ = pickled.read(zip_directory.content(file, pickle, LARGEST), allowance)
    except NotAnArchiveError as error:
        return Archive("truncated", why=str(error))
    except pickled.TooMuchError:
        return Archive("ok", why="its pickle is too large to read")
    except pickled.NotAPickleError as error:
        return Archive("truncated", why=f"its pickle cannot be read ({error})")
    storages = {name[5:]: one for name, one in inside.items() if name.startswith("data/")}
    for storage in storages_of(value):
        there = storages.get(storage.key)
        if there is None or there.size < storage.elements * storage.element_size:
            return Archive("truncated", value, f"storage {storage.key[:40]} is not whole", storages)
    if damaged is not None:
        return Archive("truncated", value, f"{damaged[:40]} in it is not what was written, by its checksum", storages)
    return Archive("ok", value, None, storages)


def _damaged(file: BinaryIO, inside: dict[str, PackedFile], size: int) -> str | None:
    """A file of the archive that differs from its checksum, which torch.load does not compare."""
    version = inside.get("version", inside.get(".format_version"))
    if version is None or version.size > _COMPARED or not zip_directory.is_intact(file, version):
        return None  # torch.serialization.set_crc32_options() leaves checksums out
    compared = inside if size <= _COMPARED else {"data.pkl": inside["data.pkl"]}
    return next((name for name, one in compared.items() if not zip_directory.is_intact(file, one)), None)


def _of_pickles(data: bytes, size: int, allowance: OpcodeAllowance) -> Archive:
    """The format before torch 1.6: magic number, protocol, system, object, keys of storages, then the storages."""
    try:
        magic, place = pickled.read(data, allowance)
        if magic != _OLD_MAGIC:
            return Archive("ok", magic)  # a pickle without torch, as accelerate's random_states_0.pkl
        for _ in range(2):
            _, place = pickled.read(data, allowance, place)
        value, place = pickled.read(data, allowance, place)
        _, place = pickled.read(data, allowance, place)
    except pickled.TooMuchError:
        return Archive("ok", why="its pickle is too large to read")
    except pickled.NotAPickleError as error:
        return Archive("truncated", why=f"its pickle cannot be read ({error})")
    by_key: dict[str, Storage] = {storage.key: storage for storage in storages_of(value)}
    needed = place + sum(8 + one.elements * one.element_size for one in by_key.values())
    return Archive("ok", value) if size >= needed else Archive("truncated", value, "its storages are not whole")


def number(path: str, archive: Archive, value: Any) -> float | None:
    """A number of the pickle, also one in a tensor of one element; None if it is neither."""
    if isinstance(value, (int, float)):
        return value
    tensor = tensor_of(value)
    if tensor is None or tensor.elements != 1 or tensor.source is None:
        return None
    storage = storage_of(tensor.source)
    form = _NUMBERS.get(tensor.dtype)
    entry = archive.storages.get(storage.key) if storage is not None else None
    if entry is None or form is None:
        return None
    width = struct.calcsize(form)
    try:
        with open(path, "rb", buffering=0) as file:
            data = zip_directory.part(file, entry, tensor.offset * width, width)
    except (OSError, NotAnArchiveError):
        return None
    return float(struct.unpack(form, data)[0]) if len(data) == width else None
