"""A call in a program that makes a DeepSpeed config of its keywords, as the rules see it.

Sources: ``DeepSpeedPlugin`` in ``accelerate/utils/dataclasses.py``, whose keywords outweigh the environment, and
``DeepSpeedStrategy`` in ``lightning/pytorch/strategies/deepspeed.py``, whose ``register_strategies`` gives names to
calls, which ``Trainer`` and ``Fabric`` take in their place.
"""

from __future__ import annotations

from ds_lint.knowledge import tables
from ds_lint.knowledge.expressions import evaluate
from ds_lint.knowledge.stacks import records
from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.semantics.accelerate.deepspeed_config import PRECISION, SETTINGS, add_precision, fill, setting_of
from ds_lint.semantics.made_config import MadeConfig, SourceSetting, setting_node
from ds_lint.source.spelling import AUTO
from ds_lint.source.tree import Member, Node, Span, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ds_lint.knowledge.keys import Knowledge
    from ds_lint.knowledge.records import StackFacts, StackTable
    from ds_lint.source.document import Document
    from ds_lint.source.tree import KeyPath

_GIVEN = {"DeepSpeedPlugin": "hf_ds_config", "DeepSpeedStrategy": "config"}  # the keyword of a whole config
_NAMES: dict[str, StackTable] = {"Trainer": "trainer_names", "Fabric": "fabric_names"}  # by who takes one
# What the Trainer of Lightning adds to the config of the strategy.
_ADDED: tuple[KeyPath, ...] = (
    ("train_micro_batch_size_per_gpu",),
    ("gradient_accumulation_steps",),
    ("gradient_clipping",),
    ("fp16", "enabled"),
    ("bf16", "enabled"),
)


