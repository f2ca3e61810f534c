"""Universal checkpoints, FSDP, weights, the files of the Trainer, Lightning and Megatron."""

from __future__ import annotations

import json

import pytest
from saved_folders import Saved, archive, engine_folder, fsdp_folder, halve, safetensors, universal_folder, write

from ds_lint.checkpoints.kinds import saved_folder
from ds_lint.checkpoints.resumption import answer

SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
INDEX = json.dumps({"weight_map": {"a": SHARDS[0], "b": SHARDS[1]}}).encode()


def read(path):
    saved = saved_folder(str(path))
    return saved, {file.path: file.status for file in saved.files if file.status != "ok"}


@pytest.mark.parametrize("stage", [2, 3])
def test_a_universal_checkpoint_loads_anywhere(tmp_path, stage):
    saved, broken = read(universal_folder(tmp_path, stage))
    assert (saved.kind, saved.stage, saved.ranks, broken, saved.tensors.elements) == ("universal", stage, None, {}, 64)
    assert {answer(saved, "ckpt", ranks, None).status for ranks in (1, 2, 8)} == {"yes"}


@pytest.mark.parametrize("state", ["fp32", "exp_avg"])
def test_a_universal_checkpoint_without_a_state(tmp_path, state):
    (universal_folder(tmp_path) / f"global_step2/zero/head.weight/{state}.pt").unlink()
    saved, broken = read(tmp_path)
    assert broken == {f"global_step2/zero/head.weight/{state}.pt": "missing"}
    assert "nothing raises" in answer(saved, "ckpt", 2, None).why


def test_a_universal_checkpoint_without_its_latest(tmp_path):
    (universal_folder(tmp_path) / "latest_universal").unlink()
    saved, broken = read(tmp_path)
    assert broken == {"latest_universal": "missing"}
    assert "ValueError: Invalid for universal checkpoint" in answer(saved, "ckpt", 2, None).why


def test_parameters_without_moments_never_had_a_gradient(tmp_path):
    universal_folder(tmp_path)
    write(tmp_path, {"global_step2/zero/frozen.weight/fp32.pt": archive({"param": Saved((2,))})})
    assert read(tmp_path)[1] == {}


def test_both_forms_in_a_folder(tmp_path):
    universal_folder(engine_folder(tmp_path, 3, tag="global_step1"))
    assert read(tmp_path)[0].kind == "deepspeed"
    assert saved_folder(str(tmp_path), is_universal=True).kind == "universal"


# ---------------------------------------------------------------------------------------------------------------- FSDP


def test_fsdp_loads_on_any_ranks(tmp_path):
    saved, broken = read(fsdp_folder(tmp_path))
    assert (saved.kind, saved.ranks, broken, saved.tensors.dtypes) == ("fsdp", 2, {}, {"float32": 64})
    assert answer(saved, "ckpt", 4, None).status == "yes"


@pytest.mark.parametrize("status", ["missing", "truncated", "empty"])
def test_a_shard_of_fsdp(tmp_path, status):
    path = fsdp_folder(tmp_path) / "pytorch_model_fsdp_0/__1_0.distcp"
    {"missing": path.unlink, "truncated": lambda: halve(path), "empty": lambda: path.write_bytes(b"")}[status]()
    saved, broken = read(tmp_path)
    assert broken == {"pytorch_model_fsdp_0/__1_0.distcp": status}
    assert answer(saved, "ckpt", None, None).status == "no"


def test_fsdp_without_metadata(tmp_path):
    (fsdp_folder(tmp_path) / "pytorch_model_fsdp_0/.metadata").unlink()
    assert read(tmp_path)[1] == {"pytorch_model_fsdp_0/.metadata": "missing"}


def test_fsdp_in_one_file(tmp_path):
    files = {"pytorch_model_fsdp.bin": archive({"a": Saved((4,))}), "optimizer.bin": archive({})}
    write(tmp_path, {**files, "random_states_0.pkl": archive({})})
    saved, broken = read(tmp_path)
    assert (saved.kind, saved.ranks, broken, saved.tensors.elements) == ("fsdp", None, {}, 4)
    (tmp_path / "optimizer.bin").unlink()
    assert read(tmp_path)[1] == {"optimizer.bin": "missing"}


# ------------------------------------------------------------------------------------------------------------- weights


