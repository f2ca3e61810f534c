"""What a training script shows without running it: who trains, which training arguments it sets, which model it loads.

The arguments come from ``HfArgumentParser`` and the command line, with the defaults of the script's own subclass of
TrainingArguments, or from a call of TrainingArguments. What the script sets afterwards is unknown.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.launches.model_sources import SourceReader
from ds_lint.launches.script_calls import read_calls
from ds_lint.launches.script_code import ARGUMENTS, CodePlace, ImportedNames, place
from ds_lint.launches.script_configs import calls_with_config, configs
from ds_lint.launches.script_options import script_arguments
from ds_lint.launches.script_ranks import connects_ranks, own_ranks
from ds_lint.launches.trained_names import TrainedNames
from ds_lint.source.python_names import ModuleNames, dotted_name
from ds_lint.source.python_syntax import parsed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.diagnostics.finding import Stack
    from ds_lint.launches.model_sources import ModelSource
    from ds_lint.launches.script_calls import ScriptCalls
    from ds_lint.launches.script_options import ScriptArgument
    from ds_lint.launches.script_ranks import OwnRanks

_PARSERS = ("HfArgumentParser", "TrlParser", "H4ArgumentParser")
_OBJECTS = re.compile(r"(?:\w*_)?args|(?:\w*_)?arguments|\w*config")
# The fields that decide about the optimizer and the scheduler, which a script may make itself.
_OF_OPTIMIZERS = (
    "learning_rate", "weight_decay", "adam_beta1", "adam_beta2", "adam_epsilon", "optim", "optim_args", "adafactor",
    "lr_scheduler_type", "lr_scheduler_kwargs", "warmup_ratio", "warmup_steps",
)  # fmt: skip
_LIGHTNINGS = "DeepSpeedStrategy"
_ENUMERATIONS = ("IntervalStrategy", "SchedulerType")  # whose members have their values as names, in capitals
_LOADERS = ("from_pretrained", "from_config")


class KeywordArgument(NamedTuple):
    """A keyword of a call: its value, UNKNOWN if it is computed, and where it stands."""

    value: Any
    place: CodePlace


class TrainingScript(NamedTuple):
    """``stack`` is None if it is not known, or if there are several.

    ``parses_flags`` says that training arguments come from the command line. ``defaults`` are those of the script's own
    class, over those of transformers if ``has_known_defaults``; ``keywords`` are of a call of TrainingArguments, and of
    that of ``Trainer.train``; ``sets`` are the fields that the script changes or does not use. ``models`` are the calls
    that load the model that it trains, ``arguments`` those of its command line, and ``model_classes`` the classes of
    transformers that it loads, None for others. ``may_run_own_models`` is false if all models are of classes of
    transformers. ``sets_leaf_modules`` says that it names modules that ZeRO-3 gathers as a whole. ``config`` is the
    path of a DeepSpeed config that it names, and ``fills_in`` says that what takes it adds keys, as Lightning adds the
    batch size. ``is_configured_by_trl`` says that its training arguments are of a class of trl. ``ranks`` are those
    that it starts itself, None if it starts none. ``engine_line`` is the first line that connects the ranks,
    and ``config_line`` the one that takes the config which it names; the last line of all if a function has them.
    """

    stack: Stack | None
    parses_flags: bool
    has_known_defaults: bool
    defaults: dict[str, Any]
    keywords: dict[str, KeywordArgument]
    sets: frozenset[str]
    models: tuple[ModelSource, ...]
    arguments: dict[str, ScriptArgument]
    model_classes: frozenset[str | None]
    sets_leaf_modules: bool
    may_run_own_models: bool
    config: str | None
    fills_in: bool
    is_configured_by_trl: bool
    calls: ScriptCalls
    ranks: OwnRanks | None
    engine_line: int
    config_line: int


def read_training_script(text: str) -> TrainingScript | None:
    """What a script shows; None if Python does not parse it."""
    try:
        return _read(ModuleNames(parsed(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _read(names: ModuleNames) -> TrainingScript:
    called = {dotted_name(call.func).rpartition(".")[2]: call for call in names.calls}
    classes = {node.name: node for node in names.every(ast.ClassDef)}
    calls = [call for call in names.calls if ARGUMENTS.fullmatch(dotted_name(call.func).rpartition(".")[2])]
    calls = _given_to_trainer(names, calls) if len(calls) > 1 else calls
    parses_flags = any(parser in called for parser in _PARSERS)
    is_one_call = len(calls) == 1 and all(keyword.arg is not None for keyword in calls[0].keywords)
    keywords = dict(_keywords(calls[0])) if is_one_call and not parses_flags else {}
    keywords.update(_resumed(names))
    used = _parsed_classes(names) if parses_flags else [dotted_name(calls[0].func)] if is_one_call else []
    if parses_flags and calls:  # one of them may replace the other
        used = []
    trained, imported = TrainedNames(names), ImportedNames(names)
    model_classes = frozenset(imported.in_transformers(owner) for owner, _ in _loads(names))
    options = script_arguments(names)
    sources = SourceReader(trained, imported, options)
    return TrainingScript(
        stack=_stack(names, called),
        parses_flags=parses_flags,
        has_known_defaults=bool(used) and all(_is_of_transformers(one, imported, classes) for one in used),
        defaults={name: value for one in classes.values() if _is_arguments(one) for name, value in _defaults(one)},
        keywords=keywords,
        sets=frozenset((*_set_fields(names), *(_OF_OPTIMIZERS if _passes_optimizers(names) else ()))),
        models=tuple(sources.sources()),
        arguments=options,
        model_classes=model_classes,
        sets_leaf_modules=any(name.startswith("set_z3_leaf_module") for name in called),
        may_run_own_models=not model_classes or None in model_classes or _runs_own_code(names),
        config=next(configs(names), None),
        fills_in=_LIGHTNINGS in called,
        is_configured_by_trl=any(
            _is_of_trl(one, imported) for one in (*used, *(dotted_name(call.func) for call in calls))
        ),
        calls=read_calls(trained, imported, sources),
        ranks=own_ranks(names, imported),
        engine_line=_first_line(names, [call for call in names.calls if connects_ranks(call)]),
        config_line=_first_line(names, list(calls_with_config(names))),
    )


def _stack(names: ModuleNames, called: dict[str, ast.Call]) -> Stack | None:
    """Who makes the engine, told by what the script calls."""
    found: list[Stack] = []
    if any(dotted_name(call.func) in ("deepspeed.initialize", "ds.initialize") for call in names.calls):
        found.append("deepspeed")
    if _LIGHTNINGS in called:  # which calls deepspeed.initialize
        found.append("deepspeed")
    if any(re.fullmatch(r"\w*Trainer", name) for name in called) and "fit" not in called:
        found.append("trainer")
    if "Accelerator" in called and "trainer" not in found:
        found.append("accelerate")
    return found[0] if len(found) == 1 else None


def _first_line(names: ModuleNames, calls: list[ast.Call]) -> int:
    """The line of the first of these calls; the last line of the module if a function makes one, or nothing does."""
    is_in_module = all(isinstance(names.places[call].scope, ast.Module) for call in calls)
    last = max((one.end_lineno or one.lineno for one in names.module.body), default=1)
    return min((call.lineno for call in calls), default=last) if is_in_module else last


def _parsed_classes(names: ModuleNames) -> list[str]:
    """The classes of training arguments that the command line is parsed into."""
    for call in names.calls:
        if dotted_name(call.func).rpartition(".")[2] in _PARSERS and call.args:
            first = call.args[0]
            found = [dotted_name(one) for one in (first.elts if isinstance(first, (ast.Tuple, ast.List)) else [first])]
            return [one for one in found if "Training" in one or "Config" in one] or found
    return []


def _is_of_transformers(name: str, imported: ImportedNames, classes: dict[str, ast.ClassDef]) -> bool:
    """Whether a class has the defaults of transformers, but for those that the script itself writes."""
    last = name.rpartition(".")[2]
    if last in classes:
        return all(_is_of_transformers(dotted_name(base), imported, classes) for base in classes[last].bases)
    return last.endswith("TrainingArguments") and imported.in_transformers(name) is not None


def _is_of_trl(name: str, imported: ImportedNames) -> bool:
    """Whether a class of training arguments is one of trl's own."""
    full = imported.full_name(name)
    return full.partition(".")[0] == "trl" and full.endswith("Config")


