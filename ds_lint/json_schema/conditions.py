"""What depends on another key: the parameters of the optimizer and the scheduler, and the batch sizes.

Which parameters a type takes comes from ``ds_lint.semantics.constructors``, for every switch that leads to another
constructor.
"""

from __future__ import annotations

from ds_lint.json_schema.sections import described
from ds_lint.json_schema.values import AUTO, asserted, in_any_case, reference, silently, taken_by_code
from ds_lint.knowledge.descriptions import documentation
from ds_lint.record import Record, field
from ds_lint.semantics import configs
from ds_lint.semantics.basis import Basis
from ds_lint.semantics.batch import BATCH_SIZES
from ds_lint.semantics.constructors import optimizer_constructor, optimizer_types, scheduler_constructor
from ds_lint.semantics.schedules import MAY_SET_THE_RATE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from dataclasses import KW_ONLY

    from ds_lint.json_schema.target import SchemaTarget
    from ds_lint.json_schema.values import Alternatives, Schema
    from ds_lint.knowledge.records import Defaults
    from ds_lint.semantics.config import Config
    from ds_lint.semantics.constructors import Constructor

_OFFLOAD = {"offload_optimizer": {"device": "cpu"}}
# Everything in a config that leads to another constructor of the same type.
_SWITCHES: tuple[Mapping[str, object], ...] = (
    {},
    {"zero_optimization": _OFFLOAD},
    {"params": {"torch_adam": True}},
    {"params": {"torch_adam": True, "adam_w_mode": False}},
)
_ZENFLOW = {"zero_optimization": {**_OFFLOAD, "zenflow": {}}}
_LOOKED_AT = reference("schedulerIsLookedAt")
_NO_NAME = "?"  # no constructor has a parameter of this name


def conditions(target: SchemaTarget) -> list[Schema]:
    """The ``if`` and ``then`` of the whole config."""
    return [
        *_optimizers(target),
        *_schedulers(target),
        _when(_has_no_filled_batch(), {"properties": {name: _batch_size() for name in BATCH_SIZES}}),
    ]


def _when(condition: Schema, consequence: Schema) -> Schema:
    return {"if": condition, "then": consequence}


def _has_no_filled_batch() -> Schema:
    """Where one batch size is filled, the others have no condition."""
    filled = {"anyOf": [AUTO, reference("template")]}
    return {"properties": {name: {"not": filled} for name in BATCH_SIZES}}


def _batch_size() -> Schema:
    return {
        "anyOf": [{"type": "number", "not": {"const": 0}}, silently("null"), reference("trueOrFalse")],
        "errorMessage": "Expected a number above 0.",
    }


# The optimizer


def _optimizers(target: SchemaTarget) -> Iterator[Schema]:
    own = optimizer_types(target.knowledge)
    kinds = [name.lower() for name in own]
    names = [name for name in target.knowledge.torch["optimizers"] if name.lower() not in kinds]
    yield {"properties": {"optimizer": {"properties": {"type": _optimizer_type(own, names)}}}}
    for alike in _alike([(kind, _optimizer(kind, target)) for kind in kinds]):
        yield from alike.conditions({"type": "string", "pattern": in_any_case(alike.names)})
    for alike in _alike([(name, _optimizer(name, target)) for name in names]):
        yield from alike.conditions({"enum": alike.names})


def _optimizer_type(own: list[str], names: list[str]) -> Schema:
    return {
        "anyOf": [
            {"enum": sorted(own) + names},
            {"type": "string", "pattern": in_any_case([name.lower() for name in own])},
            reference("template"),
            silently("null"),
        ]
    }