class ConfigCall:
    """The call. ``made`` is None if it is given a whole config, or may be, or has a name that is not registered."""

    __slots__ = ("_alias", "_keywords", "_knowledge", "_root", "_taker", "given", "is_open", "made", "name")

    def __init__(self, document: Document, knowledge: Knowledge) -> None:
        names = _NAMES.get(document.kind)  # the document is a word then
        self.name: str = document.kind if names is None else "DeepSpeedStrategy"  # of the class
        self.given = _GIVEN[self.name]
        self.is_open = document.is_fragment  # there may be further keywords
        self._root = document.root or Node("object", Span(0, 0))
        self._alias: StackFacts | None = None
        if names is not None:
            self._alias = _of_lightning(names).get(str(self._root.value), {})
            self._root = _written_at(self._root.span, self._alias.get("keywords", {}))
        self._taker = document.taker
        self._knowledge = knowledge
        is_plugin = self.name == "DeepSpeedPlugin"
        self._keywords: dict[str, StackFacts] = (
            knowledge.table("accelerate", "plugin") if is_plugin else _of_lightning("strategy")
        )
        given = self._root.get(self.given)
        self.made: MadeConfig | None = None
        if self._alias == {}:
            return
        if (given is None or given.kind == "null") and (
            not is_plugin or knowledge.stack_does("launch-checks-the-file")
        ):
            self.made = MadeConfig((), self._root.span)
            if is_plugin:
                self._fill_as_plugin(self.made)
            else:
                self._fill_as_strategy(self.made)

    @property
    def keywords(self) -> list[str]:
        """The keywords that the class takes."""
        return list(self._keywords)

    @property
    def strangers(self) -> list[Member]:
        """The keywords that the class does not take."""
        return [member for member in self._root.members if member.key not in self._keywords]

    def named_by_deepspeed(self, name: str) -> str | None:
        """The keyword for what DeepSpeed calls by this name; None if there is none, or several."""
        if self.name == "DeepSpeedPlugin":
            keywords = {path: keyword for path, keyword in SETTINGS.items() if path[-1] == name}
        else:
            table = _of_lightning("strategy_config")
            keywords = {
                (path,): facts["keyword"]
                for path, facts in table.items()
                if "keyword" in facts and path.rpartition(".")[2] == name
            }
        return next(iter(keywords.values())) if len(set(keywords.values())) == 1 else None

    def arrival(self, name: str) -> str | None:
        """The release in which a keyword is new, if the target is older."""
        if self.name != "DeepSpeedPlugin":
            return None
        store = tables.load("accelerate")
        releases, runs = store["releases"], store["plugin"].get(name, {}).get("runs", [])
        target = releases.index(self._knowledge.target["accelerate"])
        return next((run["since"] for run in runs if releases.index(run["since"]) > target), None)

    @property
    def library(self) -> str:
        """The library that makes the config, and its release."""
        if self.name == "DeepSpeedPlugin":
            return f"Accelerate {self._knowledge.target['accelerate']}"
        return f"Lightning {tables.load('lightning')['releases'][-1]}"

    @property
    def precision(self) -> Any:
        """The precision of the ``Accelerator`` that takes the plugin."""
        return self._precision().value

    def key(self, path: KeyPath | None) -> KeyPath:
        """The keyword for a key of the config that is made; empty for a default. A name has no keywords."""
        if self._alias is not None:
            return path or ()
        return self.made.source(path) if self.made is not None else ()

    def is_default(self, path: KeyPath) -> bool:
        """Whether no keyword sets a value of the config that is made."""
        return self.made is not None and self.made.is_default(path)

    def advice(self, path: KeyPath | None) -> str:
        """Where in the call to do what a message advises for a key of the config that is made."""
        name = self._keyword(path)
        if self._alias is not None:
            written = "".join(f", {one}={value!r}" for one, value in self._alias["keywords"].items())
            return (
                f"Pass a call instead of the name, `DeepSpeedStrategy({written[2:]})`: the keyword for it is `{name}`."
                if name is not None
                else "Pass a call instead of the name, `DeepSpeedStrategy(config=...)`, with a DeepSpeed config."
            )
        if name == PRECISION:
            return "Here, it is the `mixed_precision` of `Accelerator`."
        if name is not None:
            return f"In this call, the keyword is `{name}`."
        return f"In this call, pass a DeepSpeed config as `{self.given}`, and set it there."

    def _keyword(self, path: KeyPath | None) -> str | None:
        if self.name == "DeepSpeedPlugin":
            return setting_of(path)
        return _of_lightning("strategy_config").get(".".join(path or ()), {}).get("keyword")

    def _fill_as_plugin(self, made: MadeConfig) -> None:
        paths = [f"offload_{what}_nvme_path" for what in ("optimizer", "param")]
        known = [*SETTINGS.values(), *(name for name in paths if name in self._keywords)]
        fields = {name: self._setting(name, _default_of_plugin(name, self._keywords[name])) for name in known}
        fill(made, fields)
        if self._root.get("enable_msamp") is not None:
            made.add(("msamp",), UNKNOWN, self._setting("enable_msamp", UNKNOWN))
        add_precision(made, self._precision())

    def _precision(self) -> SourceSetting:
        """What the taker is given; otherwise the environment tells."""
        member = self._taker.member(PRECISION) if self._taker is not None else None
        if member is None or member.value.kind != "string":
            return SourceSetting(UNKNOWN)
        return SourceSetting(member.value.value, (PRECISION,), member)

    def _fill_as_strategy(self, made: MadeConfig) -> None:
        settings = {
            name: self._setting(name, facts.get("default", UNKNOWN), takes_null=True)
            for name, facts in self._keywords.items()
        }
        unknown: list[str] = []  # sections that may not be there
        absent: list[str] = []
        for path, facts in sorted(_of_lightning("strategy_config").items()):
            if path.startswith(tuple(f"{section}." for section in (*unknown, *absent))):
                continue
            is_there = _all_hold(facts.get("only_if", []), settings)
            if is_there is UNKNOWN:
                unknown.append(path)
                made.add(tuple(path.split(".")), UNKNOWN)
            elif not is_there:
                absent.append(path)
            elif "keyword" in facts:
                setting = settings[facts["keyword"]]
                made.add(tuple(path.split(".")), setting.value, setting)
            elif (keyword := _only_keyword(facts.get("only_if", []), settings)) is not None:
                made.sections[tuple(path.split("."))] = keyword
        for added in _ADDED:
            if made.root.at(added) is None:
                made.add(added, UNKNOWN)

    def _setting(self, name: str, default: Any, *, takes_null: bool = False) -> SourceSetting:
        """A keyword, or its default if it is not written, or None and the class takes that for missing."""
        member = self._root.member(name)
        if member is None or (member.value.kind == "null" and not takes_null):
            return SourceSetting(UNKNOWN if self.is_open and member is None else default)
        node = member.value
        if node.kind in ("object", "array"):
            return SourceSetting(node, (name,), member)
        return SourceSetting(UNKNOWN if node.kind == "template" else node.value, (name,), member)


def _written_at(span: Span, keywords: dict[str, Any]) -> Node:
    """Keywords as a call has them, all of which are at one word."""
    members = [Member(name, span, setting_node(value, span)) for name, value in keywords.items()]
    return Node("object", span, None, members)


def _only_keyword(conditions: list[str], settings: dict[str, SourceSetting]) -> KeyPath | None:
    """The keyword that is written and alone brings a section; None if that is a default."""
    return settings[conditions[0]].path if len(conditions) == 1 and conditions[0] in settings else None


def _all_hold(conditions: list[str], settings: dict[str, SourceSetting]) -> Any:
    """Whether all of these expressions over keywords are true; UNKNOWN if one is not known and no other is false."""

    def value_of(name: str) -> Any:
        value = settings[name].value if name in settings else UNKNOWN
        return plain(value) if isinstance(value, Node) else value

    values = [evaluate(condition, value_of) for condition in conditions]
    if any(value is not UNKNOWN and not value for value in values):
        return False
    return UNKNOWN if UNKNOWN in values else True


def _of_lightning(table: StackTable) -> dict[str, StackFacts]:
    """A table of the newest known release, as a project's release is not looked up; the config never changed."""
    store = tables.load("lightning")
    return records(store, table, store["releases"][-1])


def _default_of_plugin(name: str, facts: StackFacts) -> Any:
    """What a field becomes if neither a keyword nor the environment sets it."""
    otherwise = facts.get("otherwise")
    if name == "gradient_clipping":
        return AUTO if otherwise == AUTO else None
    return otherwise == "true" if name == "zero3_save_16bit_model" else otherwise
