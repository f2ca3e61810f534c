"""The user's real number of ranks is simulated: batch sizes, groups and shares, with a model in its full size."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys

import pytest
from command_line import ROOT, clean_environment
from installed import measured_with_the_newest

from ds_lint.diagnostics.verdict import CPU, FAKE, Held, RankEnd
from ds_lint.facts import Sources
from ds_lint.facts.readers import gather
from ds_lint.knowledge.keys import Target
from ds_lint.smoke.records.job import WORLD, Evidence, Job
from ds_lint.smoke.records.messages import Ended
from ds_lint.smoke.small_run import proof, real_world
from ds_lint.smoke.small_run.options import RunOptions
from ds_lint.source import documents

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]

RANKS = 1024
MIB, GIB = 2**20, 2**30
BASE = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 2,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
    "bf16": {"enabled": True},
}
GATHERED = {"stage3_gather_16bit_weights_on_model_save": True}
LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 32000,
    "tie_word_embeddings": False,
}
SMALL = LLAMA | {
    "vocab_size": 1000, "hidden_size": 72, "intermediate_size": 200, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2,
}  # fmt: skip
LLAMA_1B = LLAMA | {
    "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22,
    "num_attention_heads": 32, "num_key_value_heads": 4,
}  # fmt: skip
LLAMA_7B = LLAMA | {
    "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 32,
}  # fmt: skip


def zero(stage, **more):
    gathered = GATHERED if stage == 3 else {}
    return {**BASE, "zero_optimization": {"stage": stage, **gathered, **more}}


@pytest.fixture
def prove(pool, tmp_path):
    """Proves a config with a number of ranks, and a model in its full size."""

    def prove(config, *, ranks=RANKS, model=None, stack="deepspeed", arguments=None, pool=pool):
        if model is not None:
            (tmp_path / "config.json").write_text(json.dumps(model))
        sources = Sources(world_size=ranks, trainer_args=arguments, model=str(tmp_path) if model is not None else None)
        return proof.prove(
            pool,
            documents.from_bytes(json.dumps(config).encode(), "config.json"),
            stack=stack,
            facts=gather(sources),
            target=Target(),
            options=RunOptions(),
        )

    return prove


def check(verdict, id):
    (found,) = (one for one in verdict.checks if one.id == id)
    return found


def sizes(model):
    """Elements of the weights of a Llama without biases and shared weights, counted by hand."""
    hidden, middle = model["hidden_size"], model["intermediate_size"]
    narrow = hidden * model["num_key_value_heads"] // model["num_attention_heads"]
    layer = [hidden * hidden] * 2 + [hidden * narrow] * 2 + [hidden * middle] * 3 + [hidden] * 2
    return [model["vocab_size"] * hidden] * 2 + layer * model["num_hidden_layers"] + [hidden]


class Instead:
    """The warm process, with something else in place of what the simulated ranks tell."""

    def __init__(self, pool, told):
        self.folder, self.known_versions, self.keep_log = pool.folder, pool.known_versions, pool.keep_log
        self.abandoned_locks, self.nodes = pool.abandoned_locks, pool.nodes
        self._pool, self._told = pool, told

    def run(self, jobs, on_phase=None):
        ended = self._pool.run(jobs, on_phase)
        return [self._told(one) if job.part == WORLD else one for job, one in zip(jobs, ended, strict=True)]


# -------------------------------------------------------------------------------------------------------- batch sizes


def test_batch_sizes_that_fit_the_real_ranks(prove):
    trained, world = prove({**zero(2), "train_batch_size": 4096})
    assert (trained.status, trained.mode, trained.world_size) == ("pass", CPU, 2)
    assert (world.status, world.mode, world.world_size) == ("pass", FAKE, RANKS)
    assert check(trained, "batch").message == (
        "a step takes 2 x 2 micro steps x 2 ranks = 8 samples; "
        "on your 1,024 ranks 2 x 2 micro steps x 1,024 ranks = 4,096"
    )
    found = check(world, "world")
    assert (found.key, found.expected, found.observed) == ("train_batch_size", 4096, 4096)
    assert found.message == "on your 1,024 ranks a step takes 2 x 2 micro steps x 1,024 ranks = 4,096 samples"
    assert [rank.rank for rank in world.ranks] == [0, RANKS - 1]
    assert not world.adaptations  # neither batch sizes nor threshold


def test_batch_sizes_that_do_not(prove):
    trained, world = prove({**zero(2), "train_batch_size": 4000})
    assert trained.status == "pass"  # on two ranks, for which they were adapted
    assert world.status == "fail"
    found = check(world, "world")
    assert (found.status, found.key, found.observed) == ("fail", "train_batch_size", None)
    assert "4000 != 2 * 2 * 1024" in found.message


@pytest.mark.long
def test_the_command_line_says_that_the_run_confirms_it(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({**zero(1), "train_batch_size": 4000}))
    done = subprocess.run(
        [sys.executable, "-m", "ds_lint", "check", "config.json", "--smoke", "--world-size", str(RANKS)],
        cwd=tmp_path, env=clean_environment() | {"PYTHONPATH": ROOT, "CXX": "false", "CC": "false"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "DS512" in done.stdout
    assert "the training run confirms it: DeepSpeed rejects the config on your 1,024 ranks" in done.stdout
    assert "smoke: failed on rank 0 of 1,024 simulated" in done.stdout


def test_a_group_that_does_not_divide_the_ranks(prove):
    trained, world = prove(zero(3, zero_hpz_partition_size=6))
    assert trained.status == "pass"
    found = check(world, "world")
    assert (found.status, found.key) == ("fail", "zero_optimization.zero_hpz_partition_size")
    assert "1024 is not divisible by 6" in found.message


def test_ranks_that_do_not_make_whole_copies_of_the_model(prove):
    """DeepSpeed does not mind, and takes seven ranks in pairs for three and a half."""
    trained, world = prove({**BASE, "sequence_parallel_size": 2}, ranks=7)
    assert trained.status == "pass"
    found = check(world, "world")
    assert (found.status, found.key, found.observed) == ("fail", "sequence_parallel_size", 14.0)
    assert check(prove({**BASE, "sequence_parallel_size": 2}, ranks=8)[1], "world").observed == 16


def test_no_more_ranks_than_the_run_has_need_no_simulation(prove):
    assert len(prove(zero(1), ranks=2)) == 1
    assert len(prove(zero(1), ranks=None)) == 1


# -------------------------------------------------------------------------------------------------------------- shares


@pytest.mark.parametrize("stage", [1, 2])
def test_stages_1_and_2_share_what_the_optimizer_has(prove, stage):
    world = prove(zero(stage), model=SMALL)[1]
    whole = sum(sizes(SMALL))
    part = 2 * math.ceil(whole / (2 * RANKS))
    found = check(world, "world-shares")
    assert found.expected == {"parameters": whole, "master weights": part, "exp_avg": part, "exp_avg_sq": part}
    assert (found.status, found.observed, found.adapted) == ("pass", found.expected, False)
    assert (world.model, world.parameter_count) == ("full-size Llama", whole)
    assert world.held[0]["parameters"] == Held(whole, 2 * whole)
    assert world.held[0]["gradients"].elements == (whole if stage == 1 else part)


def test_stage_3_shares_each_weight(prove):
    world = prove(zero(3), model=SMALL)[1]
    part = sum(math.ceil(size / RANKS) for size in sizes(SMALL))
    found = check(world, "world-shares")
    assert found.status == "pass"
    assert found.observed == {
        "parameters": part, "master weights": part, "exp_avg": part, "exp_avg_sq": part,
        "parameters that stay whole": sum(sizes(SMALL)),
    }  # fmt: skip


def test_the_trainer_shares_weights_with_and_without_decay_apart(prove):
    config = {"train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 2}}
    arguments = {"bf16": True, "per_device_train_batch_size": 4}
    trained, world = prove(config, model=SMALL, stack="trainer", arguments=arguments)
    assert trained.status == world.status == "pass"
    assert check(world, "world").observed == 4 * RANKS
    norms = SMALL["hidden_size"] * (2 * SMALL["num_hidden_layers"] + 1)
    groups = (sum(sizes(SMALL)) - norms, norms)
    part = sum(2 * math.ceil(group / (2 * RANKS)) for group in groups)
    assert check(world, "world-shares").observed["master weights"] == part


@pytest.mark.long
def test_persistence_is_that_of_the_real_weights(prove):
    def kept_whole(**more):
        world = prove(zero(3, **more), model=LLAMA_1B)[1]
        return check(world, "world-shares").observed["parameters that stay whole"]

    norms = LLAMA_1B["hidden_size"] * (2 * LLAMA_1B["num_hidden_layers"] + 1)
    assert kept_whole() == norms
    assert kept_whole(stage3_param_persistence_threshold=0) == 0
    assert kept_whole(stage3_model_persistence_threshold=10_000) == 4 * LLAMA_1B["hidden_size"]


def test_a_rank_that_holds_more_than_its_share_is_caught(prove, pool):
    def unshared(ended):
        for seen in ended.evidence:
            seen.held["exp_avg"] = Held(seen.held["exp_avg"].elements * RANKS, 0)
        return ended

    world = prove(zero(2), model=SMALL, pool=Instead(pool, unshared))[1]
    found = check(world, "world-shares")
    assert (world.status, found.status, found.key) == ("fail", "fail", "zero_optimization.stage")
    assert found.message.startswith("rank 0 of your 1,024 holds ")
    assert " elements of exp_avg, not " in found.message


def test_where_a_section_is_mistyped_the_world_fails_too(prove):
    trained, world = prove({**BASE, "zero_optimizations": {"stage": 3}}, model=LLAMA_1B)
    assert (trained.status, world.status) == ("fail", "fail")
    assert [(one.id, one.status) for one in world.checks] == [("world", "pass"), ("stage", "fail")]


# ------------------------------------------------------------------------------------------------------------ in bytes


def test_bytes_of_a_rank_are_told(prove):
    world = prove(zero(3), model=LLAMA_1B)[1]
    assert check(world, "world-shares").message == (
        "each of your 1,024 ranks holds 16.6 MiB of model states: 2.2 MiB of parameters, 2.0 MiB of gradients "
        "(computed), 4.1 MiB of master weights, 8.2 MiB of optimizer states; "
        "the parameters include 92,160 elements that stay whole"
    )


def test_groups_of_hpz_keep_a_second_copy(prove):
    world = prove(zero(3, zero_hpz_partition_size=8), model=LLAMA_1B)[1]
    assert world.status == "pass"
    assert (
        "137,506,048 elements that zero_hpz_partition_size keeps a second time" in check(world, "world-shares").message
    )


def test_a_model_that_does_not_fit_is_computed(prove, monkeypatch):
    monkeypatch.setattr(real_world, "free_memory", lambda: 4 * GIB)
    world = prove(zero(2), model=LLAMA_1B)[1]
    found = check(world, "world-shares")
    assert (found.status, found.adapted) == ("pass", True)
    assert "(computed: such a rank needs 2.1 GiB, but the limit on this machine is 1.0 GiB)" in found.message
    assert world.held[0]["master weights"].elements == 1_074_266
    assert world.model == "tiny Llama, shapes of the full-size Llama"


def test_without_a_model_the_small_one_is_shared(prove):
    world = prove(zero(3))[1]
    assert check(world, "world-shares").message.endswith("pass --model for the bytes of your model")
    assert world.held == []


PROGRAM = """
import json, os, resource, sys, tempfile, time
os.environ["DS_ACCELERATOR"] = "cpu"
from ds_lint.smoke.records.job import Job
from ds_lint.smoke.rank.run import work
import deepspeed.runtime.zero.stage3
with tempfile.TemporaryDirectory() as folder:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seen = work(Job(folder=folder, **json.loads(sys.argv[1])), 0, print)
    taken = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(json.dumps([str(seen.raised or ""), seen.held, taken]))