class _Optimizer(Record):
    """What the parameters of a type may be.

    ``late_lr`` are the values of the learning rate where a bad one meets the first step only, which a scheduler may
    prevent. With ``but_for_zenflow``, the section zenflow leads to a constructor of which nothing is known.
    """

    params: Schema
    late_lr: Schema | None
    _: KW_ONLY
    but_for_zenflow: bool
    names: list[str] = field(factory=list)

    def is_like(self, other: _Optimizer) -> bool:
        """Whether two types take the same."""
        return (self.params, self.late_lr, self.but_for_zenflow) == (other.params, other.late_lr, other.but_for_zenflow)

    def conditions(self, type_is: Schema) -> Iterator[Schema]:
        """The conditions for the types whose names these are."""
        condition = _type_in("optimizer", type_is)
        if self.but_for_zenflow:
            condition = {"allOf": [condition, {"not": _HAS_ZENFLOW}]}
        yield _when(condition, _in_params("optimizer", self.params))
        if self.late_lr is not None:
            is_late = {"allOf": [condition, {"not": _SETS_LR}]}
            yield _when(is_late, _in_params("optimizer", {"properties": {"lr": self.late_lr}}))


def _alike(optimizers: list[tuple[str, _Optimizer]]) -> list[_Optimizer]:
    """One for all types that take the same, with their names."""
    distinct: list[_Optimizer] = []
    for name, optimizer in optimizers:
        known = next((one for one in distinct if one.is_like(optimizer)), None)
        if known is None:
            distinct.append(optimizer)
        (known or optimizer).names.append(name)
    return distinct


def _optimizer(kind: str, target: SchemaTarget) -> _Optimizer:
    constructors = [one for switch in _SWITCHES if (one := _built(kind, switch, target)) is not None]
    zenflow = _built(kind, _ZENFLOW, target)
    is_closed = not any(one.knows(_NO_NAME) for one in constructors)
    params = _parameters("optimizer", kind, constructors, target)
    if is_closed or "max_grad_norm" in params:
        params["max_grad_norm"] = _refused_clipping()
    late_lr = _late_lr(params, constructors, target)
    closed: Schema = {"properties": params, "additionalProperties": False} if is_closed else {"properties": params}
    is_open_for_zenflow = is_closed and zenflow is not None and zenflow.knows(_NO_NAME)
    return _Optimizer(closed, late_lr, but_for_zenflow=is_open_for_zenflow)


_HAS_ZENFLOW: Schema = {
    "properties": {"zero_optimization": {"required": ["zenflow"]}},
    "required": ["zero_optimization"],
}


def _type_in(section: str, type_is: Schema) -> Schema:
    """The condition that a section names a type."""
    return {
        "properties": {section: {"properties": {"type": type_is}, "required": ["type"]}},
        "required": [section],
    }


_SETS_LR = _type_in("scheduler", {"enum": list(MAY_SET_THE_RATE)})


def _in_params(section: str, params: Schema) -> Schema:
    return {"properties": {section: {"properties": {"params": params}}}}


def _refused_clipping() -> Schema:
    message = "DeepSpeed rejects max_grad_norm here: set gradient_clipping at the top level."
    return {"description": message, "doNotSuggest": True, "errorMessage": message, "not": {}}


def _built(kind: str, switch: Mapping[str, object], target: SchemaTarget) -> Constructor | None:
    written: dict[str, object] = {"optimizer": {"type": kind, "params": switch.get("params", {})}}
    if "zero_optimization" in switch:
        written["zero_optimization"] = switch["zero_optimization"]
    return optimizer_constructor(_config(written, target))


def _config(written: dict[str, object], target: SchemaTarget) -> Config:
    return configs.from_dict(written, Basis(target.knowledge))


def _late_lr(params: Schema, constructors: list[Constructor], target: SchemaTarget) -> Schema | None:
    """The learning rate's values, taken out of the parameters where only the first step would choke on another."""
    stages = {(one.facts("lr") or {}).get("stage") for one in constructors}
    if "train" not in stages or not target.is_newest:
        return None
    texts = ("description", "markdownDescription", "default")
    lr = params["lr"]
    params["lr"] = {name: fact for name, fact in lr.items() if name in texts}
    return {name: fact for name, fact in lr.items() if name not in texts}


# Parameters


def _parameters(section: str, kind: str, constructors: list[Constructor], target: SchemaTarget) -> Schema:
    """The parameters that any of the constructors takes."""
    defaults = _defaults(section, kind, constructors[0], target)
    names = list(dict.fromkeys([*(name for one in constructors for name in one.names()), *defaults]))
    return {name: _parameter(section, name, constructors, target) | _default(defaults.get(name)) for name in names}


