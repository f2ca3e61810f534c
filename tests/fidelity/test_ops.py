"""The stand-ins of compiled ops, each through the optimizer class of DeepSpeed that calls it."""

from __future__ import annotations

import fractions
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from installed import INSTALLED, measured_with_the_newest

pytest.importorskip("deepspeed")

import torch
from deepspeed.ops import op_builder
from deepspeed.ops.adagrad import DeepSpeedCPUAdagrad
from deepspeed.ops.adam import DeepSpeedCPUAdam, FusedAdam
from deepspeed.ops.lamb import FusedLamb
from deepspeed.ops.lion import DeepSpeedCPULion, FusedLion
from deepspeed.ops.op_builder import CPUAdamBuilder
from deepspeed.ops.op_builder.builder import OpBuilder
from deepspeed.ops.op_builder.cpu import NotImplementedBuilder
from ranks import run

from ds_lint.smoke.standins import ops
from ds_lint.smoke.standins.kernels import functions_of

pytestmark = pytest.mark.fidelity

ROOT = Path(__file__).parent.parent.parent
BUILT = Path(os.environ.get("TORCH_EXTENSIONS_DIR", Path.home() / ".cache" / "torch_extensions"))
STEPS = 5
TYPES = [torch.float32, torch.bfloat16]
ADAM = {"lr": 1e-2, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.1}
LION = {"lr": 1e-2, "betas": (0.8, 0.95), "weight_decay": 0.1}
ADAGRAD = {"lr": 1e-2, "eps": 1e-6, "weight_decay": 0.1}


@pytest.fixture(autouse=True)
def without_a_compiler(monkeypatch, tmp_path):
    """Stand-ins are installed; a compiler would fail, and what it built would be seen."""
    monkeypatch.setenv("CC", "/bin/false")
    monkeypatch.setenv("CXX", "/bin/false")
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "extensions"))
    monkeypatch.setattr(OpBuilder, "_loaded_ops", {}, raising=False)
    monkeypatch.setattr(sys, "_deepspeed_pin_memory_op_module", None, raising=False)  # DeepSpeed's own cache
    monkeypatch.setattr(OpBuilder, "jit_load", OpBuilder.jit_load)  # restores them afterwards
    monkeypatch.setattr(NotImplementedBuilder, "load", NotImplementedBuilder.load)
    ops.install(builds=False)
    yield
    assert not (tmp_path / "extensions").exists()