def _passes_optimizers(names: ModuleNames) -> bool:
    """Whether a Trainer is given an optimizer or a scheduler, or makes its own."""
    return "create_optimizer" in names.functions or any(
        keyword.arg in ("optimizers", "optimizer_cls_and_kwargs") for call in names.calls for keyword in call.keywords
    )


def _is_arguments(node: ast.ClassDef) -> bool:
    return any(ARGUMENTS.fullmatch(dotted_name(base).rpartition(".")[2]) for base in node.bases)


def _defaults(node: ast.ClassDef) -> Iterator[tuple[str, Any]]:
    """The fields of a dataclass with their defaults."""
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            value = statement.value
            if isinstance(value, ast.Call) and dotted_name(value.func).rpartition(".")[2] in ("field", "Field"):
                value = next((keyword.value for keyword in value.keywords if keyword.arg == "default"), value)
            yield statement.target.id, _literal(value)


def _given_to_trainer(names: ModuleNames, calls: list[ast.Call]) -> list[ast.Call]:
    """Of several calls of TrainingArguments the one whose object the only Trainer gets; all if that does not show."""
    trainers = [call for call in names.calls if re.fullmatch(r"\w*Trainer", dotted_name(call.func).rpartition(".")[2])]
    if len(trainers) != 1:
        return calls
    given = next((one.value for one in trainers[0].keywords if one.arg == "args"), None)
    given = given or next(iter(trainers[0].args[1:2]), None)
    reaching = names.reaching(given.id, given) if isinstance(given, ast.Name) else None
    return [call for call in calls if reaching is not None and call is reaching.value] or calls


