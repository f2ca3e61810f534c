"""What ranks share of a model beside what ZeRO divides: tensors, stages, sequences and experts."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from linted import config_of_dict

from ds_lint.facts import Facts
from ds_lint.facts.model import Model
from ds_lint.footprint import setup
from ds_lint.footprint.changes import checkpointing, more_ranks, stage_2, stage_3
from ds_lint.footprint.estimate import estimate
from ds_lint.footprint.parallelism import Degrees, degrees
from ds_lint.footprint.pipeline import stages
from ds_lint.footprint.sweep import sweep

LLAMA = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "intermediate_size": 11008,
    "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32, "vocab_size": 32000,
    "tie_word_embeddings": False,
}  # fmt: skip
MIXTRAL = {
    "model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336,
    "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "num_local_experts": 8,
    "num_experts_per_tok": 2, "vocab_size": 32000, "tie_word_embeddings": False,
}  # fmt: skip
PARAMETERS = 6_738_415_616
SCRIPT = "net = PipelineModule(layers=specs, num_stages={}, loss_fn=loss)\ndeepspeed.initialize(model=net)\n"


def config(around=None, *, ranks=8, model=LLAMA, script=None, arguments=None, stage=1, tokens=2048, **more):
    facts = Facts(world_size=ranks)
    facts.model = Model("", model)
    facts.sequence_length = tokens
    linted = {
        "bf16": {"enabled": True},
        "train_micro_batch_size_per_gpu": 1,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}},
        "zero_optimization": {"stage": stage},
        **(around or {}),
        **more,
    }
    found = config_of_dict(linted, stack="deepspeed", facts=facts)
    if script is not None or arguments is not None:
        document = SimpleNamespace(content=script or "", path="train.py")
        launch = SimpleNamespace(arguments=arguments or {}, flags=())
        found.facts.launch = SimpleNamespace(script_document=document, launch=launch, script=None, is_open=False)
    return found


def estimated(*arguments, **named):
    return estimate(setup.of(config(*arguments, **named)))


@pytest.fixture
def launched(monkeypatch, tmp_path, capsys):
    """What the command says of a launch of a script, as JSON."""
    from ds_lint.cli import run

    def described(script, around=None, flags=""):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "config.json").write_text(json.dumps(LLAMA))
        (tmp_path / "train.py").write_text(script)
        (tmp_path / "run.sh").write_text(f"deepspeed --num_gpus 8 train.py --deepspeed_config ds.json {flags}\n")
        linted = {"bf16": {"enabled": True}, "zero_optimization": {"stage": 1}, "train_micro_batch_size_per_gpu": 1}
        (tmp_path / "ds.json").write_text(json.dumps(linted | (around or {})))
        run(["memory", "run.sh", "--model", "config.json", "--sequence-length", "65536", "--output-format", "json"])
        return json.loads(capsys.readouterr().out)

    return described


def tensor_parallel(degree):
    return {"tensor_parallel": {"autotp_size": degree}}


def test_tensor_parallelism_divides_the_layers_and_zero_the_rest():
    found = setup.of(config(tensor_parallel(4)))
    assert found.ranks == 2
    assert found.world == 8
    whole = 32000 * 4096 + 32 * 2 * 4096 + 4096  # the embedding and the norms
    assert found.parameter_count == whole + (PARAMETERS - whole) // 4


def test_each_head_of_keys_stays_on_one_rank():
    found = setup.of(config(tensor_parallel(4), model={**LLAMA, "num_attention_heads": 30, "num_key_value_heads": 5,
                                                       "hidden_size": 3840}))  # fmt: skip
    shapes = {tensor.name: tensor.shape for tensor in found.tensors}
    assert shapes["model.layers.#.self_attn.k_proj.weight"] == (2 * 128, 3840)
    assert shapes["model.layers.#.self_attn.q_proj.weight"] == (12 * 128, 3840)
    assert shapes["model.layers.#.mlp.gate_proj.weight"] == (2752, 3840)


def test_a_preset_divides_the_layers_alone():
    found = setup.of(config({"tensor_parallel": {"autotp_size": 4, "preset_model": "llama"}}))
    assert {tensor.name: tensor.shape for tensor in found.tensors}["lm_head.weight"] == (32000, 4096)
    own = {"tensor_parallel": {"autotp_size": 4, "partition_config": {"layer_specs": []}}}
    assert not setup.of(config(own)).part.is_sure


def test_ranks_that_are_no_multiple_of_a_copy_do_not_start(monkeypatch, tmp_path, capsys):
    from ds_lint.cli import run

    monkeypatch.chdir(tmp_path)
    (tmp_path / "ds.json").write_text(json.dumps(tensor_parallel(3)))
    assert run(["memory", "ds.json", "--parameters", "7B", "--world-size", "8", "--stack", "deepspeed"]) == 2
    assert "8 ranks are not a multiple of the 3 that share a copy of the model" in capsys.readouterr().err


def test_a_head_that_shares_its_weight_is_divided_by_the_vocabulary():
    found = setup.of(config(tensor_parallel(4), model={**LLAMA, "tie_word_embeddings": True}))
    assert found.tensors[0].shape == (8000, 4096)
    assert found.part.logit_ranks == 4


def test_what_the_heads_compute_is_divided_and_hidden_states_are_not():
    alone, shared = (estimated(tensor_parallel(degree)).parts["activations"].gpu.bytes for degree in (0, 4))
    assert alone.likely / 4 < shared.likely < alone.likely / 1.5


def test_ranks_that_share_tensors_count_in_the_batch():
    found = setup.of(config(tensor_parallel(4), train_micro_batch_size_per_gpu=None, train_batch_size=16))
    assert (found.micro_batch, found.accumulation_steps) == (2, 1)


@pytest.mark.parametrize("model_type", ["mixtral", "gpt2"])
def test_a_model_that_deepspeed_does_not_divide_is_named(model_type, monkeypatch, tmp_path, capsys):
    from ds_lint.cli import run

    monkeypatch.chdir(tmp_path)
    config_json = MIXTRAL if model_type == "mixtral" else {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}
    (tmp_path / "config.json").write_text(json.dumps(config_json))
    (tmp_path / "ds.json").write_text(json.dumps(tensor_parallel(2)))
    assert run(["memory", "ds.json", "--model", "config.json", "--world-size", "8", "--stack", "deepspeed"]) == 2
    assert f"does not divide a model of type {model_type}" in capsys.readouterr().err


def test_a_model_that_was_not_measured_counts_whole_and_is_not_refused(monkeypatch, tmp_path, capsys):
    from ds_lint.cli import run

    monkeypatch.chdir(tmp_path)
    (tmp_path / "ds.json").write_text(json.dumps(tensor_parallel(2)))
    assert run(["memory", "ds.json", "--model", "bigcode/starcoder", "--world-size", "8", "--stack", "deepspeed"]) == 0
    assert "not included: what the 2 ranks of a copy of the model divide (it counts whole)" in capsys.readouterr().out


# ----------------------------------------------------------------------------------------------------------- pipelines


@pytest.mark.parametrize(
    ("script", "arguments", "around", "expected"),
    [
        (SCRIPT.format(4), None, None, 4),
        (SCRIPT.format("args.pipeline_stages"), {"pipeline_stages": "2"}, None, 2),
        (SCRIPT.format("args.p") + 'parser.add_argument("--p", type=int, default=8)', None, None, 8),
        (SCRIPT.format('config["pipeline"]["stages"]'), None, {"pipeline": {"stages": 4}}, 4),
        ("model = Net()\n", None, {"pipeline": {"stages": 4}}, 1),  # nothing reads it
        (None, None, {"pipeline": {"stages": 4}}, 4),
        (None, {"pipeline_model_parallel_size": "2", "tensor_model_parallel_size": "2"}, None, 2),
    ],
)
def test_the_stages_of_a_pipeline(script, arguments, around, expected):
    assert degrees(config(around, script=script, arguments=arguments)).stages == expected


def test_what_cannot_be_read_is_named(launched):
    found = launched(SCRIPT.format("stages()"))
    assert found["left_out"][0] == "what `PipelineModule` in train.py splits among ranks"
    assert found["peaks"]["step"]["gpu"]["least"] < found["peaks"]["step"]["gpu"]["likely"] / 8
    assert found["rank"]["parameters"]["elements"]["likely"] == PARAMETERS


def test_a_rank_holds_a_stage_and_zero_divides_its_states():
    found = estimated({"pipeline": {"stages": 4}}, gradient_accumulation_steps=8)
    assert found.setup.ranks == 2
    assert PARAMETERS / 4 < found.rank["parameters"].elements.likely < 1.2 * PARAMETERS / 4
    assert found.rank["master_weights"].elements.likely == pytest.approx(found.setup.parameter_count / 2, rel=1e-6)


def test_the_first_stage_holds_as_many_micro_batches_as_there_are_stages():
    one, many = (
        estimated({"pipeline": {"stages": 4}}, gradient_accumulation_steps=steps, ranks=4) for steps in (1, 16)
    )
    assert one.setup.part.stage.is_last  # which computes the logits
    assert many.setup.part.stage.number == 0
    assert many.parts["activations"].gpu.bytes.likely > 2 * one.parts["activations"].gpu.bytes.likely


def test_stages_are_cut_by_parameters_evenly_or_by_layers():
    parameters = setup.of(config()).tensors
    layers = {
        method: [stage.layers for stage in stages(parameters, LLAMA, Degrees(stages=4, method=method))]
        for method in ("parameters", "uniform", "type:layer")
    }
    assert layers == {"parameters": [8, 8, 8, 8], "uniform": [8, 9, 9, 6], "type:layer": [8, 8, 8, 8]}


def test_an_embedding_that_is_the_head_too_is_on_both_ends():
    tied = {**LLAMA, "tie_word_embeddings": True}
    first, *_, last = stages(setup.of(config(model=tied)).tensors, tied, Degrees(stages=4))
    assert first.tensors[0].name == last.tensors[0].name == "model.embed_tokens.weight"


# ------------------------------------------------------------------------------------------- sequences and experts


def test_an_option_with_a_short_name_is_read(launched):
    option = 'parser.add_argument("-p", "--stages", type=int, default=8)\n'
    assert launched(SCRIPT.format("args.stages") + option)["setup"]["parallelism"]["stages"] == 8
    given = launched(SCRIPT.format("args.stages") + option, flags="-p 4")
    assert given["setup"]["parallelism"]["stages"] == 4


def test_the_groups_of_ulysses_divide_no_model(launched):
    script = "mpu = UlyssesSPAttentionHF.register_with_transformers(name)\ndeepspeed.initialize(model=model, mpu=mpu)\n"
    assert launched(script, {"sequence_parallel_size": 8})["left_out"] == []


def test_a_script_that_divides_sequences_narrows_the_band(launched):
    around = {"sequence_parallel_size": 8}
    script = "UlyssesSPAttentionHF.register_with_transformers(model, 'sdpa', 8, 1)\n"
    open_, sure = (launched(one, around)["rank"]["activations"]["bytes"] for one in ("train()\n", script))
    assert sure["most"] < open_["most"] / 8
    assert sure["likely"] == pytest.approx(open_["likely"], rel=0.01)
    assert estimated(around, stage=3).setup.ranks == 8  # ZeRO divides among all of them


def test_experts_are_divided_and_their_states_shared_by_fewer_ranks():
    shared = {"expert_parallel": {"enabled": True, "autoep_size": 4}}
    alone, divided = (estimated(around, model=MIXTRAL, stage=1) for around in ({}, shared))
    experts = 32 * 8 * 3 * 4096 * 14336
    said = {name: (alone.rank[name].elements.likely, divided.rank[name].elements.likely) for name in alone.rank}
    assert said["parameters"][0] - said["parameters"][1] == experts * 3 // 4
    assert said["master_weights"][0] == pytest.approx(said["master_weights"][1], rel=1e-6)


# ------------------------------------------------------------------------------------ advice, sweeps and other models


def test_more_ranks_are_ranks_of_the_run():
    found = next(more_ranks(setup.of(config(tensor_parallel(4)))))
    assert (found.setup.world, found.setup.ranks, found.words) == (16, 4, "16 ranks on 2 nodes instead of 8")
    assert [one.value for one in found.writes] == [16, 2]


def test_a_pipeline_has_no_row_and_no_advice_of_stages_2_and_3():
    found = setup.of(config({"pipeline": {"stages": 4}}))
    assert {row.stage for row in sweep(found)} == {0, 1}
    assert [*stage_2(found), *stage_3(found)] == []
    assert [write.key for change in checkpointing(found) for write in change.writes] == [
        "PipelineModule(..., activation_checkpoint_interval=1)"
    ]


def test_ranks_share_another_model_as_they_do_the_one_of_the_run():
    found = setup.of(config(tensor_parallel(4)))
    again = setup.with_model(found, setup.of(config()).tensors, LLAMA)
    assert again == found
    whole = setup.with_model(setup.of(config()), found.tensors, LLAMA)
    assert (whole.ranks, whole.saved_count) == (8, found.parameter_count)


def test_tiles_of_the_sequence_may_keep_nothing(launched):
    kept = launched("TiledMLP.patch(model)\n")["rank"]["activations"]["bytes"]
    assert kept["least"] == 0 < kept["likely"]
