"""Rules about the Trainer and Accelerate that need nothing but the config (DS60x)."""

from __future__ import annotations

from ds_lint.checks.values import shown, unquoted
from ds_lint.diagnostics.problem import RISK, Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.fixes import edits
from ds_lint.knowledge import stacks
from ds_lint.semantics.constructors import scheduler_constructor
from ds_lint.semantics.features import is_truthy, zero_stage
from ds_lint.source.spelling import AUTO
from ds_lint.source.tree import dotted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.finding import Fix, Stack
    from ds_lint.knowledge.records import Fill, StackLibrary
    from ds_lint.semantics.config import Config
    from ds_lint.source.tree import KeyPath, Node


@rule("DS601", "zero-section-missing", severity="error", effects=("rejected",))
def zero_section_missing(config: Config) -> Iterator[Problem]:
    """No ``zero_optimization``: the Trainer and Accelerate reject the config."""
    concerned = [stack for stack in config.stacks if stack != "deepspeed"]
    if "deepspeed" in config.stacks or config.node("zero_optimization") is not None or config.is_excerpt:
        return
    from ds_lint.knowledge import suggestions

    is_misspelled = any(suggestions.is_typo(visit.member.key, "zero_optimization") for visit in config.unknown)

    yield Problem(
        None,
        config.opening,
        "missing `zero_optimization`: the Trainer and Accelerate reject the config",
        dict.fromkeys(concerned, rejected("initialize")),
        help='Add "zero_optimization": {"stage": 0}, or the stage that you want.',
        label="no `zero_optimization`",
        fix=None if is_misspelled else edits.written(config, ("zero_optimization", "stage"), 0, "unsafe"),
    )


@rule("DS602", "offload-null", severity="error", effects=("rejected",), keys=("zero_optimization",))
def offload_null(config: Config) -> Iterator[Problem]:
    """``offload_optimizer: null``, which Accelerate reads without checking for null."""
    member = config.member("zero_optimization", "offload_optimizer")
    concerned = [stack for stack in config.stacks if stack != "deepspeed"]
    if member is None or member.value.kind != "null" or config.node("optimizer") is not None or not concerned:
        return
    yield Problem(
        ("zero_optimization", "offload_optimizer"),
        member.value.span,
        "`offload_optimizer` is null: Accelerate raises when it reads the device for the script's optimizer",
        dict.fromkeys(concerned, rejected("initialize")),
        help="Delete `offload_optimizer`.",
        label="null",
        fix=edits.deletion(config, ("zero_optimization", "offload_optimizer"), "safe"),
    )


@rule("DS603", "auto-warmup-of-zero", severity="warning", effects=("risk",), keys=("scheduler",))
def auto_warmup_of_zero(config: Config) -> Iterator[Problem]:
    """A warm-up that older releases of transformers or Accelerate fill with 0, which DeepSpeed rejects."""
    path = ("scheduler", "params", "warmup_num_steps")
    constructor = scheduler_constructor(config)
    member = config.member(*path)
    if member is None or member.value.value != AUTO or constructor is None:
        return
    taken = constructor.facts("warmup_num_steps")
    filled = _filled(config, path)
    concerned = [stack for stack in config.stacks if filled and filled["floored"].get(stack) is False]
    if not concerned or taken is None or taken.get("minimum", 0) < 1 or _warms_up(config):
        return
    yield Problem(
        path,
        member.value.span,
        f'{_who(config, concerned)} replaces "auto" with 0 if the run has no warm-up: {constructor.name} of '
        f"DeepSpeed {config.knowledge.deepspeed} rejects 0",
        dict.fromkeys(concerned, RISK),
        help=f"Give the run a warm-up, or set a number above 0{_or_upgrade(config, concerned, path)}. With 0, the run "
        "stops before the first step.",
        label="0 if there is no warm-up",
    )


@rule("DS604", "auto-prefetch-of-fraction", severity="error", effects=("risk",), keys=("zero_optimization",))
def auto_prefetch_of_fraction(config: Config) -> Iterator[Problem]:
    """A prefetch size that older releases of transformers or Accelerate set to a fraction, which pydantic 2 rejects."""
    path = ("zero_optimization", "stage3_prefetch_bucket_size")
    member = config.member(*path)
    if member is None or member.value.value != AUTO or config.knowledge.is_lax:
        return
    filled = _filled(config, path)
    concerned = [stack for stack in config.stacks if filled and filled["number"].get(stack) == "float"]
    if zero_stage(config) not in (3, None):  # at other stages only Accelerate fills it in
        concerned = [stack for stack in concerned if stack == "accelerate"]
    if not concerned:
        return
    yield Problem(
        path,
        member.value.span,
        f'{_who(config, concerned)} may replace "auto" with a fraction: '
        f"DeepSpeed {config.knowledge.deepspeed} rejects it, and the run stops",
        dict.fromkeys(concerned, RISK),
        help=f'Set a whole number{_or_upgrade(config, concerned, path)}. "auto" becomes 0.9 * hidden_size ** 2, '
        "a fraction unless hidden_size is a multiple of 10.",
        label="a fraction",
    )


