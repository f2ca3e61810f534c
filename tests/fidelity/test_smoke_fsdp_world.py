"""The user's real number of ranks is simulated with FSDP: the shares of a model in its full size."""

from __future__ import annotations

import json
import math

import pytest
import yaml
from installed import INSTALLED, measured_with_the_newest

from ds_lint.diagnostics.verdict import CPU, FAKE, Held
from ds_lint.facts import Sources
from ds_lint.facts.readers import gather
from ds_lint.smoke.records.fsdp import FsdpHolding, ParameterShard
from ds_lint.smoke.records.job import WORLD
from ds_lint.smoke.small_run import proof
from ds_lint.smoke.small_run.options import RunOptions
from ds_lint.source import documents

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]

RANKS = 1024
LAYERS = {"fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP", "fsdp_state_dict_type": "FULL_STATE_DICT"}
LLAMA = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "tie_word_embeddings": False, "vocab_size": 32000,
    "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 32,
}  # fmt: skip
MIXTRAL = LLAMA | {
    "model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "intermediate_size": 14336,
    "num_key_value_heads": 8, "num_local_experts": 8,
}  # fmt: skip
LAYER = [(4096, 4096)] * 4 + [(11008, 4096)] * 2 + [(4096, 11008)] + [(4096,)] * 2
OUTSIDE = [(32000, 4096), (4096,), (32000, 4096)]


@pytest.fixture
def prove(pool, tmp_path):
    def prove(version, *, ranks=RANKS, model=None, pool=pool, more=None, **settings):
        content = {
            "distributed_type": "FSDP",
            "num_processes": ranks,
            "mixed_precision": "bf16",
            "fsdp_config": {"fsdp_version": version, **LAYERS, **settings},
            **(more or {}),
        }
        if model is not None:
            (tmp_path / "config.json").write_text(json.dumps(model))
        return proof.prove(
            pool,
            documents.from_bytes(yaml.safe_dump(content).encode(), "accelerate.yaml"),
            stack="accelerate",
            facts=gather(Sources(model=str(tmp_path) if model is not None else None)),
            target=INSTALLED,
            options=RunOptions(),
        )

    return prove


class Instead:
    """The warm process, with a change of what the last simulated rank shows."""

    def __init__(self, pool, change):
        self.folder, self.known_versions, self.keep_log = pool.folder, pool.known_versions, pool.keep_log
        self._pool, self._change = pool, change

    def run(self, jobs, on_phase=None):
        ended = self._pool.run(jobs, on_phase)
        for job, one in zip(jobs, ended, strict=True):
            if job.part == WORLD:
                self._change(one.seen[-1].fsdp)
        return ended


def shares(verdict):
    (found,) = verdict.checks
    assert found.id == "world-shares"
    return found


def test_rows_are_divided_among_all_ranks(prove):
    """Of 32,000 rows, 1,000 ranks have 32 each, and the last 24 ranks none, for which they store 32 all the same."""
    trained, world = prove(2, model=LLAMA)
    assert (trained.mode, trained.world_size, trained.status) == (CPU, 2, "pass")
    assert (world.mode, world.world_size, world.status, world.strategy) == (FAKE, RANKS, "pass", "fsdp2")
    kept = sum(math.ceil(shape[0] / RANKS) * math.prod(shape[1:]) for shape in LAYER * 32 + OUTSIDE)
    assert shares(world).observed == dict.fromkeys(["parameters", "exp_avg", "exp_avg_sq"], kept)
    assert world.held == [{kind: Held(kept, 4 * kept) for kind in ("parameters", "gradients", "exp_avg", "exp_avg_sq")}]
    assert "rank 0 of your 1,024 ranks holds 101.5 MiB of model states: " in shares(world).message
    assert [rank.rank for rank in world.ranks] == [0, RANKS - 1]


