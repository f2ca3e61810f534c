"""What the conditions of ``schemas/advisories.json`` ask of a config: a name here is a name there.

A condition is an expression with three values (``ds_lint/knowledge/expressions.py``). A name with dots is a key path:
its value is what DeepSpeed gets in the target's release, filled in by the stack and completed by its defaults.
"""

from __future__ import annotations

import ast

from ds_lint.knowledge import tables
from ds_lint.knowledge.expressions import evaluation_of
from ds_lint.knowledge.unknown import UNKNOWN, Unknown
from ds_lint.semantics import batch
from ds_lint.semantics.constructors import optimizer_constructor, scheduler_constructor
from ds_lint.semantics.features import (
    OLD_OFFLOAD,
    adapter_argument,
    certain_dtype,
    is_on,
    tensor_parallel_size,
    zero_stage,
)
from ds_lint.semantics.preparation import prepare
from ds_lint.source.spelling import AUTO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ds_lint.diagnostics.finding import Stack
    from ds_lint.knowledge.expressions import Lookup
    from ds_lint.knowledge.records import StackLibrary, StackTable
    from ds_lint.launches.advised_calls import AdvisedCalls
    from ds_lint.semantics.config import Config
    from ds_lint.source.tree import KeyPath

    Condition = Callable[[Lookup], bool | Unknown]

_ZERO = "zero_optimization"
_ARGUMENTS = "arguments."
# Which library adds keys on a stack, and the tables that name them.
_ADDS: tuple[tuple[Stack, StackLibrary], ...] = (("trainer", "transformers"), ("accelerate", "accelerate"))
_DID: tuple[StackTable, ...] = ("inserts", "overwrites")
# A default that DeepSpeed makes of the stage: ``DeepSpeedZeroConfig`` in ``deepspeed/runtime/zero/config.py``.
_BY_STAGE = (_ZERO, "overlap_comm")

_conditions: dict[str, Condition] = {}  # each is evaluated for every config
_arguments: dict[str, tuple[Any, ...]] = {}  # of calls, by their text


def holds(config: Config, condition: str) -> bool | Unknown:
    """Whether a condition holds for a config; UNKNOWN if a fact is missing."""
    return _condition(condition)(lambda name: _value(config, name))


def unknown_names(config: Config, condition: str) -> list[str]:
    """The facts that a condition reads and that are not known, in words."""
    found: dict[str, None] = {}

    def value(name: str) -> Any:
        if (known := _value(config, name)) is UNKNOWN:
            found[_in_words(name)] = None
        return known

    _condition(condition)(value)
    return list(found)


def _in_words(name: str) -> str:
    function, _, rest = name.partition("(")
    if not rest:
        argument = name.removeprefix(_ARGUMENTS)
        return _WORDS.get(name) or (f"the training argument {argument}" if argument != name else name)
    words = _arguments_of(rest)
    if function == "keyword":
        return f"`{words[1]}` of {words[0]} in the script"
    return _WORDS_OF_FUNCTIONS[function].format(*words)


def _arguments_of(rest: str) -> tuple[Any, ...]:
    """The arguments in the text of a call after its first parenthesis."""
    if rest not in _arguments:
        _arguments[rest] = ast.literal_eval(f"({rest.removesuffix(')')},)")
    return _arguments[rest]


def _condition(text: str) -> Condition:
    if text not in _conditions:
        _conditions[text] = _condition_of(ast.parse(text, mode="eval").body)
    return _conditions[text]


def _condition_of(node: ast.expr) -> Condition:
    """``and``, ``or`` and ``not`` over comparisons, none of which keeps another from deciding."""
    if isinstance(node, ast.BoolOp):
        return _joined([_condition_of(one) for one in node.values], decides=isinstance(node.op, ast.Or))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        operand = _condition_of(node.operand)
        return lambda names: UNKNOWN if (value := operand(names)) is UNKNOWN else not value
    comparison = evaluation_of(node)

    def compare(names: Lookup) -> bool | Unknown:
        try:
            value = comparison(names)
        except (TypeError, ValueError, ZeroDivisionError):
            return False  # null is above nothing; and a value of another type than DeepSpeed takes reaches nothing
        return UNKNOWN if value is UNKNOWN else bool(value)

    return compare


