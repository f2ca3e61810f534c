"""The model states that ds-lint says one rank holds are those of the real engine, to the element and the byte.

The engine counts by its storages (programs/held.py). GPU and host are compared together, because without a GPU they are
one: which of them a state lies on follows from the source.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from installed import measured_with_the_newest

pytest.importorskip("peft")
pytest.importorskip("deepspeed")

from holdings import MODELS, Case, differences, is_exact, measure, measure_most, setup_of

from ds_lint.footprint import gradients, parameters, partition, states
from ds_lint.footprint.band import exactly, total

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]

CPU = {"device": "cpu"}
OPTIMIZER, BOTH = {"offload_optimizer": CPU}, {"offload_optimizer": CPU, "offload_param": CPU}
IN_FULL = {"data_types": {"grad_accum_dtype": "fp32"}}
MUON = {"reduce_scatter": False}
MASTERS = {"bf16_master_weights_and_grads": True}
LORA = {"r": 3, "lora_alpha": 6, "target_modules": ["q_proj", "v_proj"]}
# Within zero.Init transformers cannot initialise these: they set one row of an embedding, or look at a shape.
WHOLE = ("bert", "opt", "gemma", "paligemma", "cohere", "olmo2")


def case(model: str, stage: int, ranks: int, **more) -> Case:
    return Case(model, stage, ranks, zero_init=model not in WHOLE, **more)


USUAL = [
    case("llama", 0, 8),
    case("gpt2", 1, 3),
    case("t5", 2, 5, accumulation_steps=2),
    case("qwen3_moe", 3, 2),
    case("deepseek_v3", 3, 1024),
    case("gemma", 2, 4, zero=OPTIMIZER, accumulation_steps=2),
    case("bloom", 1, 8, dtype="fp16"),
    case("bert", 2, 3, dtype="fp32"),
    case("mixtral", 3, 8, zero={"zero_hpz_partition_size": 4, "stage3_param_persistence_threshold": 500}),
    case("opt", 3, 3, zero=BOTH),
    case("phi", 3, 5, lora=LORA),
    case("paligemma", 1, 1024),
]
ZERO_INFINITY = case("wide", 3, 2, zero={"offload_optimizer": {"device": "nvme", "buffer_count": 5}})
SWAPPED_WEIGHTS = case("wide", 3, 2, zero={"offload_param": {"device": "nvme", "buffer_size": 2_000_000}})
OTHERS = [
    *(
        case(model, stage, ranks)
        for model, (stage, ranks) in itertools.product(
            [name for name in MODELS if name != "wide"], [(0, 2), (1, 2), (2, 1024), (3, 3), (3, 1024)]
        )
    ),
    *(case("gpt2", stage, ranks) for stage in (0, 1, 2, 3) for ranks in (1, 64, 512)),
    *(case("qwen3_moe", stage, 5, dtype=dtype) for stage in (0, 1, 2, 3) for dtype in ("fp16", "fp32")),
    *(case("t5", stage, 3, accumulation_steps=3) for stage in (0, 1, 2, 3)),
    *(case("llama", stage, 3, zero=OPTIMIZER, accumulation_steps=steps) for stage in (1, 2, 3) for steps in (1, 2)),
    *(case("t5", stage, 8, zero=OPTIMIZER, dtype=dtype) for stage in (1, 2, 3) for dtype in ("fp16", "fp32")),
    *(case(model, 3, 5, zero=BOTH, accumulation_steps=2) for model in ("gpt2", "mixtral", "bloom")),
    case("llama", 3, 5, zero={"offload_param": CPU, "stage3_param_persistence_threshold": 500}),
    *(
        case("deepseek_v3", 3, 3, zero={f"stage3_{key}_persistence_threshold": n for key, n in limits.items()})
        for limits in ({"param": 0}, {"param": 50}, {"param": 1000}, {"param": 1000, "model": 3000}, {"model": 5000})
    ),
    *(case("llama", 3, 8, zero={"zero_hpz_partition_size": size}) for size in (2, 4, 8)),
    case("llama", 3, 8, lora=LORA, zero={"zero_hpz_partition_size": 2, "stage3_param_persistence_threshold": 500}),
    case("llama", 3, 8, zero={"zero_hpz_partition_size": 2, **BOTH}),
    *(case("llama", stage, 3, lora=LORA, accumulation_steps=2) for stage in (0, 1, 2, 3)),
    *(case("phi", stage, 1024, lora=LORA) for stage in (1, 2, 3)),
    *(case("opt", stage, 3, lora=LORA, zero=OPTIMIZER) for stage in (1, 2, 3)),
    case("llama", 3, 3, lora=LORA, zero=BOTH),
    *(case("llama", stage, 3, config=IN_FULL, accumulation_steps=2) for stage in (1, 2, 3)),
    *(case("llama", stage, 3, config=IN_FULL, zero=OPTIMIZER, accumulation_steps=2) for stage in (2, 3)),
    *(
        case("gpt2", stage, 3, zero=OPTIMIZER, accumulation_steps=2, config={"bf16": MASTERS})
        for stage in (1, 2, 3)
    ),
    *(
        case(
            "gpt2", stage, 3, zero=zero, accumulation_steps=2,
            config={"bf16": {**MASTERS, "bf16_optimizer_states": True}},
        )
        for stage in (2, 3)
        for zero in ({}, OPTIMIZER)
    ),
    *(
        case("gpt2", stage, 3, dtype="fp16", zero=OPTIMIZER, config={"fp16": {"fp16_master_weights_and_grads": True}})
        for stage in (2, 3)
    ),
    *(case("bloom", 3, 3, config={"communication_data_type": "fp32"}, dtype=dtype) for dtype in ("bf16", "fp16")),
    *(case("t5", stage, 3, zero={"overlap_comm": True}, accumulation_steps=2) for stage in (1, 2)),
    *(case("t5", stage, 3, zero={"contiguous_gradients": False}) for stage in (1, 2, 3)),
    *(case("llama", stage, 5, zero={"round_robin_gradients": True}) for stage in (1, 2)),
    *(case("phi", stage, 3, zero={"parameter_alignment": True}) for stage in (1, 2)),
    *(case("llama", 3, 3, zero={"sub_group_size": 3000, "offload_optimizer": {**CPU, "ratio": r}}) for r in (0.0, 0.4)),
    *(case(model, stage, 3, by_trainer=True) for model in ("gpt2", "bert", "t5") for stage in (1, 2, 3)),
    *(case("gpt2", stage, 3, optimizer=name) for stage in (0, 1, 3) for name in ("Adagrad", "Lion", "RMSprop")),
    *(case("gpt2", stage, 3, optimizer=name, zero=OPTIMIZER) for stage in (1, 3) for name in ("Adagrad", "Lion")),
    case("opt", 3, 3, optimizer="Adagrad"),
    *(case("phi", stage, 3, optimizer="SGD", parameters={"lr": 0.1, "momentum": 0.9}) for stage in (0, 2, 3)),
    *(case("phi", stage, 3, optimizer="AdamW", parameters={"lr": 0.1, "torch_adam": True}) for stage in (0, 2, 3)),
    *(case("bloom", stage, 3, optimizer="Adafactor") for stage in (1, 3)),
    *(case(model, stage, 3, optimizer="Muon", zero=MUON) for model in ("llama", "t5") for stage in (0, 1, 2, 3)),
    ZERO_INFINITY,
    ZERO_INFINITY._replace(zero={**ZERO_INFINITY.zero, "sub_group_size": 400_000}),
    SWAPPED_WEIGHTS,
    SWAPPED_WEIGHTS._replace(zero={**SWAPPED_WEIGHTS.zero, **ZERO_INFINITY.zero}),
]  # fmt: skip


def words(one: Case) -> str:
    return repr([value for value, usual in zip(one, Case("", -1, 0), strict=True) if value != usual])


def check(one: Case, folder: Path) -> None:
    swapped = {name: {**one.zero[name], "nvme_path": str(folder)} for name in one.zero if uses_nvme(one, name)}
    named, held = measure_most(one._replace(zero={**one.zero, **swapped}))
    assert differences(named, held) == []
    assert is_exact(named, held) or uses_nvme(one, "offload_optimizer") or one.optimizer == "Muon"
    written = sum(path.stat().st_size for path in folder.rglob("*.tensor.swp"))
    assert total([kind.nvme.bytes for kind in states.of(setup_of(one, held.tensors)).values()]) == exactly(written)


def uses_nvme(one: Case, section: str) -> bool:
    return section.startswith("offload") and one.zero.get(section, {}).get("device") == "nvme"


@pytest.mark.parametrize("one", USUAL, ids=words)
def test_states_of_usual_runs(one, tmp_path):
    check(one, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("one", OTHERS, ids=words)
def test_states(one, tmp_path):
    check(one, tmp_path)


@pytest.mark.parametrize(
    ("module", "function", "wrong", "one"),
    [
        (partition, "part", lambda size, ranks: size // ranks, USUAL[4]),
        (gradients, "touched", lambda setup, **_: partition.share(setup), USUAL[1]),
        (parameters, "persistent", lambda setup: [], USUAL[3]),
    ],
)
def test_a_wrong_formula_is_seen(monkeypatch, module, function, wrong, one):
    held = measure(one)
    assert differences(one, held) == [] or module is gradients  # of rank 0, which need not hold most
    monkeypatch.setattr(module, function, wrong)
    assert differences(*measure_most(one))


@pytest.mark.long
@pytest.mark.parametrize("stage", [1, 2])
@pytest.mark.parametrize("model", ["gpt2", "mixtral"])
def test_no_rank_holds_more(model, stage):
    held = {}
    for rank in range(5):
        one = case(model, stage, 5, rank=rank)
        held[rank] = sum(measure(one).elements("gradients").values())
    setup = setup_of(one, measure(one).tensors)
    assert max(held.values()) == partition.touched(setup) == held[partition.holds_most(setup)]
    assert len(set(held.values())) > 1
