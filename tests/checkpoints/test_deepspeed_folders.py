"""Folders of engine.save_checkpoint, whole and broken."""

from __future__ import annotations

import pytest
from saved_folders import archive, engine_files, engine_folder, halve, optimizer_states, write

from ds_lint.checkpoints.kinds import saved_folder
from ds_lint.checkpoints.resumption import answer


def broken(saved):
    return {file.path: file.status for file in saved.files if file.status != "ok"}


def resumes(saved, ranks=None, torch=None):
    given = answer(saved, "ckpt", ranks, torch)
    return given.status, given.why


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_a_whole_folder(tmp_path, stage):
    saved = saved_folder(str(engine_folder(tmp_path, stage)))
    assert (saved.kind, saved.stage, saved.ranks, saved.writer) == ("deepspeed", stage, 2, {"deepspeed": "0.18.2"})
    assert (broken(saved), saved.failures, saved.mistakes, saved.notes) == ({}, [], [], [])
    assert (saved.tensors.elements, saved.tensors.dtypes, saved.tensors.empty) == (64, {"bfloat16": 64}, [])
    assert resumes(saved)[0] == "yes"


@pytest.mark.parametrize(("stage", "status"), [(0, "yes"), (1, "convert"), (2, "convert"), (3, "convert")])
def test_other_ranks_need_a_conversion(tmp_path, stage, status):
    given = answer(saved_folder(str(engine_folder(tmp_path, stage))), "out/ckpt/", 4, None)
    assert given.status == status
    if status == "convert":
        assert "ZeRORuntimeException" in given.why
        folders = "--input_folder out/ckpt/global_step2 --output_folder out/ckpt/global_step2_universal"
        more = "" if stage == 3 else " --inject_missing_state"
        assert given.command == f"python -m deepspeed.checkpoint.ds_to_universal {folders}{more}"


OPTIMIZER = "global_step2/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt"
MODEL = "global_step2/mp_rank_00_model_states.pt"
MODEL_3 = "global_step2/zero_pp_rank_1_mp_rank_00_model_states.pt"
BROKEN = [
    (2, OPTIMIZER, "missing", "FileNotFoundError"),
    (2, OPTIMIZER, "truncated", "OSError: [Errno 22]"),
    (2, OPTIMIZER, "empty", "EOFError"),
    (2, MODEL, "missing", "AssertionError"),
    (2, MODEL, "truncated", "OSError: [Errno 22]"),
    (3, OPTIMIZER, "missing", "FileNotFoundError"),
    (3, MODEL_3, "missing", "AssertionError"),
    (3, MODEL_3, "empty", "EOFError"),
]


@pytest.mark.parametrize(("stage", "name", "status", "raised"), BROKEN)
def test_a_broken_file(tmp_path, stage, name, status, raised):
    path = engine_folder(tmp_path, stage) / name
    {"missing": path.unlink, "truncated": lambda: halve(path), "empty": lambda: path.write_bytes(b"")}[status]()
    saved = saved_folder(str(tmp_path))
    assert (saved.stage, saved.ranks, broken(saved)) == (stage, 2, {name: status})
    status, why = resumes(saved)
    assert status == "no"
    assert name in why
    assert raised in why


def test_bytes_that_changed_are_found_by_their_checksum(tmp_path):
    path = engine_folder(tmp_path, 2) / OPTIMIZER
    data = bytearray(path.read_bytes())
    data[data.index(b"archive/data/1") + 20] ^= 1
    path.write_bytes(data)
    saved = saved_folder(str(tmp_path))
    assert broken(saved) == {OPTIMIZER: "truncated"}
    assert "wrong values load" in saved.failures[0]


def test_without_latest_nothing_is_loaded(tmp_path):
    (engine_folder(tmp_path, 2) / "latest").unlink()
    saved = saved_folder(str(tmp_path))
    assert (saved.stage, saved.ranks, broken(saved)) == (2, 2, {"latest": "missing"})
    assert "returns None" in resumes(saved)[1]


@pytest.mark.parametrize(
    ("text", "file", "status"),
    [(b"global_step9", "global_step9", "missing"), (b"", "latest", "empty"), (b"../../etc", "../../etc", "missing")],
)
def test_latest_that_names_nothing(tmp_path, text, file, status):
    (engine_folder(tmp_path, 2) / "latest").write_bytes(text)
    saved = saved_folder(str(tmp_path))
    assert broken(saved) == {file: status}
    assert resumes(saved)[0] == "no"
    assert "AssertionError without a message" in resumes(saved)[1]


def test_a_tag_of_accelerate_is_loaded_by_its_name(tmp_path):
    (engine_folder(tmp_path, 2, tag="pytorch_model") / "latest").unlink()
    write(tmp_path, {f"random_states_{rank}.pkl": archive({"step": 0}) for rank in range(2)})
    saved = saved_folder(str(tmp_path))
    assert (saved.writer["program"], broken(saved), resumes(saved)[0]) == ("Accelerate", {}, "yes")


def test_the_folder_of_a_tag_itself(tmp_path):
    saved = saved_folder(str(engine_folder(tmp_path, 3) / "global_step2"))
    assert (saved.kind, saved.stage, saved.ranks) == ("deepspeed", 3, 2)
    assert "load_checkpoint() takes the folder above it" in saved.notes[0]


# ------------------------------------------------------------------------------- what loads, and is not what was saved