def _joined(operands: list[Condition], *, decides: bool) -> Condition:
    def join(names: Lookup) -> bool | Unknown:
        answer: bool | Unknown = not decides
        for one in operands:
            value = one(names)
            if value is decides:
                return decides
            answer = UNKNOWN if value is UNKNOWN else answer
        return answer

    return join


def _value(config: Config, name: str) -> Any:
    answers = config.derived.setdefault("advisory_conditions", {})
    if name not in answers:
        answers[name] = _looked_up(config, name)
    return answers[name]


def _looked_up(config: Config, name: str) -> Any:
    if name in NAMES:
        return NAMES[name](config)
    if name.startswith(_ARGUMENTS):
        return _argument(config, name.removeprefix(_ARGUMENTS))
    function, _, rest = name.partition("(")
    if rest:
        return FUNCTIONS[function](config, *_arguments_of(rest)) if function in FUNCTIONS else UNKNOWN
    path = tuple(name.split("."))
    if _has(config, path[0]):
        return _key(config, path)
    return None if path[0] in tables.load("deepspeed")["root"]["keys"] else UNKNOWN  # a key of other releases


# ------------------------------------------------------------------------------------------------------------ keys


def _has(config: Config, name: str) -> bool:
    """Whether the target's release has a key; to ask for the names of all would make the answer depend on each."""
    return config.knowledge.root.child(name) is not None


def _key(config: Config, path: KeyPath) -> Any:
    """The value that DeepSpeed gets, or its default; None where there is neither, as of a key of other releases."""
    value: Any = prepare(config).config
    if path[0] == _ZERO and isinstance(value.get(_ZERO), bool):
        return zero_stage(config) if path == (_ZERO, "stage") else _default(config, path)
    for name in path:
        if not isinstance(value, dict):
            value = UNKNOWN if value is UNKNOWN or value == AUTO else None  # in what is not a section there is nothing
            break
        value = value.get("bfloat16" if name == "bf16" and "bf16" not in value else name)
    if len(path) == 1 and path[0] in batch.BATCH_SIZES:
        return _batch_size(config, path[0])
    if value is UNKNOWN or value == AUTO:
        return UNKNOWN
    if value is not None:
        return value
    return UNKNOWN if _may_be_added(config, path) else _default(config, path)


def _may_be_added(config: Config, path: KeyPath) -> bool:
    """Whether a stack that may load the config adds the key, and it is not known which loads it."""
    if config.stack is not None:
        return False
    places = {".".join(path[:length]) for length in range(1, len(path) + 1)}
    libraries = [library for stack, library in _ADDS if stack in config.stacks]
    return any(not places.isdisjoint(config.knowledge.table(library, did)) for library in libraries for did in _DID)


def _default(config: Config, path: KeyPath) -> Any:
    if path[0] in ("optimizer", "scheduler") and len(path) > 2:
        constructor = (optimizer_constructor if path[0] == "optimizer" else scheduler_constructor)(config)
        default = constructor.default(path[2]) if constructor is not None else None
        return None if default == "$required" else default
    known = config.knowledge.find(path)
    default = known.facts.get("default") if known is not None else None
    if default is None and path == _BY_STAGE:
        stage = _value(config, "zero_optimization.stage")
        return stage if stage is UNKNOWN else stage == 3
    return UNKNOWN if default == AUTO else default


