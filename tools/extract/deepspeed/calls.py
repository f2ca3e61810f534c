"""What a call does: ``functions`` of the package are entered, models declare keys; ``foreign`` has all others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.extract.deepspeed import foreign, models, signatures
from tools.extract.deepspeed.classes import is_dataclass
from tools.extract.deepspeed.functions import enter
from tools.extract.deepspeed.values import (
    UNKNOWN,
    Arguments,
    ChosenByUser,
    Class,
    External,
    Function,
    Instance,
    Method,
    ModelField,
    Table,
    UserValue,
    alternatives,
    either,
    user_values,
)

if TYPE_CHECKING:
    from tools.extract.deepspeed.analysis import Analysis, Frame
    from tools.extract.deepspeed.values import Value

_ENGINES = ("DeepSpeedEngine", "PipelineEngine", "DeepSpeedHybridEngine")  # entry points of their own


def call(frame: Frame, callee: Value, arguments: Arguments) -> Value:
    """The value of a call."""
    return either(*[_call(frame, one, arguments) for one in alternatives(callee)])


def _call(frame: Frame, callee: Value, arguments: Arguments) -> Value:
    match callee:
        case Method(receiver=receiver, name=name):
            return foreign.call_method(frame, receiver, name, arguments)
        case ChosenByUser():
            signatures.note_choice(frame.analysis, callee, arguments)
            return UNKNOWN
        case Class():
            return _construct(frame.analysis, callee, arguments)
        case Function():
            signatures.note_spread(frame.analysis, callee, arguments)
            return enter(frame.analysis, callee, arguments)
        case External(name=name):
            signatures.note_spread(frame.analysis, callee, arguments)
            return foreign.call_function(frame, name, arguments)
        case _:
            return UNKNOWN


def _construct(analysis: Analysis, cls: Class, arguments: Arguments) -> Value:
    classes = analysis.classes
    if classes.is_enumeration(cls):
        for one in user_values(arguments.first):
            analysis.records.key(one.path).one_of.append(classes.accepted(cls))
        return arguments.first
    if classes.is_exception(cls):
        return UNKNOWN
    if classes.is_scalar(cls):
        return arguments.first
    if classes.is_model(cls) or (is_dataclass(cls) and arguments.spread):
        return _validate(analysis, cls, arguments)
    signatures.note_spread(analysis, cls, arguments)
    instance = Instance(cls)
    constructor = classes.constructor(cls, instance)
    if constructor and cls.name not in _ENGINES and arguments.hold_user_values():
        enter(analysis, constructor, arguments)
    return instance


def _validate(analysis: Analysis, cls: Class, arguments: Arguments) -> Value:
    """``Model(**section)``, or ``Model(**{"field": section, ...})``."""
    instance = Instance(cls, dict(arguments.named))
    for source in (one for value in arguments.spread for one in alternatives(value)):
        if isinstance(source, UserValue):
            models.declare_section(analysis, cls, source.path)
            instance.fields.update(models.fields_read_from(analysis, cls, source.path))
        elif isinstance(source, Table):
            for model_field in models.fields(analysis, cls):
                for one in user_values(source.entries.get(model_field.name, UNKNOWN)):
                    models.declare(analysis, model_field, one.path)
                    instance.fields[model_field.name] = ModelField(one.path, model_field.section)
            for section in source.overlaid:
                models.declare_section(analysis, cls, section.path, skip=frozenset(source.entries))
    return instance
