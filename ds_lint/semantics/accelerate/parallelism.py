"""The degrees of parallelism with which ``accelerate launch`` or ``Accelerator()`` raises.

Sources: ``prepare_extend_env_parallelism_config`` in ``accelerate/utils/launch.py``, ``ParallelismConfig`` in
``parallelism_config.py``, ``AcceleratorState.__init__`` in ``state.py``, and ``init_device_mesh`` in
``torch/distributed/device_mesh.py``.
"""

from __future__ import annotations

from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.semantics.accelerate.deepspeed_config import config_file
from ds_lint.semantics.accelerate.fsdp import FsdpPlugin
from ds_lint.semantics.accelerate.refusal import LaunchRefusal, is_integer, kind_of, of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ds_lint.semantics.accelerate.launch import AccelerateLaunch
    from ds_lint.source.tree import Member

_DEGREES = ("dp_replicate", "dp_shard", "tp", "cp", "sp")
_COMPARED = ("cp", "sp")  # by the launch itself, with 1
_MOST = 10**12  # no cluster has as many ranks
_STRATEGIES = ("allgather", "alltoall")  # of TorchContextParallelConfig in ``utils/dataclasses.py``
_NOT_SPLIT = ("eager", "flex_attention")  # the attentions that DeepSpeedSequenceParallelConfig refuses, there


def parallelism_refusals(launch: AccelerateLaunch) -> Iterator[LaunchRefusal]:
    """The degrees that are not numbers, or do not fit each other, the number of ranks, or the type of the run."""
    if not launch.value("use_parallelism_config") or not launch.reads("use_parallelism_config"):
        return
    names = {degree: f"parallelism_config_{degree}_size" for degree in _DEGREES}
    sizes = {degree: launch.value(name) for degree, name in names.items() if name in launch.arguments}
    wrong = list(_no_numbers(launch, names, sizes))
    if launch.value("use_megatron_lm"):  # which has its own degrees: only what the launch compares counts
        wrong = [one for one in wrong if one.stage == "load"]
    yield from wrong
    member = launch.root.member("parallelism_config")
    if wrong or UNKNOWN in sizes.values() or member is None or launch.value("use_megatron_lm"):
        return
    if launch.does("parallelism-is-compared-with-ranks"):
        degrees = {degree: int(str(size)) for degree, size in sizes.items()}
        wrong = list(_words(launch, degrees))
        yield from wrong or _together(launch, member, degrees)


def _no_numbers(launch: AccelerateLaunch, names: dict[str, str], sizes: dict[str, Any]) -> Iterator[LaunchRefusal]:
    """The degrees that are not whole numbers above 0."""
    for degree, size in sizes.items():
        setting, name = launch.setting(names[degree]), names[degree]
        if size is UNKNOWN:
            continue
        if degree in _COMPARED and not isinstance(size, (int, float)):
            yield of(setting, name, f"{kind_of(size)}, not a number", "Write 1 or more, without quotes.")
        elif not is_integer(str(size)) or not 1 <= int(str(size)) <= _MOST:
            yield of(setting, name, "not a whole number above 0", "Write 1 or more.", stage="initialize")


def _words(launch: AccelerateLaunch, degrees: dict[str, int]) -> Iterator[LaunchRefusal]:
    """The settings that say how a sequence is split; most are read where a degree splits it."""
    facts = launch.table("launch_arguments")
    for degree in _COMPARED:
        name = f"parallelism_config_{degree}_backend"
        words, text = facts.get(name, {}).get("choices", []), _text(launch, name)
        if words and text is not UNKNOWN and text not in words:
            yield _word(launch, name, f"not {' or '.join(words)}", f"Write `{words[0]}`, or delete the key.")
    name = "parallelism_config_cp_comm_strategy"
    if degrees["cp"] > 1 and name in facts and _text(launch, name) not in (*_STRATEGIES, UNKNOWN):
        yield _word(launch, name, f"not one of {', '.join(_STRATEGIES)}", "Write one of these words.")
    if degrees.get("sp", 1) <= 1:
        return
    name = "parallelism_config_sp_attn_implementation"
    if _text(launch, name) in _NOT_SPLIT:
        yield _word(launch, name, "an attention that does not work on parts of a sequence", "Write `sdpa`.")
    name = "parallelism_config_sp_seq_length"
    text, is_variable = _text(launch, name), _text(launch, f"{name}_is_variable")
    if (
        UNKNOWN not in (text, is_variable)
        and is_variable.lower() != "true"
        and not (text == "None" or is_integer(text))
    ):
        yield _word(launch, name, "not a whole number", "Write the length of the sequences.")


