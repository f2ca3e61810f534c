"""The trainers of trl that learn from preferences or rewards, as a script makes them."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any, NamedTuple

from ds_lint.frameworks.trl import ALIGNING_TRAINERS
from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.launches.script_code import ARGUMENTS, keyword, last_name, literal
from ds_lint.source.python_names import dotted_name

if TYPE_CHECKING:
    from ds_lint.launches.model_building import BuildReader
    from ds_lint.launches.script_code import ImportedNames
    from ds_lint.launches.trained_names import TrainedNames
    from ds_lint.source.python_names import ModuleNames


class AlignedTraining(NamedTuple):
    """A trainer of trl by its class there.

    ``reference`` is "own" if it makes its reference model itself or is given a copy of the trained one, "other" if it
    is given another one, None if that is not known. ``adapters`` are "yes", "no", "flags", which decide, or "maybe".
    ``is_precomputed`` says that the answers of the reference are computed before the training; None if it is not known.
    ``weight`` is its weight in the loss, UNKNOWN if it is computed. ``makes_adapter`` says that it certainly gets a
    ``peft_config`` and makes the adapters itself.
    """

    trainer: str
    reference: str | None
    adapters: str
    is_precomputed: bool | None
    weight: Any
    makes_adapter: bool


class AlignedReader:
    """How a module aligns its model."""

    def __init__(self, names: ModuleNames, trained: TrainedNames, imported: ImportedNames, builds: BuildReader) -> None:
        self.names = names
        self.trained = trained
        self.imported = imported
        self.builds = builds
        self.classes = {node.name: node for node in names.every(ast.ClassDef)}

    def read(self) -> AlignedTraining | None:
        """The only such trainer of a module; None if there is none, or there are several."""
        found = [(call, trainer) for call in self.names.calls if (trainer := self._trainer(call)) is not None]
        if len(found) != 1:
            return None
        call, trainer = found[0]
        given = self.trained.meant(keyword(call, "peft_config"))
        return AlignedTraining(
            trainer,
            self._reference(call),
            self._adapters(call),
            self._is_precomputed(),
            self._set("beta"),
            makes_adapter=isinstance(given, ast.Call) and last_name(given).endswith("Config"),
        )

    def _trainer(self, call: ast.Call) -> str | None:
        """The class of trl that a call makes an object of, be it of a class of the module below it."""
        name = dotted_name(call.func)
        bases = self.classes[name].bases if name in self.classes else ()
        for base in (name, *map(dotted_name, bases)):
            full = self.imported.full_name(base)
            if full.partition(".")[0] == "trl" and full.rpartition(".")[2] in ALIGNING_TRAINERS:
                return full.rpartition(".")[2]
        return None

    def _reference(self, call: ast.Call) -> str | None:
        given = keyword(call, "ref_model") or next(iter(call.args[1:2]), None)
        meant = self.trained.meant(given) if given is not None else None
        if given is None or (isinstance(meant, ast.Constant) and meant.value is None):
            return "own"
        model = keyword(call, "model") or next(iter(call.args[:1]), None)
        copies, trained = [self._loaded_from(one) for one in (given, model)]
        if copies is None or trained is None:
            return None
        return "own" if copies == trained else "other"

    def _loaded_from(self, node: ast.expr | None) -> str | None:
        """From what a model is loaded, as the script writes it; None if it does not show."""
        made = self.builds.maker(node) if node is not None else None
        if isinstance(made, ast.Constant):
            return ast.unparse(made)
        return ast.unparse(made.args[0]) if isinstance(made, ast.Call) and made.args else None

    def _adapters(self, call: ast.Call) -> str:
        argument = keyword(call, "peft_config")
        given = self.trained.meant(argument)
        wraps = [one for one in self.names.calls if last_name(one) == "get_peft_model"]
        if isinstance(given, ast.Call) and last_name(given) == "get_peft_config":
            return "flags"
        if isinstance(given, ast.Call) or any(self.trained.precedes(one, call) for one in wraps):
            return "yes"
        is_none = argument is None or (isinstance(given, ast.Constant) and given.value is None)
        return "no" if is_none and not wraps else "maybe"

    def _is_precomputed(self) -> bool | None:
        given = self._set("precompute_ref_log_probs")
        return bool(given) if given is not UNKNOWN else None

    def _set(self, name: str) -> Any:
        """The value of a training argument that a call gives; None if none does."""
        for call in self.names.calls:
            if ARGUMENTS.fullmatch(last_name(call)) and (given := keyword(call, name)) is not None:
                return literal(given) if isinstance(given, ast.Constant) else UNKNOWN
        return None
