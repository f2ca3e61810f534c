"""A claim of a rule, and what shows in a run that it is so.

What is seen of a claim is what was seen of each of its runs, by their names; that of its config is ``IT``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from tools.gpu.setting import Result

    Holds = Callable[[Result], bool]

IT = "it"
AGAIN = "again"  # the same config, after the others: neither a load nor a slow start of the GPU is in it alone
TRAIN = "training:train"


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a rule says of a config, and what shows that it is so."""

    name: str
    rule: str
    says: str  # one sentence
    config: Result
    expected: str
    holds: Holds
    question: str | None = None  # that a CPU does not answer
    reports: bool | None = True  # whether the rule reports the config; None: it is about something beside the config
    look: str = TRAIN
    how: Result = field(default_factory=dict)  # arguments of the function that looks
    others: dict[str, Result] = field(default_factory=dict)  # configs that the same is seen of, to compare with
    facts: Result = field(default_factory=dict)  # that the rule needs; `model` is the config of one
    stack: str = "deepspeed"
    seconds: float = 8.0


# ------------------------------------------------------------------------------------------------- what shows a claim


def every(*shown: Holds) -> Holds:
    """All of it."""
    return lambda seen: all(holds(seen) for holds in shown)


def raises(stage: str, says: str = "", which: str = IT, step: int | None = None, where: str = "") -> Holds:
    """An exception in one of these stages of the run, whose message has these words, raised in such a file."""

    def holds(seen: Result) -> bool:
        raised = seen[which]["raised"]
        if raised is None or raised["stage"] not in stage.split() or says not in raised["message"]:
            return False
        if where not in raised["where"]:
            return False
        return step is None or raised["step"] == step

    return holds


def trains(which: str = IT) -> Holds:
    """A run to its end, in which every step moved a weight and no loss was infinite."""

    def holds(seen: Result) -> bool:
        run = seen[which]
        return run["raised"] is None and min(run["moved"]) > 0 and all(isinstance(one, float) for one in run["losses"])

    return holds


def shows(path: str, wanted: Any, which: str = IT) -> Holds:
    """A value of what was seen, such as ``states.devices``."""
    return lambda seen: _at(seen[which], path) == wanted


def lies_pinned(path: str, which: str) -> Holds:
    """Every tensor of a kind in page-locked memory."""
    return lambda seen: 0 < (_at(seen[which], f"{path}.count") or 0) == _at(seen[which], f"{path}.pinned")


def moves(distance: float, which: str = IT) -> Holds:
    """A first step of this length, to a tenth."""
    return lambda seen: bool(seen[which]["moved"]) and abs(seen[which]["moved"][0] - distance) <= distance / 10


def stays(which: str = IT) -> Holds:
    """A run to its end that never moved a weight."""
    return lambda seen: seen[which]["raised"] is None and not any(seen[which]["moved"])


def skips(least: int, most: int) -> Holds:
    """So many steps before the first that moves a weight."""

    def holds(seen: Result) -> bool:
        moved = [bool(one) for one in seen[IT]["moved"]]
        return True in moved and least <= moved.index(True) <= most

    return holds


def takes(size: float, without: str) -> Holds:
    """So many bytes more on the GPU at the peak, to a fiftieth."""

    def holds(seen: Result) -> bool:
        most, least = seen[IT].get("peak"), seen[without].get("peak")
        return most is not None and least is not None and bool(abs(most - least - size) <= size / 50)

    return holds


def is_slower(than: str, factor: float = 1.0) -> Holds:
    """Steps that all take longer than any of another run, so many times as long, before that run and again after it."""
    return lambda seen: bool(min(seen[IT]["each"] + seen[AGAIN]["each"]) > factor * max(seen[than]["each"]))


def is_the_same(which: str) -> Holds:
    """The same weights as in another run, bit for bit."""
    return lambda seen: seen[IT].get("digest") is not None and seen[IT]["digest"] == seen[which].get("digest")


def holds_as_many_master_weights_as_parameters(seen: Result) -> bool:
    """On this rank."""
    run = seen[IT]
    return run["raised"] is None and bool(run["master"]["elements"] >= run["parameters"]["elements"])


def is_less_exact(seen: Result) -> bool:
    """An error that grows tenfold."""
    return bool(seen[IT]["after"]["error"] > 10 * seen[IT]["before"]["error"])


def overflows(seen: Result) -> bool:
    """A loss that is infinite or not a number, or a loss scale that cannot become smaller."""
    is_finite = all(isinstance(loss, float) for loss in seen[IT]["losses"])
    return not is_finite or raises("step", "already at minimum", where="loss_scaler")(seen)


def meets_a_double(seen: Result) -> bool:
    """Two ranks that take the first GPU, and both stop because NCCL finds the GPU of one at the other."""
    run = seen[IT]
    return bool(run["devices"] == ["cuda:0", "cuda:0"] and all(run["raised"]) and all(run["duplicate"]))


def _at(run: Result, path: str) -> Any:
    found: Any = run
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


# ------------------------------------------------------------------------------------------------ what configs share

CPU: Result = {"device": "cpu"}
NVME: Result = {"device": "nvme", "nvme_path": "nvme"}
BF16: Result = {"bf16": {"enabled": True}}
BF16_MODEL: Result = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "torch_dtype": "bfloat16",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "vocab_size": 128,
}
UNTESTED: Result = {"zero_allow_untested_optimizer": True}
PLAIN: Result = {"model": "plain", "steps": 1}  # each gradient is 1, in fp32
PLAIN_16: Result = {**PLAIN, "inputs": "float16"}
LAYERS: Result = {"model": "layers"}
LAMB: Result = {"needed": ["fused_lamb"]}


def config_of(
    stage: int | None = None, optimizer: str = "AdamW", *, params: Any = None, zero: Any = None, **rest: Any
) -> Result:
    """A config with an optimizer, and with ZeRO at a stage if there is one."""
    return {
        "train_micro_batch_size_per_gpu": 1,
        "optimizer": {"type": optimizer, "params": {"lr": 1e-3, **(params or {})}},
        **({} if stage is None else {"zero_optimization": {"stage": stage, **(zero or {})}}),
        **rest,
    }


def offloaded(stage: int, optimizer: str = "AdamW", *, zero: Any = None, **rest: Any) -> Result:
    """The same with offload of the optimizer to the CPU."""
    return config_of(stage, optimizer, zero={"offload_optimizer": CPU, **(zero or {})}, **rest)


def fp16(**more: Any) -> Result:
    """The section, enabled."""
    return {"fp16": {"enabled": True, **more}}