"""


@pytest.mark.parametrize(
    ("model", "count", "most"),
    [
        pytest.param(LLAMA_1B, 1_100_048_384, 600 * MIB, marks=pytest.mark.long),
        (LLAMA_7B, 6_738_415_616, 1.5 * GIB),
    ],
)
def test_zero_3_never_allocates_the_model(model, count, most):
    """It would be 2.0 and 12.6 GiB in bf16."""
    assert sum(sizes(model)) == count
    job = {
        "text": json.dumps(zero(3)), "stack": "deepspeed", "model": model, "world_size": RANKS, "mode": FAKE,
        "part": WORLD, "stage": 3, "dtype": "bfloat16", "memory": 4 * GIB, "makes_states": True,
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(job)],
        env=clean_environment() | {"PYTHONPATH": ROOT, "CXX": "false", "CC": "false", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    raised, held, kilobytes = json.loads(done.stdout.splitlines()[-1])
    assert raised == ""
    assert held["exp_avg"][0] == sum(math.ceil(size / RANKS) for size in sizes(model))
    assert kilobytes * 1024 < most


# ------------------------------------------------------------------------------------------------ what is not possible


def test_without_the_private_module_of_torch_it_is_skipped(prove, pool):
    def lacking(ended):
        return Ended([RankEnd(0, "ok", "done")], [Evidence(0, "done", lacks_fake_group=True)])

    (trained,) = prove(zero(1), pool=Instead(pool, lacking))
    assert trained.status == "pass"
    found = check(trained, "world")
    assert found.status == "skip"
    assert "torch.testing._internal.distributed.fake_pg" in found.message


def test_a_rank_sees_that_the_module_is_missing(monkeypatch, tmp_path):
    from ds_lint.smoke.rank import run, simulation

    monkeypatch.setattr(simulation, "FAKE_GROUP", "torch.testing.no_such_package.fake_pg")
    job = Job("{}", "deepspeed", str(tmp_path), world_size=RANKS, mode=FAKE, part=WORLD)
    seen = run.work(job, 0, lambda _phase: None)
    assert seen.lacks_fake_group
    assert seen.raised is None


def test_a_simulation_that_stops_for_another_reason_could_not_be_made(prove, pool):
    def killed(ended):
        ends = [RankEnd(0, "signal", "initialize", "SIGKILL"), *ended.ends[1:]]
        return ended.but(ends=ends, evidence=[None, *ended.evidence[1:]])

    trained, world = prove(zero(1), pool=Instead(pool, killed))
    assert trained.status == "pass"
    assert (world.status, world.checks) == ("error", [])
    assert world.error.startswith("rank 0 was killed by SIGKILL")
    os.remove(world.log)