@pytest.mark.long
@pytest.mark.parametrize(
    ("settings", "ranks", "divisor"),
    [
        ({}, RANKS, RANKS),
        ({"fsdp_use_orig_params": False}, RANKS, RANKS),
        ({"fsdp_sharding_strategy": "SHARD_GRAD_OP"}, 48, 48),
        ({"fsdp_sharding_strategy": "HYBRID_SHARD"}, RANKS, 8),
        ({"fsdp_sharding_strategy": "NO_SHARD"}, 16, 1),
        ({"fsdp_auto_wrap_policy": "SIZE_BASED_WRAP"}, 24, 24),
        ({"fsdp_cpu_ram_efficient_loading": True, "fsdp_sync_module_states": True}, 40, 40),
        ({"fsdp_offload_params": True}, 40, 40),
    ],
)
def test_flat_parameters_are_cut_into_equal_parts(prove, settings, ranks, divisor):
    _, world = prove(1, ranks=ranks, model=LLAMA, **settings)
    whole = sum(math.prod(shape) for shape in LAYER * 32 + OUTSIDE)
    assert (world.status, world.error) == ("pass", None)
    assert 0 <= shares(world).observed["parameters"] - whole / divisor < 34 * 8  # units, with what pads each


@pytest.mark.long
def test_ranks_of_one_node_share_a_copy_by_degrees(prove):
    degrees = {"parallelism_config_dp_replicate_size": 1, "parallelism_config_dp_shard_size": 2}
    _, world = prove(2, more={"parallelism_config": degrees})
    (found,) = world.checks
    assert (found.id, found.status, found.key) == ("world", "fail", "parallelism_config")
    assert "ParallelismConfig total_size (2) does not match num_processes (1024)" in found.message


@pytest.mark.long
def test_experts_have_as_many_rows_as_there_are_experts(prove):
    """fully_shard divides the first dimension, in which a layer of Mixtral has its 8 experts since transformers 5."""
    _, world = prove(2, ranks=64, model=MIXTRAL)
    experts = 32 * 3 * 4096 * 14336
    assert experts < shares(world).observed["parameters"] < 1.05 * experts
    assert "; the last rank holds " in shares(world).message


def keep_a_unit_whole(seen):
    unit = seen.holding.units[0]
    seen.holding = seen.holding._replace(units=(unit._replace(stored=2 * unit.stored), *seen.holding.units[1:]))


def take_the_first_part(seen):
    unit = seen.holding.units[0]
    seen.holding = seen.holding._replace(units=(unit._replace(place=0), *seen.holding.units[1:]))


def divide_by_two(seen):
    unit = seen.holding.units[0]
    seen.holding = seen.holding._replace(units=(unit._replace(ranks=2), *seen.holding.units[1:]))


def shard_nothing(seen):
    seen.holding = FsdpHolding("fsdp2", (), (ParameterShard("norm", (4,), 0, 4, "float32", "cpu"),), ())


def keep_whole_states(seen):
    seen.states["exp_avg"] = Held(24736, 4 * 24736)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (keep_a_unit_whole, "rank 15 keeps 256 elements of the unit model.embed_tokens, but its share on 16 ranks is"),
        pytest.param(take_the_first_part, "rank 15 has part 0 of", marks=pytest.mark.long),
        pytest.param(divide_by_two, "2 ranks divide the unit", marks=pytest.mark.long),
        pytest.param(shard_nothing, "rank 15 of your 16 keeps norm whole, in no unit", marks=pytest.mark.long),
        pytest.param(keep_whole_states, "holds 24,736 elements of exp_avg", marks=pytest.mark.long),
    ],
)
def test_a_rank_that_keeps_another_share_fails(prove, pool, change, words):
    trained, world = prove(2, ranks=16, pool=Instead(pool, change))
    assert (trained.status, world.status) == ("pass", "fail")
    assert words in shares(world).message


def test_no_world_without_more_ranks_than_the_run_has(prove):
    assert len(prove(2, ranks=2)) == 1