def test_claims_about_gpus_replace_what_compiles_once():
    """In a process of its own, because it is not taken back."""
    code = (
        "from deepspeed.ops.op_builder.builder import OpBuilder; from tools.gpu.claimed import kernels; "
        "compiles = OpBuilder.jit_load; kernels.provide('cpu'); kernels.provide('cpu'); "
        "assert OpBuilder._compiles is compiles"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


# ----------------------------------------------------------------------------------------------------- the optimizers


def train(make, kind):
    """Parameters after some steps, and the gradients of each step."""
    torch.manual_seed(0)
    parameters = [torch.nn.Parameter(torch.randn(shape).to(kind)) for shape in ((7, 3), (5,))]
    start = [parameter.detach().float().clone() for parameter in parameters]
    gradients = [[torch.randn(parameter.shape).to(kind) for parameter in parameters] for _ in range(STEPS)]
    optimizer = make(parameters)
    for of_step in gradients:
        for parameter, gradient in zip(parameters, of_step, strict=True):
            parameter.grad = gradient.clone()
        optimizer.step()
    return [parameter.detach().float() for parameter in parameters], start, gradients


def assert_agrees(make, formula, kind, *, states):
    """Hold the optimizer to a formula of one step, which gets and gives float32; types round between the steps."""
    trained, start, gradients = train(make, kind)
    for place, expected in enumerate(trained):
        found = start[place]
        memory = [torch.zeros_like(found), torch.zeros_like(found)]
        for step, of_step in enumerate(gradients, start=1):
            found, *memory = formula(step, found, of_step[place].float(), *memory)
            found = found.to(kind).float()
            memory = [tensor.to(states).float() for tensor in memory]
        # In bf16 a difference in the last bit of float32 may round to the neighbour.
        assert torch.allclose(found, expected, rtol=torch.finfo(kind).eps, atol=1e-6)


def adam(is_decoupled, corrects_bias=True):
    (beta1, beta2), lr, eps, decay = ADAM["betas"], ADAM["lr"], ADAM["eps"], ADAM["weight_decay"]

    def formula(step, p, g, m, v):
        g = g if is_decoupled else g + decay * p
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g**2
        c1, c2 = (1 - beta1**step, 1 - beta2**step) if corrects_bias else (1, 1)
        update = (m / c1) / ((v / c2).sqrt() + eps) + (decay * p if is_decoupled else 0)
        return p - lr * update, m, v

    return formula


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("is_decoupled", [True, False])
@pytest.mark.parametrize("corrects_bias", [True, False])
def test_fused_adam(is_decoupled, corrects_bias, kind):
    def make(parameters):
        return FusedAdam(parameters, adam_w_mode=is_decoupled, bias_correction=corrects_bias, **ADAM)

    assert_agrees(make, adam(is_decoupled, corrects_bias), kind, states=kind)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("is_decoupled", [True, False])
@pytest.mark.parametrize("corrects_bias", [True, False])
def test_cpu_adam(is_decoupled, corrects_bias, kind):
    def make(parameters):
        return DeepSpeedCPUAdam(parameters, adamw_mode=is_decoupled, bias_correction=corrects_bias, **ADAM)

    assert_agrees(make, adam(is_decoupled, corrects_bias), kind, states=torch.float32)


@pytest.mark.parametrize("ours", [FusedAdam, DeepSpeedCPUAdam])
def test_adam_is_that_of_torch(ours):
    trained, *_ = train(lambda parameters: ours(parameters, **ADAM), torch.float32)
    expected, *_ = train(lambda parameters: torch.optim.AdamW(parameters, **ADAM), torch.float32)
    for one, other in zip(trained, expected, strict=True):
        assert torch.allclose(one, other, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("ours", [FusedLion, DeepSpeedCPULion])
def test_lion(ours, kind):
    beta1, beta2 = LION["betas"]

    def formula(step, p, g, m, v):
        p = p * (1 - LION["lr"] * LION["weight_decay"])
        return p - LION["lr"] * (beta1 * m + (1 - beta1) * g).sign(), beta2 * m + (1 - beta2) * g, v

    states = kind if ours is FusedLion else torch.float32
    assert_agrees(lambda parameters: ours(parameters, **LION), formula, kind, states=states)


@pytest.mark.parametrize("kind", TYPES)
def test_cpu_adagrad(kind):
    def formula(step, p, g, m, v):
        g = g + ADAGRAD["weight_decay"] * p
        v = v + g**2
        return p - ADAGRAD["lr"] * g / (v.sqrt() + ADAGRAD["eps"]), m, v

    assert_agrees(lambda parameters: DeepSpeedCPUAdagrad(parameters, **ADAGRAD), formula, kind, states=torch.float32)


@pytest.mark.parametrize("eps_inside_sqrt", [True, False])
def test_fused_lamb(eps_inside_sqrt):
    (beta1, beta2), lr, eps, decay = ADAM["betas"], ADAM["lr"], ADAM["eps"], ADAM["weight_decay"]

    def formula(step, p, g, m, v):
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g**2
        update = m / ((v + eps).sqrt() if eps_inside_sqrt else v.sqrt() + eps) + decay * p
        ratio = (p.norm() / update.norm()).clamp(0.01, 0.3)
        return p - lr * (1 - beta2**step) ** 0.5 / (1 - beta1**step) * ratio * update, m, v

    def make(parameters):
        return FusedLamb(parameters, eps_inside_sqrt=eps_inside_sqrt, max_coeff=0.3, min_coeff=0.01, **ADAM)

    assert_agrees(make, formula, torch.float32, states=torch.float32)


def test_fused_lamb_writes_the_half_precision_parameters():
    master, half = torch.nn.Parameter(torch.randn(8)), torch.zeros(8, dtype=torch.float16)
    optimizer = FusedLamb([master], lr=1e-2)
    optimizer.step(grads=[torch.ones(8, dtype=torch.float16)], output_params=[half])
    assert torch.equal(half, master.detach().half())
    assert len(optimizer.get_lamb_coeffs()) == 1


def test_fused_lamb_has_no_kernel_for_bf16():
    parameter = torch.nn.Parameter(torch.randn(8, dtype=torch.bfloat16))
    parameter.grad = torch.ones_like(parameter)
    with pytest.raises(RuntimeError, match="not implemented for"):
        FusedLamb([parameter]).step()


def test_a_step_of_cpu_adam_can_be_rolled_back():
    parameter = torch.nn.Parameter(torch.randn(8))
    optimizer = DeepSpeedCPUAdam([parameter], **ADAM)
    kernel = optimizer.ds_opt_adam
    gradient, momentum, variance = torch.randn(8), torch.randn(8), torch.rand(8)
    before = [tensor.clone() for tensor in (parameter.data, momentum, variance)]
    arguments = (0, 3, 1e-2, 0.8, 0.95, 1e-6, 0.1, True, parameter.data, gradient, momentum, variance)
    assert kernel.adam_update(optimizer.opt_id, *arguments[1:]) == 0
    assert not torch.allclose(parameter.data, before[0])
    assert kernel.adam_rollback(optimizer.opt_id, *arguments[1:]) == 0
    for tensor, old in zip((parameter.data, momentum, variance), before, strict=True):
        assert torch.allclose(tensor, old, atol=1e-5)


def test_types_that_the_kernel_does_not_know():
    parameter = torch.nn.Parameter(torch.randn(8, dtype=torch.float64))
    parameter.grad = torch.ones_like(parameter)
    with pytest.raises(RuntimeError, match="Adam optimizer with param type"):
        DeepSpeedCPUAdam([parameter]).step()


def test_numbers_that_no_run_survives_raise_nothing_either():
    for extreme in ({"betas": (1.0, 1.0)}, {"betas": (-1.0, 2.0)}, {"lr": 1e300}, {"eps": float("nan")}):
        trained, *_ = train(lambda parameters, extreme=extreme: FusedAdam(parameters, **extreme), torch.float32)
        assert not trained[0].isfinite().all()


# ----------------------------------------------------------------------------------------------------- the built kernel


def built(name):
    found = next(iter(sorted([*BUILT.glob(f"{name}/{name}.so"), *BUILT.glob(f"*cpu/{name}/{name}.so")])), None)
    if found is None:
        pytest.skip(f"{name} is not built")
    spec = importlib.util.spec_from_file_location(name, found)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("is_decoupled", [True, False])
def test_the_stand_in_computes_what_the_built_cpu_adam_computes(is_decoupled, kind):
    kernels = [built("cpu_adam"), CPUAdamBuilder().load()]
    torch.manual_seed(0)
    tensors = [torch.randn(1000).to(kind), torch.zeros(1000), torch.zeros(1000)]
    results = [[tensor.clone() for tensor in tensors] for _ in kernels]
    for kernel in kernels:
        kernel.create_adam(7, 1e-2, 0.8, 0.95, 1e-6, 0.1, is_decoupled, False)
    for step in range(1, STEPS + 1):
        gradient = torch.randn(1000).to(kind)
        for kernel, (parameter, momentum, variance) in zip(kernels, results, strict=True):
            kernel.adam_update(
                7, step, 1e-2, 0.8, 0.95, 1e-6, 0.1, True, parameter, gradient.clone(), momentum, variance
            )
    for one, other in zip(*results, strict=True):
        assert torch.allclose(one.float(), other.float(), rtol=torch.finfo(one.dtype).eps * 8, atol=1e-6)


class Index:
    def __index__(self) -> int:
        return 1


# 1 and 0 are the only integers: a real op indexes arrays with some of its arguments.
VALUES = [
    *(
        1,
        0,
        True,
        False,
        None,
        0.5,
        -1.0,
        1e300,
        float("nan"),
        2**31,
        2**64,
        10**400,
        "3e-5",
        "1",
        "true",
        "",
        b"1",
        bytearray(b"1"),
    ),
    *(
        [],
        [0.9],
        (0.9, 0.99),
        {},
        1j,
        fractions.Fraction(1, 2),
        Index(),
        object(),
        torch.tensor(1.0),
        torch.tensor([1.0, 2.0]),
    ),
]


def takes(function, arguments):
    try:
        function(*arguments)
    except TypeError as error:
        assert "incompatible function arguments" in str(error)
        return False
    return True


@pytest.mark.parametrize("op", ["fused_adam", "cpu_adam", "cpu_adagrad", "cpu_lion"])
def test_stand_ins_take_what_the_built_ops_take(op):
    real, ours = built(op), ops.stand_in(op)
    good = {"int": 1, "size": 1, "float": 0.5, "bool": True}
    for name, (signature, _) in functions_of(op).items():
        kinds = signature.split()
        if name.startswith(("destroy", "adam_rollback")):
            continue  # they come last, and take nothing from a config
        for position, kind in enumerate(kinds):
            for value in VALUES if kind in good else []:
                arguments = [
                    torch.zeros(4) if k == "tensor" else [[]] * 4 if k == "tensors" else good[k] for k in kinds
                ]
                arguments[position] = value
                if name.endswith("_update") and position == 0:
                    continue  # the number of an optimizer that was created: the real op crashes on others
                assert takes(getattr(ours, name), arguments) == takes(getattr(real, name), arguments), (
                    f"{name} argument {position} ({kind}): {value!r}"
                )


# ----------------------------------------------------------------------------------------------------- memory and files


@pytest.fixture
def handle():
    module = op_builder.AsyncIOBuilder().load()
    return module.aio_handle(
        block_size=4096, queue_depth=8, single_submit=False, overlap_events=True, intra_op_parallelism=2
    )


def test_async_io_writes_and_reads_files(handle, tmp_path):
    path = str(tmp_path / "tensor.swp")
    tensor = torch.arange(1024, dtype=torch.bfloat16).reshape(32, 32)
    assert handle.async_pwrite(tensor, path) == 0
    assert handle.wait() == 1
    assert os.path.getsize(path) == tensor.nbytes
    found = torch.zeros_like(tensor)
    assert handle.async_pread(found, path) == 0
    assert handle.wait() == 1
    assert torch.equal(found, tensor)
    assert handle.wait() == 0


def test_async_io_writes_in_the_middle(handle, tmp_path):
    path = str(tmp_path / "tensor.swp")
    assert handle.sync_pwrite(torch.zeros(8), path) == 1
    with open(path, "r+b") as file:
        assert handle.async_pwrite(torch.ones(4), file.fileno(), 8) == 0
        handle.wait()
    found = torch.empty(8)
    assert handle.sync_pread(found, path) == 1
    assert found.tolist() == [0, 0, 1, 1, 1, 1, 0, 0]
    assert handle.pread(found[:4], path, False, False, 16) == 1
    assert found.tolist()[:4] == [1, 1, 0, 0]


def test_async_io_says_what_it_cannot_do(handle, tmp_path):
    assert handle.async_pwrite(torch.zeros(3, dtype=torch.uint8), str(tmp_path / "odd")) == -1
    assert handle.async_pread(torch.zeros(2), str(tmp_path / "missing")) == -1
    assert handle.async_pwrite(torch.zeros(2), str(tmp_path / "missing" / "file")) == -1
    handle.sync_pwrite(torch.zeros(2), str(tmp_path / "short"))
    with pytest.raises(RuntimeError, match="were asked for"):
        handle.sync_pread(torch.zeros(4), str(tmp_path / "short"))


def test_locked_memory_is_known_to_all_handles(handle):
    builder = getattr(op_builder, "PinMemoryBuilder", None)
    pins = builder().load().pin_handle() if builder else handle  # older releases lock memory for files only
    locked = pins.new_cpu_locked_tensor(16, torch.zeros(1, dtype=torch.float16))
    assert (locked.dtype, locked.numel()) == (torch.float16, 16)
    assert handle.is_pinned(locked[4:8])
    assert not handle.is_pinned(torch.zeros(4))
    assert pins.free_cpu_locked_tensor(locked)
    assert not handle.is_pinned(locked)
    assert not pins.free_cpu_locked_tensor(locked)


@pytest.mark.skipif(not hasattr(op_builder, "UtilsBuilder"), reason="older releases have no fast writer of checkpoints")
@pytest.mark.parametrize("double_buffer", [True, False])
def test_the_fast_writer_of_checkpoints_writes_them(handle, tmp_path, double_buffer):
    from deepspeed.io import FastFileWriter, FastFileWriterConfig

    path = str(tmp_path / "states.pt")
    states = {"weight": torch.randn(3000), "step": 7}
    memory = handle.new_cpu_locked_tensor(8192, torch.empty(1, dtype=torch.uint8))
    writer = FastFileWriter(path, FastFileWriterConfig(handle, memory, double_buffer))
    torch.save(states, f=writer, _use_new_zipfile_serialization=False)
    writer.close()
    found = torch.load(path)
    assert torch.equal(found["weight"], states["weight"])
    assert found["step"] == 7


@measured_with_the_newest  # older releases ask whether memory is locked, which takes a GPU
def test_optimizer_states_go_to_files(tmp_path):
    done = run("nvme_states", str(tmp_path / "drive"), ranks=1)
    assert done.is_complete, done.errors
    answer = done.answers[0]
    assert answer["optimizer"] == "DeepSpeedCPUAdam"
    assert {"cpu_adam", "async_io"} <= set(answer["used"])
    assert answer["files"].count(1024 * 512 * 4) == 4  # master weights, gradients and both states of Adam
    assert answer["losses"] == pytest.approx(answer["expected"], rel=1e-4)


# ------------------------------------------------------------------------------------------------------ what is missing


def test_what_nothing_stands_for_is_said(monkeypatch):
    monkeypatch.setattr(CPUAdamBuilder, "NAME", "deep_compile")
    builder = CPUAdamBuilder()
    with pytest.raises(ops.NoStandIn, match="compiled op deep_compile: --smoke-build-ops builds it"):
        builder.load()


def test_a_part_that_nothing_stands_for_is_said():
    with pytest.raises(ops.NoStandIn, match="zenflow_adam_create of DeepSpeed's compiled op cpu_adam: --smoke-build"):
        CPUAdamBuilder().load().zenflow_adam_create(0, [])


def test_gpu_ops_are_told_apart():
    with pytest.raises(ops.NoStandIn, match="compiled op quantizer: it runs on a GPU only"):
        op_builder.QuantizerBuilder().load()
    assert op_builder.FusedLambBuilder().load().lamb
    assert "fused_lamb" in ops.used()


def test_installed_ops_are_taken(monkeypatch):
    import deepspeed.git_version_info
    from deepspeed.accelerator import get_accelerator

    monkeypatch.setitem(deepspeed.git_version_info.installed_ops, "cpu_adam", True)
    monkeypatch.setattr(deepspeed.git_version_info, "accelerator_name", get_accelerator()._name)
    monkeypatch.setattr(OpBuilder, "validate_torch_version", lambda *_: None)
    assert "cpu_adam" not in ops.install(builds=False)
    with pytest.raises(ModuleNotFoundError, match="cpu_adam_op"):  # it is not really there
        CPUAdamBuilder().load()


def test_who_builds_gets_no_stand_in(monkeypatch):
    monkeypatch.setattr(OpBuilder, "jit_load", lambda builder, verbose=True: "compiled")
    assert ops.install(builds=True) == []
    assert CPUAdamBuilder().load() == "compiled"


@pytest.mark.long
def test_an_op_for_the_cpu_is_built_and_trains(tmp_path, monkeypatch):
    """``--smoke-build-ops``: a build asks which instructions the processor has."""
    from ds_lint.facts import Facts
    from ds_lint.smoke.processes.client import Pool
    from ds_lint.smoke.small_run.options import RunOptions
    from ds_lint.smoke.small_run.proof import prove
    from ds_lint.source import documents

    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    config = {
        "train_micro_batch_size_per_gpu": 2,
        "bf16": {"enabled": True},
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
    }
    with Pool() as pool:
        (verdict,) = prove(
            pool,
            documents.from_dict(config),
            stack="deepspeed",
            facts=Facts(),
            target=INSTALLED,
            options=RunOptions(builds_ops=True, simulates=False),
        )
    bad = [one.message for one in verdict.checks if one.status not in ("pass", "skip")]
    assert (verdict.status, verdict.error, bad) == ("pass", None, [])
    assert [one.before for one in verdict.adaptations if one.after == "torch operations"] == []
    assert (tmp_path / "cpu_adam" / "cpu_adam.so").exists()
