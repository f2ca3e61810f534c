"""One step of a script is recomputed: real optimizers of torch on three ranks in one process, right and broken."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("deepspeed")

from ds_lint.smoke.observe.sampled_step import StepSamples  # noqa: E402 - imports torch
from ds_lint.smoke.script.recomputed import STEP, recompute  # noqa: E402

pytestmark = pytest.mark.fidelity
RANKS, WINDOWS = 3, 2
OPTIMIZERS = {
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=1e-2, betas=(0.8, 0.9), weight_decay=0.1),
    "Adam": lambda parameters: torch.optim.Adam(parameters, lr=1e-2, weight_decay=0.1),
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=1e-2, weight_decay=0.1),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=1e-2, momentum=0.9, dampening=0.5),
    "Nesterov": lambda parameters: torch.optim.SGD(parameters, lr=1e-2, momentum=0.9, nesterov=True, weight_decay=0.1),
}


class Rank:
    """A rank without ZeRO, in fp32: its gradients are averaged with those of the others by hand."""

    def __init__(self, module, make, path, asked_decay, made_decay):
        self.module = module
        self.optimizer = make(module.parameters())
        self.communication_data_type = torch.float32
        trained = {name: asked_decay for name, _ in module.named_parameters()}
        decays = {id(group): made_decay or group["weight_decay"] for group in self.optimizer.param_groups}
        self.samples = StepSamples(str(path), 2, RANKS, trained, decays)

    def fp16_enabled(self):
        return False

    def pass_through(self, seed):
        torch.manual_seed(seed)
        self.samples.saw_forward(self, {}, None)
        self.samples.saw_backward(self)
        (self.module(torch.randn(4, 20)).square().sum() / WINDOWS).backward()


def steps(
    tmp_path,
    make,
    *,
    clipping=0.0,
    reduce=lambda gradients: sum(gradients) / RANKS,
    after=None,
    experts=None,
    rates=None,
    asked_decay=None,
    made_decay=None,
):
    """Three steps of three ranks; what the recomputation of the second one finds."""
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(20, 40), torch.nn.Tanh(), torch.nn.Linear(40, 3))
    ranks = [
        Rank(copy.deepcopy(module), make, tmp_path / f"rank-{number}" / STEP, asked_decay, made_decay)
        for number in range(RANKS)
    ]
    for number, rank in enumerate(ranks if experts else ()):
        for parameter in rank.module[2].parameters():
            parameter.data += number
            parameter.allreduce, parameter.group_name = False, experts
    for step in range(3):
        for number, rank in enumerate(ranks):
            for window in range(WINDOWS):
                rank.pass_through(1000 * step + 10 * number + window)
        for of_all in zip(*(rank.module.parameters() for rank in ranks), strict=True):
            reduced = reduce([one.grad for one in of_all])
            for one in of_all:
                one.grad = None if reduced is None else reduced.clone()
        for rank in ranks:
            rank.samples.before_step(rank)
            for group in rank.optimizer.param_groups if rates else ():
                group["lr"] = rates[step]
            if clipping:
                torch.nn.utils.clip_grad_norm_(rank.module.parameters(), clipping)
            begun = rank.samples.before_update(rank, rank.optimizer)
            rank.optimizer.step()
            if after is not None:
                after(rank)
            rank.samples.after_update(begun)
            rank.samples.saw_step(rank, norm=None, is_skipped=False)
            rank.optimizer.zero_grad()
    return recompute(str(tmp_path), None, clipping)


@pytest.mark.parametrize("clipping", [0.0, 0.05])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_arithmetic_of_a_right_step(tmp_path, name, clipping):
    found = steps(tmp_path, OPTIMIZERS[name], clipping=clipping)
    assert (found.mismatches, found.unable) == ({}, {})
    assert found.compared == dict.fromkeys(("averaging", "update", "weights"), RANKS * (256 + 40 + 120 + 3))


@pytest.mark.parametrize(
    "reduce",
    [
        sum,
        lambda gradients: gradients[0],
        lambda gradients: sum(gradients[:2]) / RANKS,
    ],
    ids=["a sum", "one rank", "a rank is left out"],
)
def test_gradients_that_are_not_the_average(tmp_path, reduce):
    assert set(steps(tmp_path, OPTIMIZERS["AdamW"], reduce=reduce).mismatches) == {"averaging"}


def shrink(rank):
    with torch.no_grad():
        for one in rank.module.parameters():
            one.mul_(1 - 1e-5)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_that_does_more_than_its_optimizer(tmp_path, name):
    assert set(steps(tmp_path, OPTIMIZERS[name], after=shrink).mismatches) == {"update"}


def test_a_step_of_a_warm_up_that_moves_nothing_is_not_the_sampled_one(tmp_path):
    found = steps(tmp_path, OPTIMIZERS["AdamW"], after=keep_the_first, rates=[0.0, 0.0, 1e-3])
    assert set(found.mismatches) == {"update"}
    assert steps(tmp_path, OPTIMIZERS["AdamW"], rates=[0.0, 0.0, 0.0]).mismatches == {}


def keep_the_first(rank):
    """A weight does not move."""
    first = next(rank.module.parameters()).data.view(-1)
    rank.kept = getattr(rank, "kept", first[0].clone())
    first[0] = rank.kept


def test_a_parameter_of_which_the_optimizer_gets_no_gradient(tmp_path):
    lost = []

    def reduce(gradients):
        if gradients[0].shape == (3,):
            lost.append(gradients)
            return None
        return sum(gradients) / RANKS

    found = steps(tmp_path, OPTIMIZERS["AdamW"], reduce=reduce)
    assert lost
    assert (found.mismatches, found.lacking) == ({}, ["2.bias"])


def test_an_optimizer_with_another_weight_decay_than_that_of_its_group(tmp_path):
    found = steps(tmp_path, OPTIMIZERS["AdamW"], asked_decay=0.0)
    assert found.decays == dict.fromkeys(("0.weight", "0.bias", "2.weight", "2.bias"), (0.0, 0.1))
    assert steps(tmp_path, OPTIMIZERS["AdamW"], asked_decay=0.1).decays == {}


def test_a_script_may_change_the_weight_decay_itself(tmp_path):
    assert steps(tmp_path, OPTIMIZERS["AdamW"], asked_decay=0.0, made_decay=0.05).decays == {}


def test_clipping_to_another_norm(tmp_path):
    found = steps(tmp_path, OPTIMIZERS["SGD"], clipping=0.05)
    assert found.mismatches == {}
    assert set(recompute(str(tmp_path), None, 0.04).mismatches) == {"averaging"}


def test_an_optimizer_without_documented_arithmetic_is_not_compared(tmp_path):
    found = steps(tmp_path, torch.optim.NAdam)
    assert found.unable == {"update": "no documented arithmetic of torch.optim.nadam.NAdam is known"}


def test_experts_that_differ_between_ranks_are_not_compared_with_each_other(tmp_path):
    found = steps(tmp_path, OPTIMIZERS["Adam"], experts="ep_size_3")
    assert found.mismatches == {}
    assert found.compared["averaging"] == RANKS * (256 + 40)
    found = steps(tmp_path, OPTIMIZERS["Adam"], experts="ep_size_1")
    assert found.mismatches["weights"].parameter == "2.weight"
