"""What the states of a model take at the least, by ZeRO stage and offload.

Lower bounds: what is not known counts as nothing, activations and buffers do not count at all. The bytes of each number
are those of https://arxiv.org/abs/1910.02054 (section 3.1): weights and gradients in 16 bit, and for Adam a 32-bit copy
of the weights with two states. With offload, gradients lie on the host in 32 bit (``initialize_optimizer_states`` in
deepspeed/runtime/zero/stage3.py and stage_1_and_2.py), at stage 3 also in 16 bit (``grad_partitions_flat_buffer``).
``beside`` is what page-locked memory takes more than it holds, and an allowance for each process.
"""

from __future__ import annotations

from ds_lint.semantics.config import once
from ds_lint.semantics.constructors import offloads_optimizer
from ds_lint.semantics.features import is_on, model_dtype, number_of, zero_stage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.semantics.config import Config

GIB = 2**30
_ZERO = "zero_optimization"
WEIGHT = GRADIENT = 2  # bytes
_COPY = 4  # of a weight, in 32 bit
_ADAM = 8  # two states in 32 bit
_TRAINERS_ADAM = ("adamw_hf", "adamw_torch", "adamw_torch_fused")  # of transformers.training_args.OptimizerNames
_PROCESS = (
    2 * GIB
)  # of the host's memory, with torch and CUDA at work: https://github.com/pytorch/pytorch/issues/113326
_SMALLER_STATES = (  # what makes the states smaller than this module assumes
    ("fp16", "fp16_master_weights_and_grads"),
    ("bf16", "bf16_master_weights_and_grads"),
    ("bf16", "bf16_optimizer_states"),
)


class States:
    """Bytes of one GPU and of one node's host memory, by what they hold; ``host`` is None if the nodes are unknown.

    ``host`` is the least. ``beside`` is what page-locked buffers and the processes are likely to take more; 0 where
    that is not known.
    """

    __slots__ = ("beside", "gpu", "host", "parameters")

    def __init__(
        self, parameters: int, gpu: dict[str, float], host: dict[str, float] | None, beside: float = 0.0
    ) -> None:
        self.parameters = parameters
        self.gpu = gpu
        self.host = host
        self.beside = beside


@once
def model_states(config: Config) -> States | None:
    """The states of the model if all of it is trained; None where the facts do not suffice."""
    model, stage = config.facts.model, zero_stage(config)
    if model is None or model.parameter_count is None or stage is None or _is_split_otherwise(config):
        return None
    count = model.parameter_count
    moved = _offloaded_share(config, stage)
    are_weights_moved = stage == 3 and _device(config, "offload_param") in ("cpu", "nvme")
    optimizer = count * _optimizer_bytes(config)
    gpu = {
        "weights": 0.0 if are_weights_moved else _shared(config, count * WEIGHT, partitioned=stage == 3),
        "gradients": 0.0 if moved else _shared(config, count * GRADIENT, partitioned=stage >= 1),
        # Some releases partition what bf16 needs without ZeRO too (deepspeed/runtime/bf16_optimizer.py).
        "optimizer": _shared(config, optimizer * (1 - moved), partitioned=stage >= 1 or model_dtype(config) == "bf16"),
    }
    gradients = count * _host_gradients(config, stage) * moved
    host = _host(config, stage, optimizer * moved, gradients, count * WEIGHT)
    return States(count, gpu, host, _beside(config, model.sizes(), stage) if host else 0.0)


def gibibytes(size: float) -> str:
    """A number of bytes as people read it."""
    return f"{size / GIB:,.0f} GiB" if size >= 10 * GIB else f"{size / GIB:.1f} GiB"


def billions(count: int) -> str:
    """A number of parameters as people say it."""
    return f"{count / 1e9:.3g} billion" if count >= 1e8 else f"{count:,}"


def _shared(config: Config, size: float, *, partitioned: bool) -> float:
    """What one rank holds: a part of what is partitioned, and nothing that is sure where the ranks are unknown."""
    if not partitioned:
        return size
    return size / config.world_size if config.world_size else 0.0


def _nodes(config: Config) -> int | None:
    return 1 if config.world_size == 1 else config.facts.nodes


def _host(config: Config, stage: int, optimizer: float, gradients: float, weights: float) -> dict[str, float] | None:
    """What each node holds: an even share of what is offloaded to the CPU."""
    nodes = _nodes(config)
    if not nodes:
        return None
    is_on_disk = stage == 3 and _device(config, "offload_optimizer") == "nvme"  # below stage 3, nvme means the CPU
    are_weights_here = stage == 3 and _device(config, "offload_param") == "cpu"
    return {
        "optimizer": 0.0 if is_on_disk else optimizer / nodes,
        "gradients": 0.0 if is_on_disk else gradients / nodes,
        "weights": weights / nodes if are_weights_here else 0.0,
    }


