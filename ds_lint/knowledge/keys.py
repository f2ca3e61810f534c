"""What the libraries of one target know, read from ``schemas/``.

``schemas/deepspeed.json`` holds what was extracted from every DeepSpeed release, with since/until per fact;
``schemas/overlay.json`` holds what no extractor can see (what later code does with a raw value), in the same tree.
A key is resolved for the target when a config first names it: a config names forty of some six hundred.
"""

from __future__ import annotations

from ds_lint.knowledge import tables
from ds_lint.knowledge.coercion import LARGEST, kinds_taken, takes_counts
from ds_lint.knowledge.stacks import TRAINER_TABLES, record_at, records, trainer_facts
from ds_lint.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Literal, TypeVar

    from ds_lint.knowledge.records import (
        ConstructorCall,
        Dated,
        Defaults,
        KeyFacts,
        ModelFacts,
        ModelTable,
        NewName,
        ParameterFacts,
        StackFacts,
        StackLibrary,
        StackTable,
        Torch,
        TorchStore,
        TrainerFacts,
        TraitName,
    )
    from ds_lint.knowledge.trace import Trace
    from ds_lint.source.tree import KeyPath, Scalar

    Run = TypeVar("Run", bound=Dated)
    Measured = TypeVar("Measured", KeyFacts, ParameterFacts)


_ANY_OTHER = "*"  # stands in the store for the types that are torch's
_SCALARS = {"boolean", "integer", "number", "string"}
_REMARKS = {"removed", "deprecated", "no_effect", "alias", "needs", "requires"}  # facts that a rule about keys asks for


class Key:
    """One key of the config as the target's DeepSpeed knows it.

    ``facts`` is what ``schemas/README.md`` describes: type, bounds, default, ``takes``, ``stage``, ``removed``, ...
    ``strict`` sections reject unknown keys (pydantic, ``extra="forbid"``) and coerce values; the others are open.
    """

    __slots__ = (
        "_children",
        "_knowledge",
        "_names",
        "_overlay",
        "_store",
        "_taken",
        "_takes_counts",
        "facts",
        "is_remarkable",
        "is_section",
        "path",
        "strict",
    )

    def __init__(
        self, knowledge: Knowledge, path: KeyPath, store: KeyFacts, overlay: KeyFacts, facts: KeyFacts
    ) -> None:
        self._knowledge = knowledge
        self._store = store
        self._overlay = overlay
        self._children: dict[str, Key | None] = {}
        self.path = path
        self.facts = facts
        self.strict = facts.get("unknown") == "rejected"
        self.is_section = _holds_keys(store) or _holds_keys(overlay)
        self._taken: frozenset[str] | None = None
        self._takes_counts = False
        self._names: list[str] | None = None
        self.is_remarkable = not _REMARKS.isdisjoint(facts)

    @property
    def name(self) -> str:
        """The last element of the path, in the spelling of DeepSpeed's documentation."""
        return self.path[-1]

    @property
    def is_scalar(self) -> bool:
        """Whether a single value is wanted: what is below an object in its place, nothing reads."""
        types = self.facts.get("type", ())
        return not _SCALARS.isdisjoint([types] if isinstance(types, str) else types) and "object" not in types

    def child(self, name: str) -> Key | None:
        """The key of this name in this section, also under an alias; None if the target does not know it."""
        try:
            return self._children[name]
        except KeyError:
            found = self._children[name] = self._resolve(name)
            return found

    def item(self) -> Key | None:
        """What the elements of this array are, where they are sections of their own."""
        return self._resolve_from("items_are", "0")

    def names(self) -> list[str]:
        """Every name the target knows in this section, without aliases."""
        if self._names is None:
            self._names = self._known_names()
        return self._names

    def _known_names(self) -> list[str]:
        known = list(self._store.get("keys", ()))
        known += [name for name in self._overlay.get("keys", ()) if name not in known]
        return [name for name in known if (key := self.child(name)) is not None and key.name == name]

    def takes(self, kind: str, value: Scalar, in_strict: bool) -> bool:
        """Whether this value is taken beyond doubt, so that it needs no closer look; most values of a config are."""
        if self._taken is None:
            self._takes_counts = takes_counts(self.facts, in_strict)
            self._taken = kinds_taken(self.facts, in_strict)
        if kind in self._taken:
            return True
        if not self._takes_counts or kind not in ("integer", "float") or not isinstance(value, (int, float)):
            return False
        return 0 < value < LARGEST and value == int(value)

    def _resolve(self, name: str) -> Key | None:
        keys = self._store.get("keys", {})
        store, overlay = keys.get(name), self._overlay.get("keys", {}).get(name)
        if store is None and overlay is None:
            for spelling in _spellings(keys, name):
                facts = self._knowledge.facts_of(keys[spelling])
                if facts and facts.get("alias") == name:
                    return self.child(spelling)
            return self._resolve_from("any_key", name)
        return self._knowledge.resolve((*self.path, name), store or {}, overlay or {})

    def _resolve_from(self, part: Literal["items_are", "any_key"], name: str) -> Key | None:
        store, overlay = self._store.get(part), self._overlay.get(part)
        if store is None and overlay is None:
            return None
        return self._knowledge.resolve((*self.path, name), store or {}, overlay or {})


