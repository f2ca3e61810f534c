"""The environment variables that the extractor finds in sources and in compiled libraries."""

from __future__ import annotations

import zipfile

import pytest

from tools.extract.environment import STORE, extract, extract_wheel, read, write


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("os.environ.get('NCCL_DEBUG', '')", ["NCCL_DEBUG"]),
        ("os.environ['MY_OWN_NAME'] = '1'", ["MY_OWN_NAME"]),
        ("'MY_OWN_NAME' in os.environ", ["MY_OWN_NAME"]),
        ("text = 'MY_OWN_NAME'", []),
        ("parse_flag_from_env('ACCELERATE_DEBUG_MODE')", ["ACCELERATE_DEBUG_MODE"]),
        ("prefix = 'FSDP_'\nos.environ.get(prefix + 'VERSION', '1')", ["FSDP_VERSION"]),
        ("prefix = 'FSDP_'\nos.environ.get(f'{prefix}VERSION')", ["FSDP_VERSION"]),
        ("a = 'HF_'\na = 'DS_'\nf'{a}HOME'", ["DS_HOME", "HF_HOME"]),
        ("'HF_ and more', 'HF_', 'hf_home'", []),
        ("x = 'a' * 3 + 'HF_HOME'", ["HF_HOME"]),
        ("{{ not_python }} = 'HF_HOME' !", []),
    ],
)
def test_names_of_python(tmp_path, source, names):
    (tmp_path / "module.py").write_text(source, encoding="utf-8")
    assert list(extract(tmp_path)["names"]) == names


def test_the_beginning_of_a_name_that_is_put_together(tmp_path):
    (tmp_path / "module.py").write_text("f'ACCELERATE_DYNAMO_{key.upper()}'\nf'HF_{key}'", encoding="utf-8")
    assert list(extract(tmp_path)["beginnings"]) == ["ACCELERATE_DYNAMO_"]


def test_accelerators(tmp_path):
    (tmp_path / "module.py").write_text("SUPPORTED_ACCELERATOR_LIST = ['cuda', 'cpu']", encoding="utf-8")
    assert list(extract(tmp_path)["accelerators"]) == ["cpu", "cuda"]


def test_names_of_a_compiled_library_and_its_headers(tmp_path):
    path = tmp_path / "one.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr(
            "nvidia/nccl/lib/libnccl.so.2", b"\x7fELF\0NCCL_DEBUG\0 NCCL_ALGO=\0xNCCL_NET\0NCCL_IB_HCA\0MY_NAME\0"
        )
        wheel.writestr("torch/include/a.hpp", 'std::vector<std::string> A = {"TORCH_NCCL_BLOCKING_WAIT", "A_NAME"};')
        wheel.writestr("torch/lib/other.so", b"\0NCCL_PROTO\0")
    with zipfile.ZipFile(path) as wheel:
        found = extract_wheel(wheel)
    assert list(found["names"]) == ["NCCL_DEBUG", "NCCL_IB_HCA", "TORCH_NCCL_BLOCKING_WAIT"]


def test_the_store_is_as_the_extractor_writes_it(tmp_path, monkeypatch):
    before = STORE.read_text(encoding="utf-8")
    store = read()
    monkeypatch.setattr("tools.extract.environment.STORE", tmp_path / "environment.json")
    write(store)
    assert (tmp_path / "environment.json").read_text(encoding="utf-8") == before
    assert store["read_on"]
    assert store["documented"].keys() == store["sources"].keys()
    assert store["allocator"]
