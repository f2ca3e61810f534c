"""Files of strangers: nothing is imported or called, and time and memory stay bounded."""

from __future__ import annotations

import os
import pickle
import struct
import zipfile
from io import BytesIO

import pytest
from saved_folders import Named, archive, engine_files, engine_folder, write

from ds_lint.checkpoints import pickled
from ds_lint.checkpoints.folder import is_below
from ds_lint.checkpoints.kinds import saved_folder
from ds_lint.checkpoints.pickled import Call, Global, NotAPickleError, OpcodeAllowance, TooMuchError


def read(data):
    return pickled.read(data, OpcodeAllowance())[0]


class Attack:
    def __reduce__(self):
        return os.system, ("touch attacked",)


def test_nothing_is_called(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    value = read(pickle.dumps(Attack(), 4))
    assert isinstance(value, Call)
    assert value.function == Global(os.system.__module__, "system")
    assert not os.path.exists("attacked")


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_values_of_every_protocol(protocol):
    value = {"a": [1, -2, 2**40, 2.5, None, True, b"x", "é"], "b": ((1,), (), (1, 2, 3, 4)), 3: {}}
    found = read(pickle.dumps(value, protocol))
    if protocol < 3:  # bytes are a call there
        found["a"][6] = b"x"
    assert found == value


def test_a_pickle_that_ends_anywhere():
    data = pickle.dumps({"a": [1, (2, "b")], "c": {"d": 1.5}}, 4)
    for end in range(len(data)):
        with pytest.raises(NotAPickleError):
            read(data[:end])


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x02" + b"N0" * 10 + b"X\xff\xff\xff\x7f.",  # a text of 2 GiB
        b"\x80\x02\x8e" + b"\xff" * 8 + b".",  # bytes of 16 EiB
        b"\x80\x02j\xff\xff\xff\xff.",  # a memo that nothing has set
        b"\x80\x02(t0.",  # an empty stack
        b"\x80\x02NNs.",  # an item of nothing
        b"\xff.",
    ],
)
def test_claims_that_are_not_true(data):
    with pytest.raises(NotAPickleError):
        read(data)


def test_opcodes_are_bounded():
    with pytest.raises(TooMuchError):
        pickled.read(b"N0" * 1000 + b"N.", OpcodeAllowance(100))


def test_nested_tuples_are_no_keys():
    nested = b"\x80\x02)" + b"\x85" * 200_000 + b"q\x00" + b"}h\x00Ns."
    assert list(read(nested).values()) == [None]


def test_a_list_that_has_itself(tmp_path):
    data = b"\x80\x02]q\x00h\x00a."
    file = BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("archive/data.pkl", data)
    write(engine_folder(tmp_path, 2), {"global_step2/mp_rank_00_model_states.pt": file.getvalue()})
    assert saved_folder(str(tmp_path)).stage == 2


@pytest.mark.parametrize(
    "value",
    [2**70, -1, True, "2", 1 << 20_000, [2] * 10, Named("os", "system", ("true",))],
    ids=lambda value: type(value).__name__,
)
def test_numbers_that_no_model_has(tmp_path, value):
    changes = {"dp_world_size": value, "mp_world_size": value, "global_steps": value, "ds_version": value}
    saved = saved_folder(str(engine_folder(tmp_path, 2, **changes)))
    assert saved.ranks in (2, 1)


def test_shapes_that_no_model_has(tmp_path):
    from saved_folders import Saved

    huge = {"a": Saved((0, 2**62, 2**62)), "b": Named("torch._utils", "_rebuild_parameter", (1,))}
    shapes = [{"a": Named("torch", "Size", ((2**62,) * 100,)), "b": "x"}]
    assert saved_folder(str(engine_folder(tmp_path, 3, module=huge, param_shapes=shapes))).kind == "deepspeed"


def test_a_zip_that_claims_more(tmp_path):
    data = bytearray(engine_files(2)["mp_rank_00_model_states.pt"])
    end = data.rindex(b"PK\x05\x06")
    for place, form, claim in ((end + 12, "<I", 2**32 - 1), (end + 16, "<I", 2**32 - 1), (end + 16, "<I", 3)):
        broken = bytearray(data)
        struct.pack_into(form, broken, place, claim)
        write(engine_folder(tmp_path, 2), {"global_step2/mp_rank_00_model_states.pt": bytes(broken)})
        statuses = {file.path: file.status for file in saved_folder(str(tmp_path)).files}
        assert statuses["global_step2/mp_rank_00_model_states.pt"] == "truncated"


def test_a_compressed_pickle_is_read_up_to_a_bound(tmp_path):
    file = BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("archive/data.pkl", b"\x80\x02" + b"N0" * (50 << 20))
    write(engine_folder(tmp_path, 2), {"global_step2/mp_rank_00_model_states.pt": file.getvalue()})
    assert saved_folder(str(tmp_path)).stage == 2


@pytest.mark.parametrize("name", ["latest", "global_step2/mp_rank_00_model_states.pt", "model.safetensors"])
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on this system")
def test_a_pipe_is_not_opened(tmp_path, name):
    engine_folder(tmp_path, 2)
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    assert not saved_folder(str(tmp_path)).is_whole


def test_links_in_a_circle(tmp_path):
    engine_folder(tmp_path, 2)
    (tmp_path / "global_step2" / "again").symlink_to("..")
    (tmp_path / "up").symlink_to(".")
    (tmp_path / "itself").symlink_to("itself")
    assert saved_folder(str(tmp_path)).is_whole


def test_links_to_files_elsewhere_are_followed(tmp_path):
    """As in the cache of the Hub."""
    data = engine_folder(tmp_path / "a", 2) / "global_step2" / "mp_rank_00_model_states.pt"
    moved = data.rename(tmp_path / "blob")
    data.symlink_to(moved)
    assert saved_folder(str(tmp_path / "a")).is_whole


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/etc/passwd", "a\0b", "..", "x" * 5000])
def test_names_that_lead_out(name):
    assert not is_below(name)


def test_an_index_that_leads_out(tmp_path):
    index = b'{"weight_map": {"a": "/etc/passwd", "b": "../secret.safetensors", "c": "d.bin"}}'
    write(tmp_path, {"model.safetensors.index.json": index, "d.bin": archive({})})
    statuses = {file.path: file.status for file in saved_folder(str(tmp_path)).files}
    assert statuses["/etc/passwd"] == statuses["../secret.safetensors"] == "missing"


def test_json_of_any_depth(tmp_path):
    write(tmp_path, {"model.safetensors.index.json": b"[" * 100_000, "config.json": b"{" * 100})
    assert not saved_folder(str(tmp_path)).is_whole
