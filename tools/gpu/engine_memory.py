"""What one rank takes of a GPU in each phase of a training run, and what it takes before it has any tensor.

The functions are called in a fork each (``forks.py``), and ``card`` tells what was on the card before it had a context.
A model is made from its config, on the GPU and in the dtype of the run. Nothing is compiled: ops are taken as they were
built, and where one was not, Adam computes with the kernel of torch, which like the real one makes no tensors.
"""

from __future__ import annotations

import gc
import importlib.util
import math
import os
import tempfile
from typing import TYPE_CHECKING, Any

import torch

from ds_lint.smoke.standins import device as of_device
from ds_lint.smoke.standins import kernels, ops
from tools.gpu import builds
from tools.gpu.card import Before, of, own, resident
from tools.gpu.memory_setups import CHECKPOINT, LEFT_OUT, OUT_OF_MEMORY, PHASES, WEIGHTS
from tools.gpu.setting import MEASURED, OPS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from tools.gpu.setting import Result

_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
_LONGEST = 1000  # characters of an error
_SIDE = 2048  # of a matrix: large enough for the kernels of training


class Meter:
    """Reads what this process takes of the card.

    ``allocated`` and ``reserved`` are what torch's allocator has now, ``peak_allocated`` and ``peak_reserved`` the most
    since the last reading; ``process`` and ``device`` are what the driver says now, with the context and all libraries.
    """

    def __init__(self, card: Result) -> None:
        self._rehearses: bool = card["rehearses"]
        self._before = Before(*card["before"])
        self._card = of(card["gpu"], rehearses=self._rehearses)
        self.device = "cpu" if self._rehearses else "cuda"
        if not self._rehearses:
            torch.cuda.init()  # which a fork has behind it, and a process that takes its place has not
            torch.cuda.reset_peak_memory_stats()

    def read(self) -> Result:
        """The figures, in bytes; the peaks begin again."""
        gc.collect()
        if self._rehearses:
            names = ("peak_allocated", "peak_reserved", "allocated", "reserved")
            return {**dict.fromkeys(names, resident()), **self._own()}
        torch.cuda.synchronize()
        found = {
            "peak_allocated": torch.cuda.max_memory_allocated(),
            "peak_reserved": torch.cuda.max_memory_reserved(),
            "allocated": torch.cuda.memory_allocated(),
            "reserved": torch.cuda.memory_reserved(),
            **self._own(),
        }
        torch.cuda.reset_peak_memory_stats()
        return found

    def workspaces(self) -> int:
        """What the matrix libraries have taken of torch's allocator, which counts it among the tensors."""
        if self._rehearses:
            return 0
        before = torch.cuda.memory_allocated()
        torch._C._cuda_clearCublasWorkspaces()  # noqa: SLF001 - torch has no public word for it
        return int(before - torch.cuda.memory_allocated())

    def _own(self) -> Result:
        return own(self._card, self._before)


# ------------------------------------------------------------------------------------------------------ by themselves


def context(card: Result) -> Result:
    """The context of CUDA, with one kernel of torch."""
    meter = Meter(card)
    _begin(meter)
    return {"context": meter.read()}


def matrices(card: Result) -> Result:
    """The first layer that is computed forward and backward, in two dtypes one after the other.

    The backward pass has a thread, and so a workspace, of its own.
    """
    meter = Meter(card)
    _begin(meter)
    found = {"context": meter.read()}
    for dtype in ("bf16", "fp32"):
        layer = torch.nn.Linear(_SIDE, _SIDE, device=meter.device, dtype=_DTYPES[dtype])
        layer(torch.ones(_SIDE, _SIDE, device=meter.device, dtype=_DTYPES[dtype], requires_grad=True)).sum().backward()
        del layer
        found[dtype] = meter.read()
    return {**found, "workspaces": meter.workspaces()}


def communication(card: Result) -> Result:
    """NCCL with a group of one rank, after a collective. What a rank takes for each peer, one rank does not show."""
    meter = Meter(card)
    _begin(meter)
    before = meter.read()
    torch.distributed.init_process_group("gloo" if card["rehearses"] else "nccl", rank=0, world_size=1)
    numbers = torch.ones(2**20, device=meter.device)
    torch.distributed.all_reduce(numbers)
    return {"ranks": 1, "context": before, "after": meter.read()}


def _begin(meter: Meter) -> None:
    torch.ones(1, device=meter.device).add_(1)


# ---------------------------------------------------------------------------------------------------------- a whole run


def measure(card: Result, run: Result) -> Result:
    """Two steps and a save of a ``run``: its config, its model, and how that is trained.

    What does not fit says how far it came. With ``most_reserved``, torch may reserve so many bytes.
    """
    meter = Meter(card)
    if not card["rehearses"]:
        if "most_reserved" in run:
            whole = torch.cuda.get_device_properties(0).total_memory
            torch.cuda.set_per_process_memory_fraction(run["most_reserved"] / whole)
        torch.set_num_threads(os.cpu_count() or 1)  # a step of Adam on the CPU has nothing else to wait for
    found: Result = {"adam": _take_ops(), "observed": {}}
    phases = _phases(run, meter.device, found)
    try:
        for phase in phases:
            found["observed"][phase] = meter.read()
    except torch.OutOfMemoryError as error:
        failed = list(PHASES)[len(found["observed"])]
        return {"status": OUT_OF_MEMORY, **found, "phase": failed, "at": meter.read(), "error": str(error)[:_LONGEST]}
    return {"status": MEASURED, **found, "workspaces": meter.workspaces()}


