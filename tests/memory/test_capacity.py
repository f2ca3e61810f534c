"""Whether a run fits on a GPU of which only the name is known."""

from __future__ import annotations

from ds_lint.facts import Facts, gpu
from ds_lint.facts.tensors import Tensor
from ds_lint.footprint.capacity import capacity
from ds_lint.footprint.estimate import estimate
from ds_lint.footprint.setup import TrainingSetup

GIB = 2**30


def named(name):
    facts = Facts()
    facts.gpu = gpu.named(name)
    return capacity(facts)


def needs_about(size):
    """An estimate of a run of so many GiB, which its bounds are not far from."""
    setup = TrainingSetup((Tensor("weight", round(size * GIB / 24)),), 1, 1, 0, {})
    return estimate(setup)


def test_what_fits_on_the_largest_alone_is_open():
    needed = needs_about(42)
    assert 40 * GIB < needed.gpu_bytes.least < needed.gpu_bytes.most < 80 * GIB
    assert named("A100").fit(needed).gpu is None
    assert named("A100-40GB").fit(needed).gpu is False
    assert named("A100-80GB").fit(needed).gpu is True


def test_what_fits_on_none_does_not_fit():
    assert named("A100").fit(needs_about(90)).gpu is False


def test_what_fits_on_all_fits():
    assert named("A100").fit(needs_about(20)).gpu is True