_aliases: dict[int, tuple[Mapping[str, KeyFacts], dict[str, list[str]]]] = {}  # by the keys, which are kept for it


def _spellings(keys: Mapping[str, KeyFacts], alias: str) -> list[str]:
    """The keys of a section that have an alias in any release: to look at each of them takes as long as a lint."""
    if id(keys) not in _aliases:
        found: dict[str, list[str]] = {}
        for spelling, own in keys.items():
            runs = own.get("runs", (own,))
            for name in {run["alias"] for run in runs if "alias" in run}:
                found.setdefault(name, []).append(spelling)
        _aliases[id(keys)] = keys, found
    return _aliases[id(keys)][1].get(alias, [])


class Target(Record):
    """The releases that a config is checked against; None stands for the newest known."""

    deepspeed: str | None = None
    transformers: str | None = None
    accelerate: str | None = None

    @property
    def key(self) -> tuple[str | None, ...]:
        """What tells one target from another."""
        return (self.deepspeed, self.transformers, self.accelerate)


class Knowledge:
    """Everything ds-lint knows about the libraries of one target; ``trace`` notes what its answers depend on.

    An answer is kept, so that a trace records only the first access: ``traced`` makes a
    knowledge for a trace, and ``knowledge`` one that all others share, between threads too.
    """

    def __init__(self, target: Target | None = None, trace: Trace | None = None) -> None:
        target = target or Target()
        self._trace = trace
        self._target = target
        self._store = tables.load("deepspeed")
        self._overlay = tables.load("overlay")
        self._trainer: TrainerFacts | None = None
        self._tables: dict[tuple[StackLibrary, StackTable], dict[str, StackFacts]] = {}
        self._torch: Torch | None = None
        self._constructors: dict[tuple[str, str], list[ConstructorCall]] = {}
        self._parameters: dict[str, dict[str, ParameterFacts]] = {}
        self._everywhere: list[Key] = []
        self._by_name: dict[str, list[Key]] = {}
        self._keys_since: int | None = None
        self._knows: dict[KeyPath, bool] = {}
        self.deepspeed = target.deepspeed or self._store["releases"][-1]
        self._order = {release: place for place, release in enumerate(self._store["releases"])}
        self._place = self._order[self.deepspeed]
        self.is_lax = self._trait("pydantic") == 1  # what it validates with; 2 refuses what 1 makes fit
        self.reads_json = self._trait("reader") == "json"  # strictly; since 0.8.1 it reads hjson
        root = self.resolve((), self._store["root"], self._overlay["root"])
        assert root is not None  # noqa: S101 - the top level exists in every release
        self.root = root

    @property
    def target(self) -> dict[str, str]:
        """The versions that the config is checked against."""
        return {
            "deepspeed": self.deepspeed,
            "transformers": self._target.transformers or tables.load("transformers")["releases"][-1],
            "accelerate": self._target.accelerate or tables.load("accelerate")["releases"][-1],
        }

    @property
    def releases(self) -> list[str]:
        """Every known release, oldest first."""
        return self._store["releases"]

    @property
    def is_newest(self) -> bool:
        """Whether the target is the newest known release, which the overlay was measured with."""
        return self._place == len(self._order) - 1

    @property
    def trainer(self) -> TrainerFacts:
        """What the Trainer and Accelerate fill, match and overwrite."""
        if self._trainer is None:
            if self._trace is not None:
                for name in TRAINER_TABLES:
                    self._trace.add_table("transformers", name)
                    self._trace.add_table("accelerate", name)
            self._trainer = trainer_facts(self._target.transformers, self._target.accelerate)
        return self._trainer

    def table(self, library: StackLibrary, name: StackTable) -> dict[str, StackFacts]:
        """One table of what is known of transformers or accelerate, as the target has it: facts by their names."""
        place: tuple[StackLibrary, StackTable] = (library, name)
        if place not in self._tables:
            if self._trace is not None:
                self._trace.add_table(library, name)
            store = tables.load(library)
            self._tables[place] = records(store, name, self.target[library]) if name in store else {}
        return self._tables[place]

    def depends_on(self, library: StackLibrary, facts: Iterable[StackFacts]) -> None:
        """Note that what is said of the target depends on these records about its release of a library."""
        if self._trace is not None:
            for one in facts:
                self._trace.add_record(library, one)

    def depends_on_deepspeed(self, facts: Iterable[StackFacts]) -> None:
        """The same of records about its release of DeepSpeed."""
        for run in (run for one in facts for run in one.get("runs", ())):
            if self._trace is not None:
                begins = [self._order[run["since"]]]
                begins += [self._order[run["until"]] + 1] if "until" in run else []
                self._trace.starts_at(max((one for one in begins if one <= self._place), default=0))

    def of_model(self, table: ModelTable, model_type: str) -> ModelFacts | None:
        """What transformers makes of a model type (``schemas/models.json``); None where the table does not have it."""
        store = tables.load("models")
        record = store[table].get(model_type)
        if record is None:
            return None
        if self._trace is not None:
            self._trace.add_record("transformers", record)
        return record_at(store, record, self.trainer["transformers"])

    @property
    def torch(self) -> Torch:
        """What the newest known torch has in torch.optim and its lr_scheduler, which a config may name as types."""
        if self._torch is None:
            store = tables.load("torch")
            self._torch = {
                "optimizers": _newest(store, store["optimizers"]),
                "schedulers": _newest(store, store["schedulers"]),
            }
        return self._torch

    @property
    def confusions(self) -> dict[str, list[str]]:
        """Names of other tools that people write for a DeepSpeed key."""
        return self._overlay["confusions"]

    @property
    def common_names(self) -> list[str]:
        """Names that other tools use as well, so that one of them at the top level does not tell what was meant."""
        return self._overlay["common_names"]

    def does(self, behaviour: str) -> bool:
        """Whether the target behaves in this way, which only some releases do; see ``behaviours`` in the overlay."""
        return self._holds(self._overlay["behaviours"][behaviour])

    def stack_does(self, behaviour: str) -> bool:
        """The same for transformers and Accelerate; see ``behaviours`` in the overlay of the Trainer."""
        record = tables.load("trainer_overlay")["behaviours"][behaviour]
        library = record["library"]
        if self._trace is not None:
            self._trace.add_record(library, record)
        return record_at(tables.load(library), record, self.target[library]) is not None

    def ended(self, behaviour: str) -> str:
        """The first release without a behaviour of older ones."""
        return self.releases[self._order[self._overlay["behaviours"][behaviour]["until"]] + 1]

    def parameters(self, callable_name: str) -> dict[str, ParameterFacts]:
        """What a constructor does with each of its parameters (``takes``, ``stage``, bounds)."""
        if callable_name not in self._parameters:
            stored = self._overlay["constructors"].get(callable_name, {})
            self._parameters[callable_name] = {name: self._measured(facts) for name, facts in stored.items()}
        return self._parameters[callable_name]

    def constructors(self, section: str, kind: str) -> list[ConstructorCall]:
        """The constructors that an optimizer or scheduler type may lead to in the target; empty if unknown."""
        place = (section, kind)
        if place not in self._constructors:
            runs = self._store["constructors"][section].get(kind, []) if kind != _ANY_OTHER else []
            self._constructors[place] = next((run["callables"] for run in runs if self._holds(run)), [])
        return self._constructors[place]

    def types(self, section: str) -> list[str]:
        """The optimizer or scheduler types that DeepSpeed itself builds in the target."""
        return [kind for kind in self._store["constructors"][section] if self.constructors(section, kind)]

    def last_release_of_type(self, section: str, kind: str) -> str | None:
        """The last release before the target that knew a type which the target does not, or None."""
        ended = [run["until"] for run in self._store["constructors"][section].get(kind, ()) if "until" in run]
        return max(
            (until for until in ended if self._order[until] < self._place), key=self._order.__getitem__, default=None
        )

    def next_release_of_type(self, section: str, kind: str) -> str | None:
        """The first release after the target that knows a type which the target does not, or None."""
        begun = [run["since"] for run in self._store["constructors"][section].get(kind, ()) if "since" in run]
        return min(
            (since for since in begun if self._order[since] > self._place), key=self._order.__getitem__, default=None
        )

    def knows(self, path: KeyPath) -> bool:
        """Whether rules may look at a key: what only other releases read means nothing to this one."""
        if path not in self._knows:  # parameters are their constructor's business
            self._knows[path] = path[1:2] == ("params",) or self.find(path) is not None
        return self._knows[path]

    def find(self, path: KeyPath) -> Key | None:
        """The key at a path, or None if the target does not know it."""
        key: Key | None = self.root
        for name in path:
            if key is None:
                return None
            key = key.item() if name.isdigit() and key.item() else key.child(name)
        return key

    def everywhere(self) -> list[Key]:
        """Every key that the target reads, sections before what they hold."""
        if self._trace is not None:  # to ask for every key once more takes milliseconds
            return self._shared_keys(self._trace).everywhere()
        if not self._everywhere:
            pending = [self.root]
            for section in pending:
                below = [key for name in section.names() if (key := section.child(name)) is not None]
                pending += [key for key in below if "removed" not in key.facts]
            self._everywhere = pending[1:]
        return self._everywhere

    def called(self, name: str) -> list[Key]:
        """The keys of this name or with this alias, whatever section they are in."""
        if self._trace is not None:
            return self._shared_keys(self._trace).called(name)
        if not self._by_name:
            by_name: dict[str, list[Key]] = {}
            for key in self.everywhere():
                for one in {key.name, key.facts.get("alias", key.name)}:
                    by_name.setdefault(one, []).append(key)
            self._by_name = by_name
        return self._by_name.get(name, [])

    def _shared_keys(self, trace: Trace) -> Knowledge:
        """The knowledge without a trace, once it is noted since when no key of it has changed."""
        shared = knowledge(self._target)
        trace.starts_at(shared.keys_since)
        return shared

    @property
    def keys_since(self) -> int:
        """The place of the first release from which on the keys are those of the target."""
        if self._keys_since is None:
            recorded, trace = traced(self._target)
            pending = [recorded.root]
            for section in pending:
                pending += [key for name in section.names() if (key := section.child(name)) is not None]
            self._keys_since = trace.first
        return self._keys_since

    def last_release_of(self, path: KeyPath) -> str | None:
        """The last release before the target that read a key which the target does not know, or None."""
        ended = [run["until"] for run in self._runs_of(path) if "until" in run and "removed" not in run]
        return max(
            (until for until in ended if self._order[until] < self._place), key=self._order.__getitem__, default=None
        )

    def next_release_of(self, path: KeyPath) -> str | None:
        """The first release after the target that reads a key which the target does not know, or None."""
        begun = [run["since"] for run in self._runs_of(path) if "since" in run and "removed" not in run]
        return min(
            (since for since in begun if self._order[since] > self._place), key=self._order.__getitem__, default=None
        )

    def since_default(self, path: KeyPath) -> str | None:
        """The release with which a key got the default that it has at the target; None if it always had it."""
        return self._since(self._runs_of(path), lambda run: run.get("default"))

    def since_default_of_parameter(self, section: str, kind: str, constructor: str, name: str) -> str | None:
        """The same for a parameter of a constructor, named without its module, of an optimizer or scheduler type."""
        return self._since(
            self._store["constructors"][section].get(kind, []),
            lambda run: [
                one["parameters"].get(name) for one in run["callables"] if one["callee"].endswith(f".{constructor}")
            ],
        )

    def _since(self, runs: list[Run], value: Callable[[Run], object]) -> str | None:
        """The release with which what runs say began to be what it is at the target."""
        place = next((place for place, run in enumerate(runs) if self._holds(run)), 0)
        while place and value(runs[place - 1]) == value(runs[place]):
            place -= 1
        run: Dated = runs[place]
        return run.get("since")

    def new_name(self, path: KeyPath) -> NewName | None:
        """What a key is called since DeepSpeed renamed it: ``to``, and ``value`` where the value changes too."""
        side = self._overlay["root"]
        for name in path:
            side = _below(side, name)
        return side.get("renamed")

    def old_name(self, path: KeyPath) -> str | None:
        """What a key that is newer than the target is called there, or None."""
        side = self._overlay["root"]
        for name in path[:-1]:
            side = _below(side, name)
        renamed = (old for old, own in side.get("keys", {}).items() if own.get("renamed", {}).get("to") == path[-1])
        return next((old for old in renamed if self.find((*path[:-1], old))), None)

    def facts_of(self, store: KeyFacts) -> KeyFacts | None:
        """The facts of one stored key at the target, or None where the key does not exist there."""
        return self._run_of(store["runs"]) if "runs" in store else store

    def resolve(self, path: KeyPath, store: KeyFacts, overlay: KeyFacts) -> Key | None:
        """The key of these two sides at the target: what was extracted, with the overlay on top."""
        if "since" in overlay:  # a gap of the extraction: the overlay alone says that the key exists
            if not self._holds(overlay):
                return None
            own: KeyFacts | None = {}
        else:
            own = {} if store.get("group") or not store else self.facts_of(store)
        if own is None:
            return None
        facts = {**own, **self._measured(overlay)} if overlay else own
        return Key(self, path, store, overlay, {**facts, "lax": True} if self.is_lax else facts)

    def extracted(self, path: KeyPath) -> KeyFacts:
        """What was extracted from the target about a key, without the overlay."""
        return self._run_of(self.runs(path)) or {}

    def runs(self, path: KeyPath) -> list[KeyFacts]:
        """The history of a key: facts with ``since`` and ``until``; one open run if it never changed."""
        return self._runs_of(path) or [{}]

    def _runs_of(self, path: KeyPath) -> list[KeyFacts]:
        """The runs of a key in every release; none if no release has it."""
        sides = [self._store["root"], self._overlay["root"]]
        for name in path:
            sides = [_below(side, name) for side in sides]
        extracted, measured = sides
        if extracted:
            return extracted.get("runs") or [extracted]
        return [measured] if "since" in measured else []

    def _ordered(self, releases: Iterable[str]) -> list[str]:
        return sorted(releases, key=self._order.__getitem__)

    def _measured(self, overlay: Measured) -> Measured:
        """The facts of the overlay at the target: those of every release, and those of its run."""
        return {**overlay, **(self._run_of(overlay["runs"]) or {})} if "runs" in overlay else overlay

    def _trait(self, name: TraitName) -> str | int | None:
        """A fact about the release as a whole; None where it has none."""
        run = self._run_of(self._store[name])
        return run["is"] if run else None

    def _run_of(self, runs: Iterable[Run]) -> Run | None:
        for run in runs:
            if self._holds(run):
                return run
        return None

    def _holds(self, run: Dated) -> bool:
        """Whether the target is one of the releases from ``since`` to ``until``."""
        since = self._order[run["since"]] if "since" in run else 0
        until = self._order[run["until"]] if "until" in run else len(self._order) - 1
        if self._trace is not None and since <= self._place:
            self._trace.starts_at(since if self._place <= until else until + 1)
        return since <= self._place <= until


