"""DeepSpeed's ops pin_memory and async_io without a compiler: memory that counts as locked, and files.

Every operation is done at once; `wait` only counts it. The files are the real ones, byte for byte.
"""

from __future__ import annotations

import mmap
import os
import sys
from typing import Any

import torch

from ds_lint.smoke.standins.pybind import function

O_DIRECT_ALIGNMENT = 512  # csrc/aio/py_lib/deepspeed_py_io_handle.cpp

# Of the process, as the compiled manager is (csrc/pin_memory/deepspeed_pin_tensor.cpp): by address, until it is freed.
_locked: dict[int, torch.Tensor] = {}


class PinHandle:
    """Memory that stays in RAM; here any memory will do."""

    def new_cpu_locked_tensor(self, num_elem: int, example_tensor: torch.Tensor) -> torch.Tensor:
        """Memory for so many elements like those of the example."""
        tensor = torch.empty(num_elem, dtype=example_tensor.dtype)
        _locked[tensor.data_ptr()] = tensor
        return tensor

    def free_cpu_locked_tensor(self, tensor: torch.Tensor) -> bool:
        """Whether it was locked memory."""
        return self.free_cpu_locked_tensor_by_ptr(tensor.data_ptr())

    def free_cpu_locked_tensor_by_ptr(self, address: int) -> bool:
        """Whether locked memory began there."""
        return _locked.pop(address, None) is not None

    def is_pinned(self, buffer: torch.Tensor) -> bool:
        """Whether all of the buffer lies in locked memory."""
        start, end = buffer.data_ptr(), buffer.data_ptr() + buffer.nbytes
        return buffer.is_pinned() or any(
            address <= start and end <= address + tensor.nbytes for address, tensor in _locked.items()
        )


class AioHandle(PinHandle):
    """Reads and writes files, and counts what `wait` then answers; -1 is the answer to what cannot be done."""

    def __init__(
        self,
        block_size: Any = 2**20,
        queue_depth: Any = 128,
        single_submit: Any = False,
        overlap_events: Any = False,
        intra_op_parallelism: Any = 1,
    ) -> None:
        settings = function("aio_handle", "int int bool bool int", lambda *converted: converted)
        block, depth, single, overlap, parallelism = settings(
            block_size, queue_depth, single_submit, overlap_events, intra_op_parallelism
        )
        self._block_size: int = block
        self._queue_depth: int = depth
        self._single_submit: bool = single
        self._overlap_events: bool = overlap
        self._parallelism: int = parallelism
        self._pending = 0

    def get_block_size(self) -> int:
        """As it was given."""
        return self._block_size

    def get_queue_depth(self) -> int:
        """As it was given."""
        return self._queue_depth

    def get_single_submit(self) -> bool:
        """As it was given."""
        return self._single_submit

    def get_overlap_events(self) -> bool:
        """As it was given."""
        return self._overlap_events

    def get_intra_op_parallelism(self) -> int:
        """As it was given."""
        return self._parallelism

    def get_alignment(self) -> int:
        """The bytes that sizes and offsets have to be multiples of."""
        return self._parallelism * O_DIRECT_ALIGNMENT

    def async_pwrite(self, buffer: torch.Tensor, file: str | int, file_offset: int = 0) -> int:
        """Write the buffer to the file of this path or descriptor, which is not cut short."""
        if not self._can_be_divided("Write", buffer):
            return -1
        content = _bytes(buffer.cpu().contiguous())
        if isinstance(file, int):
            _write(file, content, file_offset)
        else:
            try:
                descriptor = os.open(file, os.O_WRONLY | os.O_CREAT, 0o600)
            except OSError as error:
                return _failed(error)
            try:
                _write(descriptor, content, file_offset)
            finally:
                os.close(descriptor)
        self._pending += 1
        return 0

    def async_pread(self, buffer: torch.Tensor, filename: str, file_offset: int = 0) -> int:
        """Fill the buffer from the file."""
        if not self._can_be_divided("Read", buffer):
            return -1
        content = torch.empty(buffer.shape, dtype=buffer.dtype)
        try:
            with open(filename, "rb") as opened:
                opened.seek(file_offset)
                count = opened.readinto(_bytes(content))
        except OSError as error:
            return _failed(error)
        if count < buffer.nbytes:
            raise RuntimeError(
                f"{filename}: {buffer.nbytes} bytes from {file_offset} were asked for, and {count} are there"
            )
        buffer.copy_(content)
        self._pending += 1
        return 0

    def sync_pwrite(self, buffer: torch.Tensor, filename: str, file_offset: int = 0) -> int:
        """Write, and answer how many operations are done."""
        return self.async_pwrite(buffer, filename, file_offset) or self.wait()

    def sync_pread(self, buffer: torch.Tensor, filename: str, file_offset: int = 0) -> int:
        """Read, and answer how many operations are done."""
        return self.async_pread(buffer, filename, file_offset) or self.wait()

    def pwrite(self, buffer: torch.Tensor, filename: str, _validate: bool, is_async: bool, file_offset: int = 0) -> int:
        """Write; there is nothing to validate."""
        return (self.async_pwrite if is_async else self.sync_pwrite)(buffer, filename, file_offset)

    def pread(self, buffer: torch.Tensor, filename: str, _validate: bool, is_async: bool, file_offset: int = 0) -> int:
        """Read; there is nothing to validate."""
        return (self.async_pread if is_async else self.sync_pread)(buffer, filename, file_offset)

    def wait(self) -> int:
        """How many operations were done since the last time."""
        done, self._pending = self._pending, 0
        return done

    def _can_be_divided(self, operation: str, buffer: torch.Tensor) -> bool:
        if buffer.nbytes % self._parallelism == 0:
            return True
        sys.stdout.write(
            f"deepspeed_aio failure: parallel {operation} num_bytes = {buffer.nbytes} not divisible by intra op "
            f"parallelism = {self._parallelism}\n"
        )
        return False


def _write(descriptor: int, content: Any, offset: int) -> None:
    """Write all of it, from memory that begins a page: DeepSpeed opens files with O_DIRECT."""
    if not len(content):
        return
    with mmap.mmap(-1, len(content)) as pages, memoryview(pages) as page_view:
        pages[:] = content
        written = 0
        while written < len(content):
            with page_view[written:] as rest:
                written += os.pwrite(descriptor, rest, offset + written)


def _bytes(tensor: torch.Tensor) -> Any:
    return tensor.reshape(-1).view(torch.uint8).numpy().data


def _failed(error: OSError) -> int:
    sys.stderr.write(f"{error}\n")
    return -1


def cast_to_byte_tensor(source: Any) -> Any:
    """The memory of a tensor, or of each of several, as bytes (csrc/utils/tensor_cast.cpp)."""
    if isinstance(source, torch.Tensor):
        return source if source.nbytes <= 1 else source.reshape(-1).view(torch.uint8)
    return [cast_to_byte_tensor(tensor) for tensor in source]
