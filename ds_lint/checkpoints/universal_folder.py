"""A universal checkpoint, as ds_to_universal of DeepSpeed writes it: a folder of states for each parameter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.checkpoints.deepspeed_files import engine_files
from ds_lint.checkpoints.deepspeed_folder import WEIGHT, deepspeed_folder, has_states, zero_stage
from ds_lint.checkpoints.folder import join
from ds_lint.checkpoints.losses import loss
from ds_lint.checkpoints.record import NOTHING_RAISES, EngineState, SavedFile, SavedFolder, TensorCount
from ds_lint.checkpoints.tensors import shape_of, tensors_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.checkpoints.folder import SavedPlace

_LATEST = "latest_universal"
_UNCHANGED = NOTHING_RAISES + ", and {} keeps the values that the new run begins with"


def universal_tags(place: SavedPlace, folder: str = "") -> list[str]:
    """The folders that have the states of parameters."""
    return [name for name in place.folders(folder) if has_states(place, join(folder, name))]


def universal_folder(place: SavedPlace, folder: str = "", tag: str | None = None) -> SavedFolder | None:
    """What the folder holds; None if it has no universal checkpoint."""
    latest = join(folder, _LATEST)
    named = place.line(latest)
    found = [tag] if tag is not None and has_states(place, join(folder, tag)) else universal_tags(place, folder)
    if not found and named is None:
        return None
    if named and named not in found and not engine_files(place.names(join(folder, named))).is_empty:
        found.append(named)  # whose states are lost
    saved = SavedFolder("universal", partition="any", engine=EngineState(folder=folder))
    if tag is None and not named:
        status = "missing" if named is None else "empty"
        saved.files.append(SavedFile(latest, status))  # type: ignore[arg-type]  # one of two words
        what = (
            "ValueError: Invalid for universal checkpoint" if named is None else "an AssertionError without a message"
        )
        saved.failures.append(f"{latest} is {status}: {what}")
    elif tag is None:
        saved.files.append(SavedFile(latest, "ok"))
        if named not in found:
            saved.files.append(SavedFile(join(folder, str(named)), "missing"))
            saved.failures.append(f"{latest} names {named}, which is not there: an AssertionError without a message")
    chosen = named if named in found else found[-1] if found else None
    if chosen is not None:
        _UniversalReader(place, join(folder, chosen), saved).read()
        saved.engine = saved.engine.but(tag=chosen) if saved.engine is not None else None
    return saved


class _UniversalReader:
    def __init__(self, place: SavedPlace, below: str, saved: SavedFolder) -> None:
        self.place = place
        self.below = below
        self.zero = join(below, "zero")
        self.saved = saved

    def read(self) -> None:
        self._models()
        self._optimizer()
        self._parameters()

    def _add(self, path: str, absent: str) -> bool:
        """Add a file, and whether it is whole."""
        archive = self.place.archive(path)
        file = SavedFile(path, archive.status, None, archive.why if archive.status != "ok" else None)
        self.saved.files.append(file)
        if file.status != "ok":
            self.saved.failures.append(loss(file, absent))
        return file.status == "ok"

    def _models(self) -> None:
        """The files beside the states, of which the first rank's are read: step, scheduler, what a user adds."""
        found = engine_files(self.place.names(self.below)).models
        data = {rank for rank, _ in found}
        self.is_partitioned = bool(data) and None not in data
        for (rank, _), name in found.items():
            if rank in (None, 0):
                self._add(join(self.below, name), "AssertionError without a message")
        if not any(rank in (None, 0) for rank in data):
            name = "zero_pp_rank_0_mp_rank_00_model_states.pt" if self.is_partitioned else "mp_rank_00_model_states.pt"
            self._add(join(self.below, name), "AssertionError without a message")
        self.values = [self.place.archive(join(self.below, name)).value for name in found.values()]
        self.values = [one for one in self.values if isinstance(one, dict)]
        release = next((one.get("ds_version") for one in self.values), None)
        if isinstance(release, str):
            self.saved.writer["deepspeed"] = release[:40]
        source = deepspeed_folder(self.place, *_split(self.below))
        if source is not None and source.engine is not None:
            self.saved.engine = source.engine.but(prefix="", moments=None)
            self.saved.stage = source.stage

    def _optimizer(self) -> None:
        path = join(self.zero, "optimizer_state.pt")
        self._add(path, "AssertionError: containing optimizer global state is missing")
        value = self.place.archive(path).value
        if isinstance(value, dict) and (stage := zero_stage(value)) is not None:
            self.saved.stage = stage

    def _parameters(self) -> None:
        counted = TensorCount()
        there = {name: set(self.place.names(join(self.zero, name))) for name in self.place.folders(self.zero)}
        usual = {one for names in there.values() for one in names if one.endswith(".pt")} | {WEIGHT}
        for name in dict.fromkeys((*there, *self._trained())):
            names = there.get(name, set())
            # Parameters that never had a gradient have their weights alone.
            expected = usual if names - {WEIGHT} else {WEIGHT}
            for one in sorted(expected):
                path = join(join(self.zero, name), one)
                what = f"the weight {name}" if one == WEIGHT else f"the optimizer's {one[:-3]} of {name}"
                is_whole = self._add(path, _UNCHANGED.format(what))
                if is_whole and one == WEIGHT:
                    value = self.place.archive(path).value
                    counted.add(tensors_of(value.get("param") if isinstance(value, dict) else value))
        self.saved.tensors = counted

    def _trained(self) -> Iterator[str]:
        for one in self.values:
            groups = one.get("param_shapes")
            groups = [groups] if isinstance(groups, dict) else groups if isinstance(groups, list) else []
            for group in groups:
                if isinstance(group, dict):
                    yield from (name for name, value in group.items() if isinstance(name, str) and shape_of(value))


def _split(below: str) -> tuple[str, str]:
    folder, _, tag = below.rpartition("/")
    return folder, tag