def _text(launch: AccelerateLaunch, name: str) -> Any:
    """A value as the environment variable that carries it; UNKNOWN if it is not known."""
    value = launch.value(name)
    return value if value is UNKNOWN else str(value)


def _word(launch: AccelerateLaunch, name: str, problem: str, advice: str) -> LaunchRefusal:
    return of(launch.setting(name), name, problem, advice, stage="initialize")


def _together(launch: AccelerateLaunch, member: Member, degrees: dict[str, int]) -> Iterator[LaunchRefusal]:
    """The first reason why the degrees do not go together, or not with the run."""
    fsdp = FsdpPlugin(launch).version if launch.value("use_fsdp") else None
    if fsdp is UNKNOWN:
        return
    is_deepspeed = launch.launcher == "deepspeed"
    product = 1
    for degree in degrees.values():
        product *= degree
    is_on = {degree: size > 1 for degree, size in degrees.items()}
    is_alone = is_on["dp_replicate"] and not is_on["dp_shard"]
    if is_on["cp"] and is_on.get("sp"):
        yield _refusal(member, "for context and sequence parallelism at once", "Raise one of the two degrees only.")
    elif is_alone and (is_on["tp"] or is_on["cp"]):
        problem = "for replicas of what tensor or context parallelism splits, which are not sharded"
        yield _refusal(member, problem, "Write `parallelism_config_dp_shard_size` above 1, or leave out the replicas.")
    elif is_on["cp"] and fsdp != 2 and not is_deepspeed:
        problem = "for context parallelism, and needs FSDP 2"
        yield _refusal(member, problem, "Write `distributed_type: FSDP` and `fsdp_version: 2`.")
    elif product > 1 and not is_on.get("sp") and _has_other_ranks(launch, product):
        ranks = launch.value("num_processes")
        yield _refusal(
            member,
            f"for {product} ranks, and `num_processes` is {ranks}",
            "Make the product of the degrees the number of ranks.",
            unless=" unless its command line has another `--num_processes`",
        )
    elif product > 1 and fsdp == 1:
        yield _refusal(member, "for more than one rank, and needs FSDP 2", "Write `fsdp_version: 2`.")
    elif product > 1 and launch.value("num_processes") == 1 and fsdp is None and not is_deepspeed:
        yield _refusal(member, "for more than one rank, and `num_processes` is 1", "Raise `num_processes`.")
    elif (
        product > 1
        and fsdp == 2
        and not (is_on["dp_shard"] or is_on["cp"])
        and launch.does("fsdp-needs-a-degree-to-shard")
    ):
        advice = "Write `parallelism_config_dp_shard_size`."
        yield _refusal(member, "without a degree that FSDP shards across", advice)
    elif is_on["tp"] and is_deepspeed and config_file(launch) is None:
        yield LaunchRefusal(
            ("parallelism_config",),
            member,
            "tensor parallelism splits the data loader before DeepSpeed reads its batch size: `accelerator.prepare` "
            "raises",
            "Name a DeepSpeed config with `train_micro_batch_size_per_gpu`, or split the model by its "
            "`tensor_parallel`.",
            stage="initialize",
            label="tensor parallelism",
            is_of_loop=True,
        )


def _has_other_ranks(launch: AccelerateLaunch, product: int) -> bool:
    """Whether the file says how many ranks there are, and that is another number."""
    ranks = launch.value("num_processes")
    return isinstance(ranks, int) and ranks > 0 and product != ranks


def _refusal(member: Member, problem: str, advice: str, unless: str = "") -> LaunchRefusal:
    return LaunchRefusal(
        ("parallelism_config",),
        member,
        f"`parallelism_config` is {problem}: `Accelerator()` raises{unless}",
        advice,
        stage="initialize",
        label=problem,
        can_be_given=bool(unless),
    )
