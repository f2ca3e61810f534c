"""The marks of tensors on GPUs, computed here on the CPU."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from ds_lint.smoke.observe import probes  # noqa: E402


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool])
def test_a_mark_tells_tensors_apart_that_differ_in_one_place_or_in_their_order(dtype, monkeypatch):
    monkeypatch.setattr(probes, "_PIECE", 7)  # so that several are added up
    tensor = (torch.arange(20) % 5 % 2).to(dtype)
    swapped = tensor.clone()
    swapped[0], swapped[1] = tensor[1], tensor[0]
    zero = torch.zeros(20, dtype=dtype)
    last = zero.clone()
    last[19] = 1

    marks = [probes.sum_of_words(one) for one in (tensor, swapped, zero, last, zero[:19])]

    assert len(set(marks)) == len(marks)
    assert probes.sum_of_words(tensor.clone()) == marks[0]
    assert all(0 <= one < 2**64 for one in marks)


def test_tensors_on_the_cpu_have_digests():
    tensor = torch.ones(3, 2)
    assert probes.mark(tensor) == probes.digest(tensor)
