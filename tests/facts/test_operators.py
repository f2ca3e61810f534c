"""DeepSpeed's ops, read from a package that has the builders of a release in small."""

from __future__ import annotations

import pytest
from command_line import write_into

from ds_lint.facts.machine import operators
from ds_lint.facts.machine.driver import DeviceKind, GpuDriver
from ds_lint.facts.machine.operators import Surrounding, ops
from ds_lint.facts.machine.toolkit import BuildTools, Toolkit
from ds_lint.facts.machine.torch_build import TorchBuild

BUILDER = '''\
cuda_minor_mismatch_ok = {11: ["11.7", "11.8"], 12: ["12.1", "12.4"]}

class OpBuilder(ABC):
    def is_compatible(self, verbose=False):
        """
        Check if all non-python dependencies are satisfied to build this op
        """
        return True

class CUDAOpBuilder(OpBuilder):
    def is_compatible(self, verbose=False):
        return super().is_compatible(verbose)
'''
FUSED_ADAM = """\
class FusedAdamBuilder(CUDAOpBuilder):
    BUILD_VAR = "DS_BUILD_FUSED_ADAM"
    NAME = "fused_adam"

    def absolute_name(self):
        return f'deepspeed.ops.adam.{self.NAME}_op'
"""
ASYNC_IO = """\
class AsyncIOBuilder(CUDAOpBuilder):
    NAME = "async_io"

    def absolute_name(self):
        return f'deepspeed.ops.aio.{self.NAME}_op'

    def is_compatible(self, verbose=False):
        aio_compatible = self.has_function('io_submit', ('aio', ))
        return super().is_compatible(verbose) and aio_compatible
"""
FP_QUANTIZER = """\
class FPQuantizerBuilder(CUDAOpBuilder):
    NAME = "fp_quantizer"

    def is_compatible(self, verbose=False):
        if not self.is_rocm_pytorch() and torch.cuda.is_available():
            sys_cuda_major, _ = installed_cuda_version()
            cuda_capability = self.cuda_capability_major()
            if cuda_capability is not None and cuda_capability < 8:
                cuda_okay = False
        return super().is_compatible(verbose) and cuda_okay
"""
SPARSE_ATTN = """\
class SparseAttnBuilder(CUDAOpBuilder):
    NAME = "sparse_attn"

    def is_compatible(self, verbose=False):
        import triton
        return super().is_compatible(verbose) and triton.__version__ == '1.0.0'
"""
CPU_ADAM = """\
from deepspeed.ops.op_builder.fused_adam import FusedAdamBuilder

class CPUAdamBuilder(CPUOpBuilder):
    NAME = "cpu_adam"
"""
NVCC = Toolkit("/cuda", "CUDA_HOME", "12.4.131", has_compiler=True)
A100 = GpuDriver((DeviceKind("A100", "81920", (8, 0), 8),), "550.54", "12.4")
T4 = GpuDriver((DeviceKind("T4", "15360", (7, 5), 1),), "550.54", "12.4")
NO_GPU = GpuDriver(problem="there is no nvidia-smi on PATH")
TOOLS = BuildTools("/usr/bin/c++", "12", "/usr/bin/ninja")
TORCH = TorchBuild("2.6.0+cu124", "12.4", None)
ON_GPU = Surrounding(NVCC, TOOLS, A100, TORCH)
ON_CPU = Surrounding(None, TOOLS, NO_GPU, TorchBuild("2.6.0+cpu", None, None))