def _default(value: object) -> Schema:
    is_plain = value is not None and not (isinstance(value, str) and value.startswith("$"))
    return {"default": value} if is_plain else {}


def _defaults(section: str, kind: str, constructor: Constructor, target: SchemaTarget) -> Defaults:
    """Defaults by parameter: of the constructor that a plain config leads to, where they are known."""
    known = target.knowledge.constructors(f"{section}.params", kind)
    own = [one for one in known if one["callee"].endswith(f".{constructor.name}")]
    for one in [*own, *known]:
        if "parameters" in one:
            return one["parameters"]
    return target.knowledge.torch["optimizers" if section == "optimizer" else "schedulers"].get(kind, {})


def _parameter(section: str, name: str, constructors: list[Constructor], target: SchemaTarget) -> Schema:
    path = (section, "params", name)
    filled = target.filling(path)
    found = {}
    if not all(one.is_torch for one in constructors):  # what is documented is DeepSpeed's own
        words = documentation(path)
        found = described(words.get("text", ""), filled, words.get("url"))
    taken = _taken(name, constructors) if target.is_newest else None
    auto: Alternatives = [AUTO] if filled else []
    if taken is not None:
        return {**found, **asserted([*taken, *auto])}
    return {**found, "anyOf": [*auto, {}]} if auto else found


def _taken(name: str, constructors: list[Constructor]) -> Alternatives | None:
    """What any of the constructors takes; None where one of them takes anything."""
    taken: Alternatives = []
    for one in constructors:
        if one.knows(name):
            facts = one.facts(name)
            values = taken_by_code(facts) if facts else None
            if values is None:
                return None
            taken += values
    return taken


# The scheduler


def _schedulers(target: SchemaTarget) -> Iterator[Schema]:
    """Without an optimizer DeepSpeed does not look at the scheduler; the Trainer and Accelerate always do.

    So DeepSpeed's own parameters are described for every config; they and torch's are checked where there is an
    optimizer, or an ``"auto"`` that only those two fill.
    """
    own = target.knowledge.types("scheduler.params")
    names = [*own, *(name for name in target.knowledge.torch["schedulers"] if name not in own)]
    yield {
        "properties": {
            "scheduler": {"properties": {"type": {"anyOf": [{"enum": names}, {}]}}},
        }
    }
    yield _when(
        _LOOKED_AT,
        {
            "properties": {
                "scheduler": {
                    "properties": {"type": {"anyOf": [{"enum": names}, reference("template"), silently("null")]}}
                }
            }
        },
    )
    for name in names:
        yield from _scheduler(name, target)


def _scheduler(name: str, target: SchemaTarget) -> Iterator[Schema]:
    constructor = scheduler_constructor(_config({"scheduler": {"type": name, "params": {}}}, target))
    if constructor is None or constructor.knows(_NO_NAME):
        return
    params = _parameters("scheduler", name, [constructor], target)
    texts = ("description", "markdownDescription", "default")
    documented = {key: {part: one[part] for part in texts if part in one} for key, one in params.items()}
    checked = {key: {part: fact for part, fact in one.items() if part not in texts} for key, one in params.items()}
    is_this = _type_in("scheduler", {"const": name})
    if not constructor.is_torch:
        yield _when(is_this, _in_params("scheduler", {"properties": documented}))
    closed: Schema = {"properties": checked, "additionalProperties": False}
    if constructor.required():
        closed["required"] = constructor.required()
    yield _when({"allOf": [is_this, _LOOKED_AT]}, _in_params("scheduler", closed))


def is_looked_at() -> Schema:
    """The config builds an optimizer, or has an ``"auto"`` at the top level or in the scheduler's parameters."""
    has_auto = {"not": {"additionalProperties": {"not": AUTO}}}
    return {
        "anyOf": [
            _type_in("optimizer", {"not": {"type": "null"}}),
            has_auto,
            {
                "properties": {
                    "scheduler": {"properties": {"params": {"type": "object", **has_auto}}, "required": ["params"]}
                },
                "required": ["scheduler"],
            },
        ]
    }