def _host_gradients(config: Config, stage: int) -> int:
    """The bytes of each gradient of an offloaded optimizer: in 32 bit, and at stage 3 once more as it is reduced."""
    reduced = GRADIENT if model_dtype(config) != "fp32" else _COPY
    return _COPY + (reduced if stage == 3 else 0)


def _beside(config: Config, sizes: list[int], stage: int) -> float:
    """What a node holds beside the states at the end of deepspeed.initialize: processes, and page-locked buffers.

    ``CachingHostAllocator`` of torch rounds each up to a power of two and keeps what is given back, and a buffer is
    made in ordinary memory before it is copied.
    """
    ranks, nodes = config.world_size, _nodes(config)
    if not sizes or not ranks or not nodes:
        return 0.0
    shares = [-(-size // ranks) for size in sizes]
    width = WEIGHT if model_dtype(config) != "fp32" else _COPY
    more = 0.0
    if stage in (1, 2) and _is_pinned(config, "offload_optimizer"):
        more += _rounding(sum(shares) * _COPY)  # of the gradients, which every release pins
    if stage == 3 and _is_pinned(config, "offload_optimizer"):
        whole = sum(shares)
        more += sum(_rounding(group * _COPY) for group in _sub_groups(config, shares))
        more += _rounding(whole * width) + whole * width  # grad_partitions_flat_buffer, and what it is copied from
    if stage == 3 and _device(config, "offload_param") == "cpu":
        more += _rounding(sum(shares) * width)  # _create_param_groups_fp16_flat_cpu_memory, whatever pin_memory says
        if _is_pinned(config, "offload_param"):  # what each partition lay in before (partition_parameters.py)
            more += sum(_block(share * width) for share in shares)
    return (more + _PROCESS) * (ranks / nodes)


def _sub_groups(config: Config, shares: list[int]) -> list[int]:
    """How many numbers there are in each group that is stepped at once (``_create_fp16_sub_groups`` in stage3.py)."""
    known = config.knowledge.find((_ZERO, "sub_group_size"))
    node = config.node(_ZERO, "sub_group_size")
    most = number_of(node) if node is not None else (known.facts.get("default") if known is not None else None)
    groups, group = [], 0
    for share in shares:
        group += share
        if most is not None and group >= most:
            groups.append(group)
            group = 0
    return [*groups, group] if group else groups


def _is_pinned(config: Config, section: str) -> bool:
    """Whether what a section offloads to the CPU is page-locked, which newer releases do unasked."""
    if _device(config, section) != "cpu":
        return False
    known = config.knowledge.find((_ZERO, section, "pin_memory"))
    given = config.value(_ZERO, section, "pin_memory")
    return given is True or (given is None and known is not None and known.facts.get("default") is True)


def _block(size: int) -> int:
    """The block that torch takes for so many bytes of page-locked memory."""
    return 1 << max(0, size - 1).bit_length()


def _rounding(size: int) -> int:
    return _block(size) - size


def _offloaded_share(config: Config, stage: int) -> float:
    """The share of the optimizer that is not on the GPU."""
    if stage == 0 or not offloads_optimizer(config):
        return 0.0
    ratio = config.node("zero_optimization", "offload_optimizer", "ratio")
    share = number_of(ratio) if ratio is not None else None
    return share if share is not None and stage == 3 and 0 <= share <= 1 else 1.0


def _device(config: Config, section: str) -> object:
    return config.value("zero_optimization", section, "device")


def _optimizer_bytes(config: Config) -> int:
    """What the optimizer keeps of each parameter: of Adam its states, of any a copy where the model is in 16 bit."""
    copy = _COPY if model_dtype(config) != "fp32" else 0
    return copy + (_ADAM if _is_adam(config) else 0)


def _is_adam(config: Config) -> bool:
    """Whether the optimizer keeps Adam's two states in 32 bit; where the config has none, the Trainer makes its own."""
    if config.node("optimizer") is not None:
        return str(config.value("optimizer", "type") or "").lower() in ("adam", "adamw")
    training = config.facts.training
    if training is None:
        return False
    if "optim" not in training.given and "adafactor" not in training.given:
        return True  # the default of every release
    optim = config.argument("optim")
    return optim is not None and str(optim.value) in _TRAINERS_ADAM


def _is_split_otherwise(config: Config) -> bool:
    """Whether something else than ZeRO makes the states smaller."""
    tensor_parallel = config.node("tensor_parallel", "autotp_size")
    return (
        any(is_on(config, *path) for path in _SMALLER_STATES)
        or config.value("optimizer", "params", "fp32_optimizer_states") is False
        or config.section("zero_optimization", "zenflow") is not None
        or (tensor_parallel is not None and tensor_parallel.value not in (0, 1))
    )
