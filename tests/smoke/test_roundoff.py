"""The bounds of passes in another order of additions, held to matrices that are multiplied so."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch
from linted import config_of
from shown_engines import CONFIG

from ds_lint.diagnostics.verdict import CPU, CUDA
from ds_lint.facts import Facts
from ds_lint.facts.training import Argument, TrainingArguments
from ds_lint.smoke.expected.expectation import Expectation, with_meant_names
from ds_lint.smoke.expected.reference_plan import planned
from ds_lint.smoke.expected.roundoff import TF32, U, of_passes
from ds_lint.smoke.records.job import Job
from ds_lint.source import documents

N = 256  # terms of each sum


def matrices():
    generator = torch.Generator().manual_seed(0)
    return (torch.randn(N, N, generator=generator) for _ in range(2))


def error(product, exact):
    """The largest error, relative to the largest element."""
    return float((product.double() - exact).abs().max() / exact.abs().max())


def in_tf32(matrix):
    """As a tensor core reads it: 11 significant bits, rounded to the nearest."""
    bits = matrix.view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)


@pytest.mark.parametrize(("stack", "mode", "rounds"), [
    ("trainer", CUDA, True), ("deepspeed", CUDA, False), ("trainer", CPU, False),
])  # fmt: skip
def test_tf32_counts_where_the_trainer_switches_it_on(stack, mode, rounds):
    facts = Facts(training=TrainingArguments({"tf32": Argument(True, "args.yaml")}, "args.yaml"))
    config = config_of(documents.from_dict(CONFIG), stack=stack, facts=facts)
    expectation = Expectation(config, *with_meant_names(config))
    plan = planned(expectation, Job("", stack, "/run", mode=mode))
    assert plan.rounds_factors is rounds


def test_factors_that_are_rounded_to_tf32():
    a, b = matrices()
    found = error(in_tf32(a) @ in_tf32(b), a.double() @ b.double())
    assert of_passes(U, 1, N, rounds_factors=False) < found < of_passes(U, 1, N, rounds_factors=True)
    assert float((in_tf32(a) / a - 1).abs().max()) <= TF32


def test_sums_in_another_order():
    a, b = matrices()
    parts = sum(one @ other for one, other in zip(a.split(7, dim=1), b.split(7), strict=True))
    assert 0 < error(parts, (a @ b).double()) < of_passes(U, 1, N, rounds_factors=False)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_products_in_16_bit_are_rounded_once(dtype):
    a, b = (one.to(dtype) for one in matrices())
    found = error((a.float() @ b.float()).to(dtype), a.double() @ b.double())
    u = torch.finfo(dtype).eps / 2
    assert u / 10 < found < of_passes(u, 1, N, rounds_factors=False)
    assert of_passes(u, 4, N, rounds_factors=False) == pytest.approx(12 * u)