def _phases(run: Result, device: str, found: Result) -> Iterator[str]:
    """The run, which stops after each phase."""
    import deepspeed

    if device == "cpu":
        of_device.stand_in_of_deepspeed()
    deepspeed.init_distributed(verbose=False)
    torch.manual_seed(0)
    model = _model(run, device)
    engine = deepspeed.initialize(model=model, model_parameters=_trained(model), config=run["config"])[0]
    found["engine_parameters"] = sum(getattr(one, "ds_numel", one.numel()) for one in engine.module.parameters())
    yield "initialization"
    found["loss"] = []
    for phase in ("first step", "second step"):
        found["loss"].append(_step(engine, run, device))
        yield phase
    found["skipped_steps"] = engine.skipped_steps
    if run["saves"] != LEFT_OUT:
        with tempfile.TemporaryDirectory(dir=run["folder"]) as folder:
            _save(engine, run["saves"], folder)
        yield "saving"


def _model(run: Result, device: str) -> Any:
    import deepspeed
    import transformers

    config = transformers.AutoConfig.for_model(**run["model"])
    config.use_cache = False
    made_there = deepspeed.zero.Init(config_dict_or_path=run["config"]) if run["stage"] == 3 else torch.device(device)
    with made_there:
        model = transformers.AutoModelForCausalLM.from_config(
            config, dtype=_DTYPES[run["dtype"]], attn_implementation=run["attention"]
        )
    if run["is_checkpointed"]:
        model.gradient_checkpointing_enable()
    if run["adapters"]:
        import peft

        model.enable_input_require_grads()
        model = peft.get_peft_model(model, peft.LoraConfig(r=run["adapters"], task_type="CAUSAL_LM"))
    return model.train()


def _trained(model: Any) -> list[Any]:
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def _step(engine: Any, run: Result, device: str) -> float | None:
    """The micro batches of one step, each of other tokens: the last loss, None if it is not finite."""
    loss = math.nan
    for _ in range(engine.gradient_accumulation_steps()):
        shape = run["micro_batch"], run["sequence_length"]
        tokens = torch.randint(2, run["model"]["vocab_size"], shape, device=device)
        loss = engine(input_ids=tokens, labels=tokens).loss
        engine.backward(loss)
        engine.step()
    return round(float(loss), 4) if math.isfinite(loss) else None


def _save(engine: Any, what: str, folder: str) -> None:
    if what == CHECKPOINT:
        engine.save_checkpoint(folder, tag="measured")
    elif what == WEIGHTS:
        engine.save_16bit_model(folder)


# ----------------------------------------------------------------------------------------------------------------- ops


def _take_ops() -> dict[str, str]:
    """Let DeepSpeed load each op as it was built, or else a stand-in: which of both, by op, as they are loaded."""
    from deepspeed.ops.op_builder.builder import OpBuilder

    ops.install(builds=False)
    usual, loaded = OpBuilder.jit_load, {}
    with_temporaries = kernels._adam  # noqa: SLF001 - what stands in for the kernels

    def load(builder: Any, verbose: bool = True) -> Any:
        built = _built(builder.name)
        loaded[builder.name] = "torch" if built is None else "built"
        return usual(builder, verbose) if built is None else built

    def adam(*tensors: Any, **given: Any) -> None:
        if not _fused(*tensors, **given):
            loaded["with temporaries"] = "torch"
            with_temporaries(*tensors, **given)

    OpBuilder.jit_load = load
    vars(kernels)["_adam"] = adam
    return loaded


def _built(op: str) -> ModuleType | None:
    """An op that ``builds.py`` has built; torch would look whether it has to be built again, which takes seconds."""
    folder = os.environ.get(OPS, "")
    if not builds.is_built(folder, op):
        return None
    spec = importlib.util.spec_from_file_location(op, os.path.join(folder, op, f"{op}.so"))
    assert spec is not None  # noqa: S101 - it is a library
    assert spec.loader is not None  # noqa: S101
    try:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    except ImportError:  # half a build
        return None
    return module


def _fused(
    *tensors: Any, step: int, rate: Any, beta1: Any, beta2: Any, epsilon: Any, decay: Any, corrects_bias: bool,
    is_decoupled: bool,
) -> bool:  # fmt: skip
    """Adam with the kernel of torch, which has one dtype for all; False if that is not the case."""
    if len({(one.dtype, one.device) for one in tensors}) > 1 or not (corrects_bias and is_decoupled):
        return False
    count = torch.tensor(float(step), device=tensors[0].device)
    torch._fused_adamw_(  # as torch.optim.AdamW calls it
        *([one] for one in tensors), [], [count], lr=float(rate), beta1=float(beta1), beta2=float(beta2),
        weight_decay=float(decay), eps=float(epsilon), amsgrad=False, maximize=False,
    )  # fmt: skip
    return True