def test_weights_alone_say_nothing_of_resuming(tmp_path):
    write(tmp_path, {"model.safetensors": safetensors({"a": (2, 3)})})
    saved, broken = read(tmp_path)
    assert (saved.kind, broken, saved.tensors.elements) == ("safetensors", {}, 6)
    assert answer(saved, "model", None, None) is None
    assert "weights only" in answer(saved, "model", 2, None).why


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (safetensors({"a": (2, 3)})[:-4], "its tensors end at byte"),
        (b"\xff" * 7 + b"\x7f{}", "its header would be"),
        (b"\x02\0\0\0\0\0\0\0[]", "not one of safetensors"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
    ],
)
def test_broken_weights(tmp_path, data, words):
    write(tmp_path, {"model.safetensors": data})
    saved, broken = read(tmp_path)
    assert broken == {"model.safetensors": "truncated"}
    assert words in saved.failures[0]


def test_weights_without_elements(tmp_path):
    write(tmp_path, {"model.safetensors": safetensors({"a": (0,), "b": (0,)})})
    saved, _ = read(tmp_path)
    assert (saved.tensors.empty, saved.is_whole) == (["a", "b"], False)


def test_a_shard_that_the_index_names(tmp_path):
    write(tmp_path, {"model.safetensors.index.json": INDEX, SHARDS[0]: safetensors({"a": (2,)})})
    assert read(tmp_path)[1] == {SHARDS[1]: "missing"}
    write(tmp_path, {SHARDS[1]: safetensors({"c": (2,)})})
    assert "lacks 1 tensors that the index has in it, as b" in read(tmp_path)[0].failures[0]


def test_an_adapter(tmp_path):
    write(tmp_path, {"adapter_config.json": b"{}", "adapter_model.safetensors": safetensors({"lora_A": (2,)})})
    assert read(tmp_path)[0].kind == "peft"
    (tmp_path / "adapter_model.safetensors").unlink()
    assert read(tmp_path)[1] == {"adapter_model.safetensors": "missing"}


# ------------------------------------------------------------------------------------------------------ other programs


def test_the_files_of_the_trainer(tmp_path):
    engine_folder(tmp_path, 2)
    state = {"trainer_state.json": b"{}", "model.safetensors": safetensors({"a": (2,)})}
    write(tmp_path, {**state, **{f"rng_state_{rank}.pth": archive({}) for rank in range(2)}})
    saved, broken = read(tmp_path)
    assert (saved.kind, saved.writer["program"], broken) == ("deepspeed", "Trainer", {})
    halve(tmp_path / "model.safetensors")
    saved, broken = read(tmp_path)
    assert (broken, answer(saved, "ckpt", 2, None).status) == ({"model.safetensors": "truncated"}, "yes")
    (tmp_path / "trainer_state.json").unlink()
    assert "the Trainer raises FileNotFoundError" in answer(read(tmp_path)[0], "ckpt", 2, None).why


def test_the_last_checkpoint_of_a_run(tmp_path):
    for step in (2, 10):
        engine_folder(tmp_path / f"checkpoint-{step}", 2)
    saved, _ = read(tmp_path)
    assert saved.files[0].path == "checkpoint-10/latest"
    assert "checkpoint-10/global_step2" in answer(saved, "out", 4, None).command


def test_lightning(tmp_path):
    value = {"pytorch-lightning_version": "2.5.0", "state_dict": {"a": Saved((4,))}}
    write(tmp_path, {"last.ckpt": archive(value)})
    saved, broken = read(tmp_path)
    assert (saved.kind, saved.writer, broken, saved.tensors.elements) == ("lightning", {"lightning": "2.5.0"}, {}, 4)
    assert answer(saved, "ckpt", 1, None).status == "no"


def test_megatron(tmp_path):
    write(tmp_path, {"latest_checkpointed_iteration.txt": b"10"})
    write(tmp_path, {"iter_0000010/mp_rank_00/model_optim_rng.pt": archive({"model": {"a": Saved((4,))}})})
    saved, broken = read(tmp_path)
    assert (saved.kind, broken, saved.tensors.elements) == ("megatron", {}, 4)
    write(tmp_path, {"latest_checkpointed_iteration.txt": b"20"})
    assert read(tmp_path)[1] == {"iter_0000020": "missing"}


def test_a_folder_of_something_else(tmp_path):
    write(tmp_path, {"README.md": b"hello"})
    assert read(tmp_path)[0].kind == "unknown"