def _batch_size(config: Config, name: str) -> Any:
    """A batch size as DeepSpeed works it out of the others; the number of micro steps may follow from nothing else."""
    given = {one: prepare(config).config.get(one) for one in batch.BATCH_SIZES}
    if given[name] is not None:
        return UNKNOWN if given[name] == AUTO else given[name]
    if AUTO in given.values() or UNKNOWN in given.values() or config.stack == "trainer":
        return UNKNOWN
    train, micro, steps = given.values()
    if name == batch.STEPS and (train is None or micro is None):
        return 1
    if config.world_size is None or (train is None and micro is None):
        return UNKNOWN
    ranks = batch.data_parallel_size(config, config.world_size, from_file=config.from_file)
    return dict(zip(given, batch.completed(train, micro, steps, ranks), strict=True))[name]


def _is_set(config: Config, name: str) -> bool:
    return config.is_written(tuple(name.split(".")))


def _offload(config: Config, name: str) -> Any:
    device = _key(config, (_ZERO, f"offload_{name}", "device"))
    if device in ("cpu", "nvme") or device is UNKNOWN:
        return device
    old = OLD_OFFLOAD if name == "optimizer" else (_ZERO, "cpu_offload_params")
    return "cpu" if is_on(config, *old) else "none"


def _optimizer_class(config: Config) -> Any:
    constructor = optimizer_constructor(config)
    return constructor.name if constructor is not None else UNKNOWN


def _parallel_size(name: str) -> Callable[[Config], Any]:
    """How many ranks share something: 1 where the config does not say it, or the release has no such key."""
    path = tuple(name.split("."))

    def size(config: Config) -> Any:
        value = _key(config, path) if _has(config, path[0]) else None
        return value or 1

    return size


# ---------------------------------------------------------------------------------------------------- around the config


def _argument(config: Config, name: str) -> Any:
    found = config.argument(name)
    return UNKNOWN if found is None else found.value


def _calls(config: Config) -> AdvisedCalls | None:
    launch = config.facts.launch
    return launch.script.calls.advised if launch is not None and launch.script is not None else None


def _is_called(config: Config, name: str) -> Any:
    calls = _calls(config)
    return UNKNOWN if calls is None else calls.has(name)


def _keyword(config: Config, function: str, name: str) -> Any:
    calls = _calls(config)
    return UNKNOWN if calls is None else calls.keyword(function, name)


def _is_list(config: Config, name: str) -> bool:
    node = config.root.at(tuple(name.split(".")))
    return node is not None and node.kind == "array"


def _is_number(config: Config, name: str) -> bool:
    node = config.root.at(tuple(name.split(".")))
    return node is not None and node.kind in ("integer", "float")


def _launcher_option(config: Config, name: str) -> Any:
    """The value of an option of the launcher; True for one without a value, None if it is not given."""
    launch = config.facts.launch
    if launch is None or not launch.is_mentioned:
        return UNKNOWN
    around = launch.launch.surroundings
    return (around.option(name) or True) if around.has(name) else None


def _unknown(_config: Config, _fact: str) -> Any:
    """A fact that ds-lint cannot know, in words: a condition with it is never certain."""
    return UNKNOWN


def _optimizer_steps(config: Config) -> Any:
    steps = _argument(config, "max_steps")
    return steps if isinstance(steps, int) and steps > 0 else UNKNOWN


def _variable(config: Config, name: str) -> Any:
    launch = config.facts.launch
    if launch is None:
        return UNKNOWN
    value = launch.launch.environment.get(name, "")
    return UNKNOWN if value is None else value or None


def _launcher(config: Config) -> Any:
    launch = config.facts.launch
    return launch.launch.launcher if launch is not None and launch.is_mentioned else UNKNOWN


def _resumes(config: Config) -> Any:
    launch = config.facts.launch
    if launch is None:
        return True if (found := config.argument("resume_from_checkpoint")) and found.value else UNKNOWN
    return launch.resumption is not None


def _is_pipeline(config: Config) -> Any:
    launch = config.facts.launch
    if launch is None or launch.script is None:
        return False if config.stack in ("trainer", "accelerate") else UNKNOWN
    return launch.script.calls.pipeline is not None


