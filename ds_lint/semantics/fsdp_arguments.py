"""``fsdp`` and ``fsdp_config`` of the training arguments: with what they raise, and which keys nothing reads.

Source: ``_process_fsdp_args`` in ``transformers/training_args.py``, which makes arguments of the plugin of them.
Before transformers 5.10.1 it works in other ways (``fsdp_arguments_before.py``).
"""

from __future__ import annotations

from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.semantics.accelerate.conversions import flag
from ds_lint.semantics.accelerate.refusal import is_integer, listed
from ds_lint.source.counts import count
from ds_lint.source.spelling import as_json
from ds_lint.source.tree import plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ds_lint.facts.training import Argument, TrainingArguments
    from ds_lint.knowledge.records import StackFacts
    from ds_lint.semantics.config import Config
    from ds_lint.semantics.fsdp_arguments_before import OlderFsdpArguments, Trouble
    from ds_lint.source.document import Document
    from ds_lint.source.tree import Node

_OPTIONS = ("full_shard", "shard_grad_op")  # of FSDP 2, in small letters only
_OTHERS = ("offload", "auto_wrap")
_PREFETCH = "backward_prefetch"
# What FSDP 2 does anyway.
_ANYWAY = {
    "use_orig_params": "true",
    "sync_module_states": "true",
    "limit_all_gathers": "true",
    _PREFETCH: "backward_pre",
}


class FsdpArguments:
    """The two arguments as one release reads them; ``values`` has the names without ``fsdp_``."""

    __slots__ = ("_keys", "_words", "_written", "argument", "file", "given", "values", "version")

    switch = "Write `fsdp=True`, as a flag `--fsdp` without a value; `fsdp_config` has the settings."

    def __init__(self, config: Config, argument: Argument, given: Argument | None, values: dict[str, Any]) -> None:
        self._keys: dict[str, StackFacts] = config.knowledge.table("transformers", "fsdp_config")
        self._words = config.knowledge.table("accelerate", "words")
        self.argument = argument
        self.given = given
        self.file: Document | None = None  # the JSON that ``fsdp_config`` names
        self._written = sorted(values, key=lambda name: name.startswith("fsdp_"))  # those count that come last
        self.values = {name.removeprefix("fsdp_"): values[name] for name in self._written}
        version = self.values.get("version", 2)
        self.version = int(version) if isinstance(version, (int, float, str)) and is_integer(version) else None

    @property
    def is_on(self) -> bool:
        """Whether the Trainer makes a plugin: FSDP is on, and not that of XLA."""
        return bool(self.argument.value) and not self.values.get("xla")

    @property
    def policy(self) -> Any:
        """The policy by which the model is wrapped."""
        policies = self._choices("FSDP_AUTO_WRAP_POLICY")
        return self.values.get("auto_wrap_policy", policies[0] if policies else None)

    def refusals(self) -> Iterator[Trouble]:
        """Why TrainingArguments or the plugin raises."""
        if self.version is None:
            yield self._wrong("version", "not a whole number", "Write 1 or 2.")
        if self.version not in (1, 2):
            return
        yield from self._options()
        for name, facts in self._keys.items():
            if name in self.values and self.version in facts.get("flag_for", ()) and flag(self.values[name]) is None:
                yield self._wrong(name, "neither true nor false", "Write true or false.")
        policies = self._choices("FSDP_AUTO_WRAP_POLICY")
        policy = self.policy
        if policy not in policies:
            yield self._wrong("auto_wrap_policy", f"not one of {listed(policies)}", "Write one of these words.")
        elif policy == policies[1] and not isinstance(self.values.get("min_num_params", 0), (int, float)):
            yield self._wrong("min_num_params", "not a number", "Write a number.")
        yield from self._words_of_plugin()

    def unread(self) -> Iterator[tuple[str, str, str]]:
        """The keys that nothing reads, as they are written, why, and what to do."""
        if self.version not in (1, 2):
            return
        policies = self._choices("FSDP_AUTO_WRAP_POLICY")
        policy = self.policy
        for written in self._written:
            name = written.removeprefix("fsdp_")
            facts = self._keys.get(name)
            if facts is None:
                from ds_lint.knowledge.suggestions import choice  # difflib costs start-up

                meant = choice(name, list(self._keys)) or _MEANT.get(name)
                yield written, "the Trainer has no such key", f"Write `{meant}`." if meant else "Delete the key."
            elif f"fsdp_{written}" in self._written:
                yield written, f"`fsdp_{written}` sets it, too", "Delete one of the two."
            elif self.version not in facts["versions"]:
                yield written, f"FSDP {self.version} does not read it", "Delete the key."
            elif "policy_number" in facts and policy in policies and policy != policies[facts["policy_number"]]:
                needed = policies[facts["policy_number"]]
                why = f"`auto_wrap_policy` is {policy}, and only {needed} reads it"
                yield written, why, f"Set `auto_wrap_policy` to {needed}, or delete the key."

    def is_telling(self, written: str) -> bool:
        """Whether a key that nothing reads asks for something that the run would not do anyway."""
        name = written.removeprefix("fsdp_")
        value = self.values[name]
        return bool(value) and str(value).lower() not in ("false", _ANYWAY.get(name))

    def _options(self) -> Iterator[Trouble]:
        """The words of ``fsdp``, which older releases needed instead of true."""
        value = self.argument.value
        strategies = self._choices("FSDP_SHARDING_STRATEGY")
        for word in value.split() if isinstance(value, str) else value if isinstance(value, list) else ():
            is_strategy = isinstance(word, str) and word.upper() in strategies
            if is_strategy and self.version == 2 and word not in _OPTIONS:
                what = f"`fsdp` is {word}, and FSDP 2 takes only {listed([*_OPTIONS])}"
                yield "fsdp", what, self.switch
            elif not is_strategy and word not in _OTHERS:
                yield "fsdp", f"`fsdp` has an unknown option, {word}", self.switch

    def _words_of_plugin(self) -> Iterator[Trouble]:
        kinds = self._choices("FSDP_STATE_DICT_TYPE")
        kind = self.values.get("state_dict_type")
        if isinstance(kind, str) and count(kind) is None and kind.upper() not in kinds:
            yield self._wrong("state_dict_type", f"not one of {listed(kinds)}", "Write one of these words.")
        elif isinstance(kind, str) and self.version == 2 and kind.upper() == kinds[1]:
            what = f"`state_dict_type` is {kinds[1]}, and FSDP 2 does not take it"
            yield self.as_written("state_dict_type"), what, f"Write {kinds[0]} or {kinds[2]}."
        if self.version == 1:
            yield from self._word(_PREFETCH, "FSDP_BACKWARD_PREFETCH", 2)  # torch has no number for no prefetch
            yield from self._word("reshard_after_forward", "FSDP_SHARDING_STRATEGY", 5)

    def _word(self, name: str, constant: str, numbers: int) -> Iterator[Trouble]:
        """A value of FSDP 1 that is a word or one of the numbers that torch has for them."""
        text, words = str(self.values.get(name)), self._choices(constant)
        is_number = 0 < (count(text) or 0) <= numbers
        if name in self.values and not is_number and text.upper() not in words:
            yield self._wrong(name, f"not one of {listed(words)}", "Write one of these words.")

    def _wrong(self, name: str, problem: str, advice: str) -> Trouble:
        what = f"`{name}` of `fsdp_config` is {as_json(self.values[name])}, {problem}"
        return self.as_written(name), what, advice

    def as_written(self, name: str) -> str:
        """A key as it is written; the last one that counts."""
        return next((one for one in reversed(self._written) if one.removeprefix("fsdp_") == name), name)

    def _choices(self, name: str) -> list[str]:
        return self._words.get(name, {}).get("choices", [])