if TYPE_CHECKING:
    KnownReleases = dict[tuple[str | None, ...], tuple[Knowledge, Trace]]  # by the key of the target


def traced(target: Target) -> tuple[Knowledge, Trace]:
    """What the libraries of a target know, and the trace of what is looked up in it."""
    from ds_lint.knowledge.trace import Trace  # for a range of releases

    trace = Trace()
    return Knowledge(target, trace), trace


def knowledge(target: Target | None = None) -> Knowledge:
    """What the libraries of a target know, read once; without a target, the newest known releases."""
    key = (target or Target()).key
    if key not in _known:
        _known[key] = Knowledge(target)
    return _known[key]


_known: dict[tuple[str | None, ...], Knowledge] = {}


def _newest(store: TorchStore, records: dict[str, Defaults]) -> dict[str, Defaults]:
    """The constructors of one table as the newest release of torch has them."""
    found = ((name, record_at(store, record, store["releases"][-1])) for name, record in records.items())
    return {name: parameters for name, parameters in found if parameters is not None}


def _holds_keys(side: KeyFacts) -> bool:
    return "keys" in side or "any_key" in side or "items_are" in side


def _below(side: KeyFacts, name: str) -> KeyFacts:
    own = side.get("keys", {}).get(name)
    part: Literal["items_are", "any_key"] = "items_are" if name.isdigit() else "any_key"
    return own if own is not None else side.get(part, {})
