"""What the Trainer and Accelerate do to a config, stage by stage, as the facts of their releases tell."""

from __future__ import annotations

from ds_lint.knowledge.expressions import evaluate
from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.semantics.preparation.names import Names
from ds_lint.semantics.preparation.prepared_config import Mismatch, PreparedConfig, StackRefusal, StackValue
from ds_lint.source.spelling import AUTO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from ds_lint.knowledge.records import Source, StackFacts, StackLibrary, StackTable
    from ds_lint.semantics.config import Config
    from ds_lint.semantics.preparation.prepared_config import ConfigObject, PreparationStage
    from ds_lint.source.tree import KeyPath, Node

# The stages that TrainingArguments run as they are made.
_OF_CREATION = ("arguments", "plugin", "precision")
# What a library raises on a config of another shape than it expects.
_ERRORS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


class Stages:
    """The stages of one preparation, which change the config one after the other."""

    def __init__(self, config: Config) -> None:
        found = plain(config.written)
        self.values: ConfigObject = found if isinstance(found, dict) else {}
        self.prepared = PreparedConfig(self.values)
        self._knowledge = config.knowledge
        self._names = Names(config, self.values, self._table("accelerate", "plugin"))
        is_prepared_for_trainer = self._table("transformers", "requires")["accelerate"]["prepares"]
        self.is_prepared_by_accelerate = config.stack == "accelerate" or (
            config.stack == "trainer" and is_prepared_for_trainer
        )

    def run(self, library: StackLibrary, stage: PreparationStage, *, is_again: bool = False) -> None:
        """What a library does at a stage: it demands, adds what is missing, refuses, fills and matches, overwrites.

        It ``is_again`` if the Trainer does it once more as it trains.
        """
        self._names.refusals = self._table(library, "refusals")
        self._names.is_creation = stage in _OF_CREATION and not is_again
        try:
            if (library, stage) == ("accelerate", "prepare"):
                self._multiply()
            if (library, stage) == ("transformers", "training"):
                self._read_hidden_size()
            self._demand(library, stage)
            self._insert(library, stage)
            self._refuse(library, stage)
            self._fill(library, stage)
            self._overwrite(library, stage)
        except _ERRORS as error:
            message = f"{type(error).__name__}: {error}"
            self.prepared.refusals.append(StackRefusal(message, library, stage, is_trip=True))

    def _multiply(self) -> None:
        """The product of the batch sizes, which older releases have ready before they look who asks for it."""
        size = self.values.get("train_micro_batch_size_per_gpu")
        if size is None and self._knowledge.stack_does("micro-batch-size-is-multiplied-unasked"):
            raise TypeError("unsupported operand type(s) for *: 'NoneType' and 'int'")

    def _read_hidden_size(self) -> None:
        """The size of the model, which older releases read whatever the config says."""
        if self._knowledge.stack_does("hidden-size-is-read-unasked") and self._names.has_no_own_hidden_size():
            self.prepared.is_tripped_by_model = True
            raise AttributeError("the config of the model has no `hidden_size`")

    @property
    def are_matched_again(self) -> bool:
        """Whether the Trainer looks at the config again because it looks for a batch size that fits.

        Source: ``_update_auto_batch_size`` in ``transformers/trainer.py``.
        """
        fills = self._table("transformers", "fills").values()
        tells = any("matched_if" in source for facts in fills for source in facts["sources"])
        return tells and self._names.value("auto_find_batch_size") is True

    def look_for_autos(self) -> None:
        """Accelerate looks at every value in objects, and stops at an ``"auto"`` that is left."""
        pending: list[tuple[KeyPath, Any]] = [((), self.values)]
        for path, value in pending:
            if isinstance(value, dict):
                pending.extend(((*path, name), below) for name, below in value.items())
            elif value == AUTO and path not in self.prepared.unsized:
                self.prepared.left.append(path)

    def _table(self, library: StackLibrary, name: StackTable) -> dict[str, StackFacts]:
        return self._knowledge.table(library, name)

    def _of_stage(
        self, library: StackLibrary, table: StackTable, stage: PreparationStage
    ) -> Iterator[tuple[KeyPath, Source]]:
        """Every source of a table that is tried at this stage, by the path of its key."""
        for key, facts in self._table(library, table).items():
            for source in facts["sources"]:
                if source["at"] == stage:
                    yield tuple(key.split(".")), source

    def _demand(self, library: StackLibrary, stage: PreparationStage) -> None:
        for name, facts in self._table(library, "required").items():
            if facts["at"] == stage and name not in self.values:
                conditions = (f"{name} is missing",)
                self.prepared.refusals.append(
                    StackRefusal(f"`{name}` is missing", library, stage, conditions=conditions)
                )

    def _insert(self, library: StackLibrary, stage: PreparationStage) -> None:
        for path, source in self._of_stage(library, "inserts", stage):
            holds = self._hold(source.get("only_if", ()))
            if path[0] not in self.values and holds is not False:
                value = evaluate(source["with"], self._names.value) if holds else UNKNOWN
                self._set(path, StackValue(value, library, "inserted", source["with"]))

    def _refuse(self, library: StackLibrary, stage: PreparationStage) -> None:
        for message, facts in self._table(library, "refusals").items():
            if facts["at"] == stage and self._hold(facts["only_if"]):
                self.prepared.refusals.append(StackRefusal(message, library, stage, conditions=facts["only_if"]))

    def _fill(self, library: StackLibrary, stage: PreparationStage) -> None:
        is_worked_out = stage == "prepare" and self._names.value("batch_size_per_device") is not None
        for path, source in self._of_stage(library, "fills", stage):
            if is_worked_out:
                evaluate(source["from"], self._names.value)  # Accelerate does so, "auto" or not, and may trip over it
            section = self._section(path[:-1])
            written = section.get(path[-1]) if section is not None else None
            if written == AUTO:
                self._fill_auto(path, source, library)
            elif written is not None and source["matched"]:
                self._match(path, written, source)

    def _fill_auto(self, path: KeyPath, source: Source, library: str) -> None:
        holds = self._hold(source.get("only_if", ()))
        value = evaluate(source["from"], self._names.value) if holds else UNKNOWN
        if value is UNKNOWN and self._needs_hidden_size(source, library) and self._names.has_no_hidden_size():
            self.prepared.unsized.setdefault(path, library)
        elif holds is not False and value != AUTO:  # Accelerate's own "auto", which a later stage fills
            self._set(path, StackValue(value, library, "filled", source["from"]))

    def _needs_hidden_size(self, source: Source, library: str) -> bool:
        """Whether a library raises over this key where it finds no hidden size, also where it does not fill it."""
        if "hidden_size" not in source["from"]:
            return False
        return library == "transformers" or bool(self._hold(source.get("only_if", ())))

    def _match(self, path: KeyPath, written: Any, source: Source) -> None:
        condition = source.get("matched_if")
        holds = True if condition is None else self._holds(condition)
        if holds is False:
            return
        wanted = evaluate(source["from"], self._names.value)
        if wanted is not UNKNOWN and not holds_unknown(written) and written != wanted:
            only_if = None if holds else condition
            self.prepared.mismatches.append(Mismatch(path, written, wanted, source["from"], only_if))

    def _overwrite(self, library: StackLibrary, stage: PreparationStage) -> None:
        for path, source in self._of_stage(library, "overwrites", stage):
            if self._hold(source.get("only_if", ())):
                if len(path) > 1 and self._section(path[:1]) is None:
                    self._set(path[:1], StackValue({}, library, "inserted", "{}"))
                value = evaluate(source["with"], self._names.value)
                self._set(path, StackValue(value, library, "overwritten", source["with"]))

    def _set(self, path: KeyPath, setting: StackValue) -> None:
        section = self._section(path[:-1])
        if section is not None:
            section[path[-1]] = setting.value
            self.prepared.settings[path] = setting

    def _section(self, path: KeyPath) -> ConfigObject | None:
        """The object at a path, as ``find_config_node`` finds it; None where it is missing or unknown."""
        found: Any = self.values
        for name in path:
            found = found.get(name)  # an AttributeError where this is not an object, as in the libraries
            if found is None or found is UNKNOWN:
                return None
        if not isinstance(found, dict):
            raise AttributeError(f"'{type(found).__name__}' object has no attribute 'get'")  # noqa: TRY004 - as they do
        return found

    def _hold(self, conditions: Iterable[str]) -> bool | None:
        """Whether all of the conditions hold, which are nested; None where that is not known."""
        for condition in conditions:
            if not (holds := self._holds(condition)):
                return holds
        return True

    def _holds(self, condition: str) -> bool | None:
        section, _, there = condition.partition(" is ")
        if there in ("missing", "present"):
            return (section in self.values) == (there == "present")
        value = evaluate(condition, self._names.value)
        return None if value is UNKNOWN else bool(value)


def plain(node: Node, deepest: int = 100) -> Any:
    """The value that the libraries get for a node.

    The value of a placeholder is unknown, and what nests deeper than ``deepest`` does not matter.
    """
    if node.kind in ("template", "missing") or not deepest:
        return UNKNOWN
    if node.kind == "object":
        return {member.key: plain(member.value, deepest - 1) for member in node.members}
    return [plain(item, deepest - 1) for item in node.items] if node.kind == "array" else node.value


def holds_unknown(value: object) -> bool:
    """Whether a value is unknown, or something in it."""
    if isinstance(value, (dict, list)):
        return any(holds_unknown(below) for below in (value.values() if isinstance(value, dict) else value))
    return value is UNKNOWN