# Accelerate's name for a key of the Trainer.
_MEANT = {"offload_params": "cpu_offload", "sharding_strategy": "reshard_after_forward"}


def fsdp_arguments(config: Config) -> FsdpArguments | OlderFsdpArguments | None:
    """The two arguments; None if they are not known, or it is not known what the release does with them."""
    if config.facts.training is None or not config.knowledge.table("transformers", "fsdp_config"):
        return None
    argument, given = _given(config, "fsdp"), _given(config, "fsdp_config")
    values = _dictionary(given.value) if given is not None and given.value is not None else {}
    launch = config.facts.launch
    file = launch.fsdp_config if launch is not None and isinstance(values, str) else None
    if file is not None and file.root is not None:
        values = plain(file.root)
    is_known = argument is not None and given is not None and isinstance(values, dict)
    if argument is None or argument.value is UNKNOWN or not is_known or UNKNOWN in values.values():
        return None
    if config.knowledge.table("transformers", "fsdp_before"):
        from ds_lint.semantics.fsdp_arguments_before import OlderFsdpArguments  # most targets are newer

        older = OlderFsdpArguments(config, argument, given, values, is_file=file is not None)
        older.file = file
        return older
    arguments = FsdpArguments(config, argument, given, values)
    arguments.file = file
    return arguments


def _given(config: Config, name: str) -> Argument | None:
    """An argument: that of the call in the document, if it has one."""
    document = config.document
    if document.kind == "TrainingArguments" and document.command is None:
        found = arguments_of_call(document)
        if name in found.given:
            return found.given[name]
        if document.is_fragment:
            return None
    return config.argument(name)


def arguments_of_call(document: Document) -> TrainingArguments:
    """The keywords of a call in a program as training arguments."""
    from ds_lint.facts.training import Argument, TrainingArguments

    members = document.root.members if document.root is not None else []
    origin = f"{document.path}:{document.position(document.root.span.start)[0]}" if document.root else document.path
    given = {one.key: Argument(_literal(one.value), origin, document, one.value.span) for one in members}
    found = TrainingArguments(given, origin, are_taken=True)
    return found.without_defaults() if document.is_fragment else found


def _literal(node: Node) -> Any:
    """The value of a node; UNKNOWN for what only a run shows, also for a whole list with such an element."""
    if node.kind == "object":
        return {member.key: _literal(member.value) for member in node.members}
    if node.kind == "array":
        items = [_literal(item) for item in node.items]
        return UNKNOWN if UNKNOWN in items else items
    return UNKNOWN if node.kind == "template" else node.value


def _dictionary(value: Any) -> Any:
    """What TrainingArguments make of the text of a flag that looks like a dict; any other text is a path."""
    if not isinstance(value, str) or not value.startswith("{"):
        return value
    from json import JSONDecodeError, loads

    try:
        return {name: _number(one) for name, one in loads(value).items()}
    except JSONDecodeError:
        return value


def _number(value: Any) -> Any:
    """The number that TrainingArguments make of a text in such a dict."""
    return float(value) if isinstance(value, str) and value.replace(".", "", 1).isdecimal() else value