def _resumed(names: ModuleNames) -> Iterator[tuple[str, KeywordArgument]]:
    """From which checkpoint the Trainer is told to resume by the only call that trains."""
    calls = [call for call in names.calls if dotted_name(call.func).endswith("trainer.train")]
    for name, keyword in _keywords(calls[0]) if len(calls) == 1 else ():
        if name == "resume_from_checkpoint" and isinstance(keyword.value, (bool, str)) and keyword.value:
            yield name, keyword


def _keywords(call: ast.Call) -> Iterator[tuple[str, KeywordArgument]]:
    for keyword in call.keywords:
        if keyword.arg is not None:
            yield keyword.arg, KeywordArgument(_literal(keyword.value), place(keyword))


def _literal(node: ast.expr | None) -> Any:
    """The value of a literal, or of an enumeration of transformers; UNKNOWN for anything else."""
    if isinstance(node, ast.Attribute) and dotted_name(node.value).rpartition(".")[2] in _ENUMERATIONS:
        return node.attr.lower()
    try:
        value = UNKNOWN if node is None else ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return UNKNOWN
    return value if value is None or isinstance(value, (bool, int, float, str, list)) else UNKNOWN


def _set_fields(names: ModuleNames) -> Iterator[str]:
    """The attributes that the script gives to an object of arguments."""
    for node in names.every(ast.Attribute):
        if isinstance(node.ctx, ast.Store) and _OBJECTS.fullmatch(dotted_name(node.value).rpartition(".")[2]):
            yield node.attr
    for call in names.calls:
        if dotted_name(call.func) == "setattr" and len(call.args) > 1:
            name = _literal(call.args[1])
            if isinstance(name, str):
                yield name


def _runs_own_code(names: ModuleNames) -> bool:
    """Whether models may be of the code beside their weights, or DeepSpeed recompute activations for the script."""
    is_trusted = any(one.arg in (None, "trust_remote_code") for _, call in _loads(names) for one in call.keywords)
    return is_trusted or any("checkpointing" in dotted_name(call.func).split(".") for call in names.calls)


def _loads(names: ModuleNames) -> Iterator[tuple[str, ast.Call]]:
    """The calls that load models, each with the class."""
    for call in names.calls:
        owner, _, method = dotted_name(call.func).rpartition(".")
        if (method in _LOADERS and "Model" in owner) or (method == "from_pretrained" and "For" in owner):
            yield owner, call