@pytest.fixture(autouse=True)
def variables(monkeypatch):
    for name in ("DS_ACCELERATOR", "DS_IGNORE_CUDA_DETECTION", "DS_SKIP_CUDA_CHECK", "LDFLAGS", "CFLAGS",
                 "LIBRARY_PATH", "CONDA_PREFIX"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def package(tmp_path):
    folder = "deepspeed/ops/op_builder"
    texts = {
        "builder": BUILDER, "fused_adam": FUSED_ADAM, "async_io": ASYNC_IO, "fp_quantizer": FP_QUANTIZER,
        "sparse_attn": SPARSE_ATTN, "cpu/cpu_adam": CPU_ADAM,
    }  # fmt: skip
    write_into(tmp_path)({f"{folder}/{name}.py": text for name, text in texts.items()})
    return tmp_path


def answers(found):
    return {op.name: (op.is_installed, op.is_compatible) for op in found.ops}


def whys(found):
    return {op.name: op.why for op in found.ops}


def test_a_builder_without_a_question_is_compatible(package):
    found = ops([str(package)], ON_GPU)
    assert found.accelerator == "cuda"
    assert answers(found)["fused_adam"] == (False, True)


def test_a_question_that_is_not_recognized_is_open(package):
    found = ops([str(package)], ON_GPU)
    assert answers(found)["sparse_attn"] == (False, None)
    assert whys(found)["sparse_attn"] == "asks what only an import of torch answers"


@pytest.mark.parametrize(
    ("around", "answer", "why"),
    [
        (ON_GPU, True, ""),
        (ON_GPU._replace(driver=T4), False, "needs compute capability 8.0"),
        (ON_GPU._replace(toolkit=None), False, "there is no CUDA toolkit with nvcc"),
        (ON_GPU._replace(toolkit=NVCC._replace(has_compiler=False)), False, "there is no CUDA toolkit with nvcc"),
        (ON_GPU._replace(toolkit=NVCC._replace(release="10.2")), False, "needs CUDA 11"),
        (ON_GPU._replace(toolkit=NVCC._replace(release=None)), None, "the release of the CUDA toolkit is not known"),
        (ON_GPU._replace(driver=NO_GPU), None, "depends on whether torch sees a GPU"),
        (ON_GPU._replace(torch=None), None, "torch is not installed here, or not as a release"),
    ],
)
def test_ops_for_newer_gpus(package, around, answer, why):
    found = ops([str(package)], around)
    assert (answers(found)["fp_quantizer"][1], whys(found)["fp_quantizer"]) == (answer, why)


def test_async_io_needs_libaio(package, tmp_path, monkeypatch):
    monkeypatch.setattr(operators, "_library_folders", lambda: [str(tmp_path)])
    assert answers(ops([str(package)], ON_GPU))["async_io"] == (False, False)
    own = ON_GPU._replace(tools=TOOLS._replace(compiler="/opt/conda/bin/c++"))  # which may look elsewhere
    assert answers(ops([str(package)], own))["async_io"] == (False, None)
    assert answers(ops([str(package)], ON_GPU._replace(tools=BuildTools(None, None, None))))["async_io"][1] is False
    (tmp_path / "libaio.so").touch()
    assert answers(ops([str(package)], ON_GPU))["async_io"] == (False, True)


def test_the_folders_of_a_linker_are_those_of_its_variables(tmp_path, monkeypatch):
    monkeypatch.setenv("LDFLAGS", f"-L{tmp_path} -lm")
    monkeypatch.setenv("LIBRARY_PATH", "/some/lib:/other/lib")
    folders = list(operators._library_folders())
    assert {str(tmp_path), "/some/lib", "/other/lib", "/usr/lib"} <= set(folders)


def test_each_accelerator_has_builders_of_its_own(package):
    found = ops([str(package)], ON_CPU)
    assert found.accelerator == "cpu"
    assert list(answers(found)) == ["fused_adam", "cpu_adam"]  # the first is taken from the folder above


def test_an_accelerator_may_be_named(package, monkeypatch):
    monkeypatch.setenv("DS_ACCELERATOR", "cpu")
    assert ops([str(package)], ON_GPU).accelerator == "cpu"


def test_what_was_installed_is_a_file(package):
    library = package / "deepspeed" / "ops" / "adam" / "fused_adam_op.cpython-310-x86_64-linux-gnu.so"
    written = (
        "version='0.16.9'\ninstalled_ops={'fused_adam': True, 'async_io': False}\naccelerator_name='cuda'\n"
        "torch_info={'version': '2.6', 'bf16_support': True, 'cuda_version': '12.4', 'hip_version': '0.0'}\n"
    )
    write_into(package)({"deepspeed/git_version_info_installed.py": written})
    assert answers(ops([str(package)], ON_GPU))["fused_adam"][0] is False  # it is written, and the file is lost
    library.parent.mkdir()
    library.touch()
    found = ops([str(package)], ON_GPU)
    assert answers(found)["fused_adam"][0] is True
    assert found.built_with == {"version": "2.6", "cuda_version": "12.4"}
    assert answers(ops([str(package)], ON_CPU))["fused_adam"][0] is False  # it is of another accelerator


@pytest.mark.parametrize(
    ("around", "words"),
    [
        (ON_GPU, None),
        (ON_CPU, None),
        (ON_GPU._replace(toolkit=NVCC._replace(release="12.1.66")), "CUDA toolkit 12.1 beside torch with CUDA 12.4 is"),
        (
            ON_GPU._replace(toolkit=NVCC._replace(release="11.8.89")),
            "DeepSpeed refuses to compile ops: CUDA toolkit 11.8",
        ),
        (ON_GPU._replace(toolkit=None), "ops are compiled for the CPU"),
        (ON_GPU._replace(tools=TOOLS._replace(ninja=None)), "there is no ninja"),
        (ON_GPU._replace(tools=TOOLS._replace(compiler=None)), "there is no C++ compiler"),
    ],
)
def test_what_becomes_of_an_op_that_is_compiled_at_run_time(package, around, words):
    found = ops([str(package)], around).compilation
    assert found is None if words is None else words in found


def test_a_mismatch_may_be_skipped(package, monkeypatch):
    monkeypatch.setenv("DS_SKIP_CUDA_CHECK", "1")
    around = ON_GPU._replace(toolkit=NVCC._replace(release="11.8.89"))
    assert ops([str(package)], around).compilation.endswith("because of DS_SKIP_CUDA_CHECK=1")


def test_without_deepspeed_nothing_is_known(tmp_path):
    found = ops([str(tmp_path)], ON_GPU)
    assert (found.ops, found.problem) == ((), "DeepSpeed is not installed here")