def test_the_step_of_one_rank(tmp_path):
    other = archive(optimizer_states(2, 2, step=5))
    write(engine_folder(tmp_path, 2), {OPTIMIZER: other})
    saved = saved_folder(str(tmp_path))
    assert (saved.is_whole, resumes(saved)[0]) == (True, "no")
    assert "rank 1 are of another run or step, with optimizer steps 5 instead of 2: nothing raises" in saved.mistakes[0]


def test_weights_of_another_step(tmp_path):
    write(engine_folder(tmp_path, 2), {MODEL: engine_files(2, step=5)[MODEL[13:]]})
    saved = saved_folder(str(tmp_path))
    assert saved.mistakes == [
        "the weights have made 5 steps, and the optimizer's states 2: the files are of two steps, and nothing raises"
    ]


def test_the_partition_of_other_ranks(tmp_path):
    write(engine_folder(tmp_path, 2), {OPTIMIZER: archive(optimizer_states(2, 4))})
    assert "elements of the partition 16 instead of 32: RuntimeError" in saved_folder(str(tmp_path)).mistakes[0]


def test_more_ranks_than_the_checkpoint_has(tmp_path):
    four = {name: data for name, data in engine_files(3, 4).items() if "rank_2_" in name or "rank_3_" in name}
    write(engine_folder(tmp_path, 3), {f"global_step2/{name}": data for name, data in four.items()})
    saved = saved_folder(str(tmp_path))
    assert (saved.ranks, resumes(saved)[0]) == (2, "yes")
    assert "files of rank 2, 3 are from another checkpoint" in resumes(saved)[1]


def test_files_of_another_dtype(tmp_path):
    fp32 = {name: data for name, data in engine_files(2, prefix="").items() if "optim_states" in name}
    write(engine_folder(tmp_path, 2), {f"global_step2/{name}": data for name, data in fp32.items()})
    assert "are from a run in fp16 or fp32, beside those of this one" in saved_folder(str(tmp_path)).notes[0]


def test_weights_that_stage_3_had_partitioned(tmp_path):
    from saved_folders import WEIGHTS, Saved

    empty = {name: Saved((0,), "bfloat16") for name in WEIGHTS}
    saved = saved_folder(str(engine_folder(tmp_path, 2, module=empty)))
    assert saved.tensors.empty == list(WEIGHTS)
    assert "saved from weights that stage 3 had partitioned" in resumes(saved)[1]


# ------------------------------------------------------------------------------------------------------- other engines


def test_a_pipeline(tmp_path):
    files = {}
    for rank in range(2):
        model = engine_files(1, 1, module=None, mp_world_size=2)["mp_rank_00_model_states.pt"]
        files[f"mp_rank_{rank:02d}_model_states.pt"] = model
        name = f"bf16_zero_pp_rank_0_mp_rank_{rank:02d}_optim_states.pt"
        files[name] = archive(optimizer_states(1, 1))
    files |= {f"layer_{layer:02d}-model_states.pt": archive({}) for layer in range(2)}
    write(tmp_path, {f"global_step2/{name}": data for name, data in files.items()} | {"latest": b"global_step2"})
    saved = saved_folder(str(tmp_path))
    assert (saved.ranks, saved.engine.data_ranks, saved.engine.model_ranks, broken(saved)) == (None, 1, 2, {})
    assert resumes(saved, 2)[0] == "yes"
    assert resumes(saved, 4)[0] == "convert"
    assert resumes(saved, 3) == (
        "no",
        "saved by 2 stages of a pipeline, and 3 ranks are not a multiple of them",
    )


def test_a_missing_expert(tmp_path):
    engine_folder(tmp_path, 2, num_experts=[4])
    name = "global_step2/layer_0_expert_{}_mp_rank_00_model_states.pt"
    write(tmp_path, {name.format(expert): archive({}) for expert in (0, 1, 2)})
    saved = saved_folder(str(tmp_path))
    assert broken(saved) == {name.format(3): "missing"}
    write(tmp_path, {name.format(3): archive({})})
    assert resumes(saved_folder(str(tmp_path)), 4)[0] == "no"  # ds_to_universal raises


def test_an_elastic_checkpoint_without_the_step(tmp_path):
    states = {rank: optimizer_states(2, 2, base_optimizer_state=[{"exp_avg": 0}]) for rank in range(2)}
    engine_folder(tmp_path, 2)
    write(tmp_path, {OPTIMIZER.replace("_1_", f"_{rank}_"): archive(one) for rank, one in states.items()})
    assert "KeyError: 'base_optimizer_state_step'" in resumes(saved_folder(str(tmp_path)))[1]


def test_frozen_weights_are_left_out(tmp_path):
    from saved_folders import Named, Saved

    shapes = [{"q.lora_A.weight": Named("torch", "Size", ((2, 2),))}]
    module = {"q.lora_A.weight": Saved((2, 2))}
    more = {"module": module, "param_shapes": shapes, "frozen_param_shapes": None, "frozen_param_fragments": None}
    assert "load_module_strict=False" in resumes(saved_folder(str(engine_folder(tmp_path, 2, **more))))[1]
    write(tmp_path, {"trainer_state.json": b"{}"})  # which loads them so
    assert resumes(saved_folder(str(tmp_path)))[0] == "yes"


@pytest.mark.parametrize(("torch", "status"), [("2.5.1", "yes"), ("2.6.0+cu124", "no"), (None, "yes")])
def test_an_old_release_with_a_new_torch(tmp_path, torch, status):
    saved = saved_folder(str(engine_folder(tmp_path, 2, ds_version="0.14.4")))
    found, why = resumes(saved, torch=torch)
    assert found == status
    assert "weights_only" in why
