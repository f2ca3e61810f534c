"""The directory at the end of a zip archive: which files are in it, and where their bytes are.

``zipfile`` would read a directory of any size, and refuse one that torch reads: ``torch.save`` may leave checksums out.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

LARGEST = 64 << 20  # bytes of a directory that are read, some 800,000 files
_COMMENT = 65_535  # bytes at most behind the end record
_END, _END_64, _LOCATOR_64, _ENTRY, _LOCAL = b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07", b"PK\x01\x02", b"PK\x03\x04"
_ABSENT_32 = 0xFFFFFFFF  # stands for a number that is in the extra field
_STORED, _DEFLATED = 0, 8


class NotAnArchiveError(ValueError):
    """The directory is not there or not whole, as in a file that is truncated."""


class PackedFile(NamedTuple):
    """A file in the archive."""

    name: str
    method: int
    packed: int  # bytes in the archive
    size: int  # bytes of the file itself
    place: int  # of its header
    checksum: int


def entries(file: BinaryIO, size: int) -> list[PackedFile]:
    """The files of an archive of so many bytes; NotAnArchiveError."""
    try:
        start, length = _directory(file, size)
        if length > LARGEST:
            raise NotAnArchiveError("its directory is larger than any that torch writes")
        file.seek(start)
        found = _entries(file.read(length))
    except struct.error as error:
        raise NotAnArchiveError("its directory is not whole") from error
    for entry in found:
        if entry.place + 30 + entry.packed > start or _header(file, entry)[:4] != _LOCAL:
            raise NotAnArchiveError(f"{entry.name[:80]} in it is not whole")
    return found


def content(file: BinaryIO, entry: PackedFile, most: int) -> bytes:
    """The bytes of a file of the archive, at most so many; NotAnArchiveError."""
    return part(file, entry, 0, most) if entry.method == _STORED else _inflated(file, entry, most)


def part(file: BinaryIO, entry: PackedFile, start: int, length: int) -> bytes:
    """Some bytes of a file that is stored as it is."""
    if entry.method != _STORED:
        return b""
    file.seek(_start(file, entry) + start)
    return file.read(max(0, min(length, entry.packed - start)))


def is_intact(file: BinaryIO, entry: PackedFile) -> bool:
    """Whether the bytes of a file are those that were written; what is packed, torch never writes."""
    if entry.method != _STORED:
        return True
    data = content(file, entry, entry.size)
    return len(data) == entry.size and zlib.crc32(data) == entry.checksum


def _inflated(file: BinaryIO, entry: PackedFile, most: int) -> bytes:
    if entry.method != _DEFLATED:
        raise NotAnArchiveError(f"{entry.name[:80]} in it is compressed by an unknown method")
    file.seek(_start(file, entry))
    try:
        return zlib.decompressobj(-15).decompress(file.read(min(entry.packed, most)), most)
    except zlib.error as error:
        raise NotAnArchiveError(f"{entry.name[:80]} in it is not whole") from error


def _header(file: BinaryIO, entry: PackedFile) -> bytes:
    file.seek(entry.place)
    return file.read(30)


def _start(file: BinaryIO, entry: PackedFile) -> int:
    header = _header(file, entry)
    if len(header) < 30:
        raise NotAnArchiveError(f"{entry.name[:80]} in it is not whole")
    name, extra = struct.unpack_from("<HH", header, 26)
    return entry.place + 30 + int(name) + int(extra)


def _directory(file: BinaryIO, size: int) -> tuple[int, int]:
    """Where the directory starts, and its length."""
    tail = min(size, _COMMENT + 22)
    file.seek(size - tail)
    data = file.read(tail)
    at = data.rfind(_END)
    if at < 0 or len(data) - at < 22:
        raise NotAnArchiveError("the directory at its end is missing")
    length, start = struct.unpack_from("<II", data, at + 12)
    if at >= 20 and data[at - 20 : at - 16] == _LOCATOR_64:
        (place,) = struct.unpack_from("<Q", data, at - 12)
        file.seek(min(place, size))
        record = file.read(56)
        if record[:4] != _END_64:
            raise NotAnArchiveError("the directory at its end is missing")
        length, start = struct.unpack_from("<QQ", record, 40)
    if start + length > size:
        raise NotAnArchiveError("the directory at its end is missing")
    return start, length


def _entries(data: bytes) -> list[PackedFile]:
    found: list[PackedFile] = []
    at = 0
    while at < len(data):
        if data[at : at + 4] != _ENTRY:
            raise NotAnArchiveError("its directory is not whole")
        (method,) = struct.unpack_from("<H", data, at + 10)
        checksum, packed, size = struct.unpack_from("<III", data, at + 16)
        name, extra, comment = struct.unpack_from("<HHH", data, at + 28)
        (place,) = struct.unpack_from("<I", data, at + 42)
        text = data[at + 46 : at + 46 + name].decode("utf-8", "replace")
        wide = _wide(data[at + 46 + name : at + 46 + name + extra])
        if size == _ABSENT_32:
            size = next(wide, size)
        if packed == _ABSENT_32:
            packed = next(wide, packed)
        if place == _ABSENT_32:
            place = next(wide, place)
        found.append(PackedFile(text, method, packed, size, place, checksum))
        at += 46 + name + extra + comment
    return found


def _wide(extra: bytes) -> Iterator[int]:
    """The numbers of 64 bits in the extra field of an entry."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        if kind == 1:
            data = extra[at + 4 : at + 4 + length]
            yield from (int.from_bytes(data[one : one + 8], "little") for one in range(0, len(data) - 7, 8))
            return
        at += 4 + length