@rule("DS605", "precision-null", severity="error", effects=("rejected",), keys=("fp16", "bf16"))
def precision_null(config: Config) -> Iterator[Problem]:
    """``fp16: null`` or ``bf16: null``, which Accelerate reads without checking for null.

    Sources: ``AcceleratorState.mixed_precision`` in ``accelerate/state.py``, which reads bf16 if fp16 is off, and
    ``set_mixed_precision`` in ``accelerate/utils/dataclasses.py``, which reads it if the Trainer sets fp16.
    """
    concerned = [stack for stack in config.stacks if stack != "deepspeed"]
    if not config.knowledge.table("transformers", "requires")["accelerate"]["prepares"]:
        concerned = [stack for stack in concerned if stack != "trainer"]
    for name in ("fp16", "bf16"):
        member = config.member(name)
        if name == "bf16" and is_truthy(config.node("fp16", "enabled")):
            concerned = [stack for stack in concerned if stack == "trainer"]
        if member is None or member.value.kind != "null" or not concerned:
            continue
        yield Problem(
            (name,),
            member.value.span,
            f"`{name}` is null: Accelerate raises when it reads `{name}.enabled` to determine the precision",
            dict.fromkeys(concerned, rejected("initialize")),
            help=f"Delete `{name}`.",
            label="null",
            fix=edits.deletion(config, (name,), "safe"),
        )
        return


@rule("DS606", "total-batch-size-alone", severity="error", effects=("rejected",), keys=("train_batch_size",))
def total_batch_size_alone(config: Config) -> Iterator[Problem]:
    """``"auto"`` for the total batch size without the micro batch size that Accelerate computes it from.

    Source: ``_prepare_deepspeed`` in ``accelerate/accelerator.py``.
    """
    member, micro = config.member("train_batch_size"), config.node("train_micro_batch_size_per_gpu")
    if member is None or member.value.value != AUTO or config.stack != "accelerate":
        return
    if micro is None or micro.kind == "null":
        yield Problem(
            ("train_batch_size",),
            member.value.span,
            "Accelerate computes `train_batch_size` from the missing `train_micro_batch_size_per_gpu`: prepare raises",
            rejected("initialize"),
            help='Add "train_micro_batch_size_per_gpu": "auto", which Accelerate fills in from the data loader.',
            label="no micro batch size",
            fix=edits.set_to_auto(config, ("train_micro_batch_size_per_gpu",), "safe"),
        )


def _warms_up(config: Config) -> bool:
    """Whether the training arguments ask for a warm-up of any length."""
    arguments = (config.argument(name) for name in ("warmup_steps", "warmup_ratio"))
    return any(isinstance(one.value, (int, float)) and one.value > 0 for one in arguments if one is not None)


@rule("DS621", "value-never-matches", severity="error", effects=("rejected",))
def value_never_matches(config: Config) -> Iterator[Problem]:
    """A string or a list that the Trainer compares with a number of the training arguments: they are never equal."""
    if config.stack != "trainer" or config.facts.training is not None:
        return  # with the arguments known, trainer_mismatch says what they are
    compared = (path.split(".") for path, filled in config.knowledge.trainer["fills"].items() if filled["matched"])
    odd = [(*path,) for path in compared if (node := config.node(*path)) is not None and _never_matches((*path,), node)]
    refused = _reported(config) if odd else set()
    for path in odd:
        node = config.node(*path)
        if node is not None and path not in refused:
            yield Problem(
                path,
                node.span,
                f"`{dotted(path)}` {shown(config, node)} never equals {_written_as(config, path)} of the training "
                "arguments: trainer.train() raises",
                rejected("initialize"),
                help=f'Set it to {_without_quotes(node)}"auto". The Trainer compares the two.',
                label="never equal",
                fix=_as_number(config, path, node),
            )


_PAIR = ("optimizer", "params", "betas")  # the only one that is not compared with a single value


def _never_matches(path: KeyPath, node: Node) -> bool:
    if path == _PAIR and node.kind == "array":
        return len(node.items) != 2
    return node.kind in ("object", "array") or (node.kind == "string" and node.value != AUTO)


def _reported(config: Config) -> set[KeyPath | None]:
    """The keys whose values DeepSpeed itself rejects, which other rules report."""
    from ds_lint.checks import batch, optimizer, values  # few configs need all of them

    found = (*values.refused_value(config), *optimizer.refused_parameter(config), *batch.batch_arithmetic(config))
    return {problem.key for problem in found}


def _written_as(config: Config, path: KeyPath) -> str:
    if path[-1] == "enabled":
        return "true or false"
    name = str(config.knowledge.trainer["fills"][dotted(path)]["with"])
    return f"`{name}`" if name.isidentifier() else name


def _without_quotes(node: Node) -> str:
    bare = _bare(node)
    return f"{bare} without quotes, or " if bare else ""


def _bare(node: Node) -> str | None:
    """The number, true or false in a string, as JSON spells it."""
    return unquoted(str(node.value), ("float", "boolean")) if node.kind == "string" else None


def _as_number(config: Config, path: KeyPath, node: Node) -> Fix | None:
    bare = _bare(node)
    return edits.replacement(config, path, bare, "safe") if bare else edits.set_to_auto(config, path, "unsafe")


def _filled(config: Config, path: KeyPath) -> Fill | None:
    """What is known about how a key is filled in, or None if no library fills it in."""
    return config.knowledge.trainer["fills"].get(".".join(path))


_LIBRARIES: dict[Stack, StackLibrary] = {"trainer": "transformers", "accelerate": "accelerate"}


def _who(config: Config, concerned: list[Stack]) -> str:
    library = _LIBRARIES[concerned[0]]
    return f"{library} {config.knowledge.target[library]}"


def _or_upgrade(config: Config, concerned: list[Stack], path: KeyPath) -> str:
    library = _LIBRARIES[concerned[0]]
    since = stacks.next_change(library, ".".join(path), config.knowledge.target[library])
    return f", or upgrade to {library} {since}" if since else ""