def _has_adapters(config: Config) -> Any:
    launch = config.facts.launch
    if adapter_argument(config) is not None or config.facts.lora is not None:
        return True
    return UNKNOWN if launch is None or launch.script is None else launch.script.calls.has_adapters


def _of_model(place: str) -> Callable[[Config], Any]:
    def fact(config: Config) -> Any:
        model = config.facts.model_or_family
        value = None if model is None else getattr(model, place)
        return UNKNOWN if value is None else value

    return fact


def _ties_embeddings(config: Config) -> Any:
    model = config.facts.model
    value = model.at("tie_word_embeddings") if model is not None else None
    return value if isinstance(value, bool) else UNKNOWN


def _parameter_groups(config: Config) -> Any:
    """How many groups the optimizer has: the Trainer makes one for DeepSpeed's optimizer, else two, by weight decay.

    Source: ``deepspeed_optim_sched`` in ``transformers/integrations/deepspeed.py``.
    """
    launch = config.facts.launch
    handed = launch.script.calls.optimizers if launch is not None and launch.script is not None else None
    if config.stack != "trainer" or handed is not None:
        return UNKNOWN
    return 2 if config.node("optimizer") is None else 1


def _or_unknown(value: Any) -> Any:
    return UNKNOWN if value is None else value


NAMES: dict[str, Callable[[Config], Any]] = {
    "stack": lambda config: _or_unknown(config.stack),
    "world_size": lambda config: _or_unknown(config.world_size),
    "nodes": lambda config: _or_unknown(config.facts.nodes),
    "dtype": lambda config: _or_unknown(certain_dtype(config)),
    "optimizer_device": lambda config: _offload(config, "optimizer"),
    "parameter_device": lambda config: _offload(config, "param"),
    "optimizer_class": _optimizer_class,
    "parameter_groups": _parameter_groups,
    "optimizer_steps": _optimizer_steps,
    "has_adapters": _has_adapters,
    "resumes": _resumes,
    "is_moe": _of_model("is_moe"),
    "model_type": _of_model("model_type"),
    "ties_embeddings": _ties_embeddings,
    "launcher": _launcher,
    "is_launched": lambda config: True if config.facts.launch is not None else UNKNOWN,
    "gpu": lambda config: UNKNOWN if config.facts.gpu is None else config.facts.gpu.name,
    "is_pipeline": _is_pipeline,
    "sequence_parallel_size": _parallel_size("sequence_parallel_size"),
    "tensor_parallel_size": lambda config: max(1, tensor_parallel_size(config)),
    "expert_parallel_size": _parallel_size("expert_parallel.autoep_size"),
}

_WORDS = {
    "stack": "the stack",
    "world_size": "the number of ranks",
    "nodes": "the number of nodes",
    "dtype": "the dtype of the model",
    "optimizer_device": "where the optimizer is",
    "parameter_device": "where the parameters are",
    "optimizer_class": "the optimizer",
    "parameter_groups": "the number of parameter groups",
    "optimizer_steps": "the number of optimizer steps",
    "has_adapters": "whether the model has adapters",
    "resumes": "whether the run resumes",
    "is_moe": "whether the model has experts",
    "model_type": "the type of the model",
    "ties_embeddings": "whether the model ties its embeddings",
    "launcher": "the launcher",
    "is_launched": "how it is launched",
    "gpu": "the GPU",
    "is_pipeline": "whether the script makes a pipeline",
}
_WORDS_OF_FUNCTIONS = {
    "calls": "whether the script calls {}",
    "environment": "the variable {}",
    "launcher_option": "the option {} of the launcher",
    "unknown": "{}",
}

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "is_set": _is_set,
    "is_list": _is_list,
    "is_number": _is_number,
    "launcher_option": _launcher_option,
    "calls": _is_called,
    "keyword": _keyword,
    "environment": _variable,
    "unknown": _unknown,
}
