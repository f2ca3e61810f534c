"""What Megatron-DeepSpeed makes of the options of a launch, and whether it refuses them.

``schemas/megatron.json`` has the options of several editions of it, and what each sets and asserts after it has parsed
them. What an edition does not know is an option of another one; what the editions disagree about is unknown.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from ds_lint.knowledge import tables
from ds_lint.knowledge.expressions import evaluate
from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.launches.megatron import is_megatron
from ds_lint.launches.options import is_flag

if TYPE_CHECKING:
    from ds_lint.facts.launched import LaunchFacts
    from ds_lint.knowledge.records import MegatronEdition, MegatronOption, MegatronStep
    from ds_lint.launches.word import Word

# Of ``add_config_arguments`` in ``deepspeed/__init__.py``, and of launchers.
_OF_DEEPSPEED: dict[str, MegatronOption] = {
    "--deepspeed": {"dest": "deepspeed", "takes": "0", "bare": True, "default": False},
    "--deepspeed_config": {"dest": "deepspeed_config", "takes": "1", "kind": "text", "default": None},
    "--deepspeed_mpi": {"dest": "deepspeed_mpi", "takes": "0", "bare": True, "default": False},
}
_OF_LAUNCHER = ("args.rank", "args.world_size")
_MEMBER = re.compile(r"[A-Z]\w*\.[a-z]\w*")  # of an enumeration, which stands for itself


class MegatronRefusal(NamedTuple):
    """An assertion that fails: its message, or else its source, and the arguments that it looks at."""

    raises: str
    message: str
    source: str
    looks_at: dict[str, Any]


class MegatronArguments(NamedTuple):
    """``values`` are the arguments after parsing, as far as they are known; ``given`` those that the launch gives."""

    values: dict[str, Any]
    given: frozenset[str]
    sets_batch_size: bool  # of DeepSpeed, in each iteration
    refusal: MegatronRefusal | None

    def value(self, name: str) -> Any:
        """The value of an argument; UNKNOWN if it is not known."""
        return self.values.get(f"args.{name}", UNKNOWN)


def megatron_arguments(launch: LaunchFacts) -> MegatronArguments | None:
    """The arguments of a launch of Megatron-DeepSpeed; None if it is none, or of no edition that is known."""
    words = tuple(launch.launch.flags)
    if not is_megatron(words, launch.script_text):
        return None
    return _arguments(_Started(words, launch.world_size, launch.is_open))


def ranks_that_count(launch: LaunchFacts) -> int | None:
    """The number of ranks with data of their own, by which DeepSpeed multiplies; None if it is not known.

    Ranks that share a sequence count in another way.
    """
    arguments = megatron_arguments(launch)
    if arguments is None or arguments.refusal is not None or _shares_sequences(arguments):
        return None
    found = arguments.value("data_parallel_size")
    return found if isinstance(found, int) else None


def _shares_sequences(arguments: MegatronArguments) -> bool:
    return "args.ds_sequence_parallel_size" in arguments.values and arguments.value("ds_sequence_parallel_size") != 1


def builds_pipeline(launch: LaunchFacts) -> bool:
    """Whether the script builds a pipeline unless ``--no-pipeline-parallel`` is given, as pretrain_gpt.py does."""
    script = launch.script_text
    if script is None:
        return os.path.basename(launch.launch.script or "") == "pretrain_gpt.py"
    return "GPTModelPipe(" in script and "no_pipeline_parallel" in script


class _Started(NamedTuple):
    """A launch as far as it decides: its words, its ranks, and whether it may have other words."""

    words: tuple[Word, ...]
    world_size: int | None
    is_open: bool


@lru_cache(maxsize=256)
def _arguments(started: _Started) -> MegatronArguments | None:
    found = [one for edition in tables.load("megatron")["editions"] if (one := _of(edition, started)) is not None]
    if not found:
        return None
    first, rest = found[0], found[1:]
    values = {name: value for name, value in first.values.items() if all(_same(one, name, value) for one in rest)}
    refusal = first.refusal if all(one.refusal is not None for one in rest) else None
    return first._replace(values=values, refusal=refusal, sets_batch_size=all(one.sets_batch_size for one in found))


def _same(other: MegatronArguments, name: str, value: Any) -> bool:
    """Whether another edition has the same value, or no such argument."""
    return name not in other.values or repr(other.values[name]) == repr(value)


def _of(edition: MegatronEdition, started: _Started) -> MegatronArguments | None:
    options = {**edition["options"], **_OF_DEEPSPEED}
    given = _parsed(started.words, options)
    if given is None:
        return None
    ranks = UNKNOWN if started.world_size is None else started.world_size
    values: dict[str, Any] = {"args.world_size": ranks, "args.rank": UNKNOWN}
    for option in options.values():
        values[f"args.{option['dest']}"] = UNKNOWN if started.is_open else option.get("default", UNKNOWN)
    values.update({f"args.{name}": value for name, value in given.items()})
    refusal = next((one for step in edition["steps"] if (one := _taken(step, values)) is not None), None)
    return MegatronArguments(values, frozenset(given), edition["sets_batch_size"], refusal)


def _parsed(words: tuple[Word, ...], options: dict[str, MegatronOption]) -> dict[str, Any] | None:
    """The arguments that the words give, as argparse takes them; None if one is not known."""
    found: dict[str, Any] = {}
    left = list(words)
    while left:
        word = left.pop(0)
        if word is None:
            continue  # of which nothing is known but that it gives no option
        name, sign, value = word.partition("=")
        option = options.get(name)
        if option is None:
            return None
        taken: list[Word] = [value] if sign else []
        while left and not sign and option["takes"] != "0" and (left[0] is None or not is_flag(left[0])):
            taken.append(left.pop(0))
            if option["takes"] in ("1", "?"):
                break
        if option["takes"] == "0":
            found[option["dest"]] = option["bare"]
        elif option["takes"] == "1" and taken:
            found[option["dest"]] = _converted(taken[0], option.get("kind", "?"))
        else:
            found[option["dest"]] = UNKNOWN if None in taken or not taken else taken
    return found


def _converted(text: Word, kind: str) -> Any:
    if text is None or kind == "?":
        return UNKNOWN
    try:
        return text if kind == "text" else int(text) if kind == "int" else float(text)
    except ValueError:
        return UNKNOWN


def _taken(step: MegatronStep, values: dict[str, Any]) -> MegatronRefusal | None:
    """Take a step: change the values, or say what is refused."""
    holds: bool | None = True
    for text, wanted in step.get("if", {}).items():
        value = _value(text, values)
        if value is UNKNOWN:
            holds = None
        elif bool(value) is not wanted:
            return None
    if (name := step.get("set")) is not None:
        if name not in _OF_LAUNCHER:
            values[name] = _value(step["to"], values) if holds else UNKNOWN
        return None
    found = _value(step["assert"], values)
    if not holds or found is UNKNOWN or found:
        return None
    message = step.get("message", [])
    shown = "".join(one if place % 2 == 0 else str(_value(one, values)) for place, one in enumerate(message))
    texts = [step["assert"], *step.get("if", {})]
    named = dict.fromkeys(re.findall(r"args\.(\w+)", " ".join(texts)))
    looks_at = {name: value for name in named if (value := values.get(f"args.{name}", UNKNOWN)) is not UNKNOWN}
    return MegatronRefusal(step.get("raises", "AssertionError"), shown, step.get("source", ""), looks_at)


def _value(text: str, values: dict[str, Any]) -> Any:
    try:
        return evaluate(text, lambda name: values.get(name, name if _MEMBER.fullmatch(name) else UNKNOWN))
    except (ArithmeticError, AttributeError, LookupError, SyntaxError, TypeError, ValueError):
        return UNKNOWN
