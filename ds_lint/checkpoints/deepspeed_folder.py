"""A folder that ``engine.save_checkpoint`` of DeepSpeed has written: the files of each rank below a tag."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ds_lint.checkpoints.deepspeed_files import engine_files, model_name, optimizer_name
from ds_lint.checkpoints.folder import is_below, join
from ds_lint.checkpoints.losses import loss
from ds_lint.checkpoints.pickled import Call, Global
from ds_lint.checkpoints.record import (
    NOTHING_RAISES,
    RETURNS_NONE,
    TRAINER_RAISES,
    EngineState,
    SavedFile,
    SavedFolder,
    TensorCount,
)
from ds_lint.checkpoints.tensors import product, shape_of, tensor_of, tensors_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.checkpoints.deepspeed_files import EngineFiles
    from ds_lint.checkpoints.folder import SavedPlace

ACCELERATE_TAG = "pytorch_model"  # MODEL_NAME in accelerate/utils/constants.py, with _1 and so on of further models
WEIGHT = "fp32.pt"  # of a parameter in a universal checkpoint
_AUTOEP = ("ds_autoep_layers", "autoep_layers")  # AUTOEP_LAYERS_KEY in deepspeed/checkpoint/constants.py
_MOST_RANKS = 65_536  # that are believed: a pickle may claim any number
_SILENT = f"{NOTHING_RAISES}, and the states of the ranks do not belong together"
_OTHER_RANKS = "ZeRORuntimeException on that rank"
_OTHER_SIZE = "RuntimeError: The size of tensor a must match the size of tensor b"
NO_LATEST = (
    f"`latest` is missing: load_checkpoint() {RETURNS_NONE} and training starts from step 0, and {TRAINER_RAISES} "
    '"failed to resume from checkpoint"'
)


def tags(place: SavedPlace, folder: str = "") -> list[str]:
    """The folders that have files of DeepSpeed, in the order of their numbers."""
    return [
        name
        for name in place.folders(folder)
        if not engine_files(place.names(join(folder, name))).is_empty and not has_states(place, join(folder, name))
    ]


def has_states(place: SavedPlace, tag: str) -> bool:
    """Whether a folder has the states of each parameter, as ds_to_universal writes them."""
    zero = join(tag, "zero")
    if not place.is_folder(zero):
        return False
    names = place.names(zero)
    return "optimizer_state.pt" in names or any(place.has(f"{zero}/{name}/{WEIGHT}") for name in names[:50])


def deepspeed_folder(place: SavedPlace, folder: str = "", tag: str | None = None) -> SavedFolder | None:
    """What the folder holds; None if DeepSpeed has not written it.

    ``folder`` is what load_checkpoint is given, below the place; without ``tag`` the file ``latest`` names it.
    """
    if tag is not None and not engine_files(place.names(join(folder, tag))).is_empty:
        return _EngineReader(place, folder, tag, []).read()
    found = tags(place, folder)
    latest = join(folder, "latest")
    named = place.line(latest)
    if named and named not in found and is_below(named) and not engine_files(place.names(join(folder, named))).is_empty:
        found.append(named)  # a universal one, which is loaded as another
    if not found and (named is None or not engine_files(place.names(folder)).is_empty):
        return None
    is_by_tag = any(one == ACCELERATE_TAG or one.startswith(f"{ACCELERATE_TAG}_") for one in found)
    if is_by_tag:
        named = ACCELERATE_TAG if ACCELERATE_TAG in found else found[0]
        status = place.status(latest)
        first, failure = [] if status == "missing" else [SavedFile(latest, status)], ""
    else:
        first, failure = _latest(place, folder, named, found)
    chosen = named if named in found else found[-1] if found else None
    if chosen is None:
        return SavedFolder("deepspeed", files=first, failures=[failure], partition="same", engine=EngineState())
    saved = _EngineReader(place, folder, chosen, first).read()
    if failure:
        saved.failures.insert(0, failure)
    if len(found) > 1:
        saved.notes.append(f"other tags are in the folder: {', '.join(one for one in found if one != chosen)[:200]}")
    if saved.engine is not None:
        saved.engine.is_by_tag = is_by_tag
    return saved


def _latest(place: SavedPlace, folder: str, named: str | None, found: list[str]) -> tuple[list[SavedFile], str]:
    """The file ``latest``, the folder that it names if that is not there, and what raises."""
    latest = join(folder, "latest")
    if named is None:
        return [SavedFile(latest, "missing")], NO_LATEST
    if not named:
        failure = f"{latest} is empty: load_checkpoint() raises an AssertionError without a message"
        return [SavedFile(latest, "empty", why="it names no tag")], failure
    if named in found:
        return [SavedFile(latest, "ok")], ""
    if place.is_folder(join(folder, named)):
        absent = SavedFile(f"{join(folder, named)}/{model_name(None, 0)}", "missing")
        return [SavedFile(latest, "ok"), absent], loss(absent, "AssertionError without a message")
    is_inside = is_below(named)
    absent = SavedFile(join(folder, named), "missing", why=None if is_inside else "it is outside of the folder")
    return [SavedFile(latest, "ok"), absent], (
        f"`latest` names {named}, which is {'not there' if is_inside else 'outside of the folder'}: load_checkpoint() "
        "raises an AssertionError without a message"
    )


class _EngineReader:
    """Reads the files below a tag."""

    def __init__(self, place: SavedPlace, folder: str, tag: str, first: list[SavedFile]) -> None:
        self.place = place
        self.below = join(folder, tag)
        self.found: EngineFiles = engine_files(place.names(self.below))
        self.engine = EngineState(tag=tag, folder=folder)
        self.saved = SavedFolder("deepspeed", files=first, partition="same", engine=self.engine)
        self.models = {rank: self._value(name) for rank, name in self.found.models.items()}
        self.optimizers = {rank: self._value(name) for rank, name in self.found.optimizers.items()}

    def read(self) -> SavedFolder:
        """Everything about the folder."""
        self._ranks()
        self._stage()
        self._files()
        self._agreement()
        self._tensors()
        self._engine()
        return self.saved

    # ------------------------------------------------------------------------------------------------- from the files

    def _value(self, name: str) -> dict[Any, Any]:
        value = self.place.archive(join(self.below, name)).value
        return value if isinstance(value, dict) else {}

    def _first(self, key: str) -> Any:
        """The value of the first file that has a key: those with weights, then those of the optimizer."""
        return next((one[key] for one in (*self.models.values(), *self.optimizers.values()) if key in one), None)

    def _states(self) -> Iterator[tuple[tuple[str, int, int], dict[Any, Any]]]:
        """What the files of the optimizer have for each rank."""
        for rank, one in self.optimizers.items():
            states = one.get("optimizer_state_dict")
            if isinstance(states, dict):
                yield rank, states

    def _ranks(self) -> None:
        sizes = [one.get("dp_world_size") for one in self.models.values()]
        counts = [count for _, states in self._states() if (count := partition_count(states)) is not None]
        highest = [rank for _, rank, _ in self.found.optimizers] + [
            rank for rank, _ in self.found.models if rank is not None
        ]
        known = [one for one in (*sizes, *counts) if isinstance(one, int) and 0 < one <= _MOST_RANKS]
        self.engine.data_ranks = known[0] if known else max(highest, default=-1) + 1 or None
        model_ranks = self._first("mp_world_size")
        there = {model for _, model in self.found.models} | {model for _, _, model in self.found.optimizers}
        is_known = isinstance(model_ranks, int) and 0 < model_ranks <= _MOST_RANKS
        self.engine.model_ranks = model_ranks if is_known else max(there, default=0) + 1
        if self.engine.model_ranks * (self.engine.data_ranks or 1) > _MOST_RANKS:
            self.engine.model_ranks = 1
        self.engine.is_pipeline = bool(self.found.layers)
        self.engine.has_experts = bool(self.found.experts) or isinstance(self._first("num_experts"), list)
        if self.engine.model_ranks == 1 and not self.engine.is_pipeline:
            self.saved.ranks = self.engine.data_ranks
        self.engine.has_autoep = any(self._first(key) is not None for key in _AUTOEP)
        self.engine.has_partitions = bool(self.found.optimizers) and not self._is_in_model_file()
        release = self._first("ds_version")
        if isinstance(release, str):
            self.saved.writer["deepspeed"] = release[:40]

    def _stage(self) -> None:
        config = self._first("ds_config")
        self.engine.config = config if isinstance(config, dict) else {}
        stage = next((number for _, states in self._states() if (number := zero_stage(states)) is not None), None)
        if stage is None:
            section = self.engine.config.get("zero_optimization")
            written = section.get("stage", 0) if isinstance(section, dict) else 0
            stage = written if isinstance(written, int) and self.engine.config else None
        if stage is None and any(rank is not None for rank, _ in self.found.models):
            stage = 3
        if self._is_in_model_file():
            stage = 0
        self.saved.stage = stage if stage in (0, 1, 2, 3) else None
        prefixes = {prefix for prefix, _, _ in self.found.optimizers}
        is_bf16 = is_enabled(self.engine.config, "bf16", "bfloat16")
        self.engine.prefix = (
            "bf16_" if (is_bf16 if self.engine.config and is_bf16 is not None else "bf16_" in prefixes) else ""
        )

    def _is_in_model_file(self) -> bool:
        """Whether the states of the optimizer are beside the weights, as at stage 0."""
        return any(isinstance(one.get("optimizer"), dict) for one in self.models.values())

    @property
    def is_partitioned(self) -> bool:
        return self.saved.stage == 3

    def _needs_optimizer_files(self) -> bool:
        if self._is_in_model_file():
            return False
        if self.saved.stage or self.found.optimizers:
            return True
        # Before 0.19, bf16 at stage 0 had an optimizer with partitions of its own.
        is_bf16 = is_enabled(self.engine.config, "bf16", "bfloat16")
        return bool(is_bf16) and all(one.get("optimizer") is None for one in self.models.values())

    def _files(self) -> None:
        """The files that the ranks read, and those that they do not."""
        data, models = self.engine.data_ranks or 1, range(self.engine.model_ranks)
        expected: list[tuple[str, int | None, str]] = []
        if self.is_partitioned:
            absent = "AssertionError without a message"
            expected += [(model_name(rank, one), rank, absent) for one in models for rank in range(data)]
        else:
            expected += [(model_name(None, one), None, "AssertionError without a message") for one in models]
        if self._needs_optimizer_files():
            prefix, there = self.engine.prefix, self.found.optimizers
            expected += [
                (there.get((prefix, rank, one), optimizer_name(prefix, rank, one)), rank, "FileNotFoundError")
                for one in models
                for rank in range(data)
            ]
        expected += self._expert_files() + self._layer_files()
        for name, data_rank, absent in expected:
            path = join(self.below, name)
            archive = self.place.archive(path)
            file = SavedFile(path, archive.status, data_rank, archive.why if archive.status != "ok" else None)
            self.saved.files.append(file)
            if file.status != "ok":
                self.saved.failures.append(loss(file, absent))
        self._others({name for name, _, _ in expected})

    def _expert_files(self) -> list[tuple[str, int | None, str]]:
        """The files of experts, which are numbered without a gap in each layer."""
        counts = self._first("num_experts")
        expected: list[tuple[str, int | None, str]] = []
        layers = sorted({layer for layer, _, _ in self.found.experts})
        models = sorted({model for _, _, model in self.found.experts}) or [0]
        for place, layer in enumerate(layers):
            highest = max(expert for one, expert, _ in self.found.experts if one == layer) + 1
            stated = counts[min(place, len(counts) - 1)] if isinstance(counts, list) and counts else highest
            number = stated if isinstance(stated, int) and highest <= stated <= _MOST_RANKS else highest
            expected += [
                (f"layer_{layer}_expert_{expert}_mp_rank_{model:02d}_model_states.pt", None, "FileNotFoundError")
                for expert in range(number)
                for model in models
            ]
        ranks = max((rank for rank, _ in self.found.expert_optimizers), default=-1) + 1
        if not self.found.optimizers:
            expected += [
                (f"expp_rank_{rank}_mp_rank_{model:02d}_optim_states.pt", rank, "FileNotFoundError")
                for rank in range(ranks)
                for model in models
            ]
        return expected

    def _layer_files(self) -> list[tuple[str, int | None, str]]:
        """The files of the layers of a pipeline: those that have parameters, by the names of these."""
        names = {
            int(name.partition(".")[0])
            for shapes in self._shapes("param_shapes").values()
            for name in shapes
            if name.partition(".")[0].isdecimal() and len(name.partition(".")[0]) < 7
        }
        models = sorted({model for _, model in self.found.layers})
        if not self.found.layers:
            return []
        layers = sorted({layer for layer, _ in self.found.layers} | names)
        sample = next(iter(self.found.layers.values()))
        return [
            (
                f"layer_{layer:02d}-model_{model:02d}-model_states.pt"
                if "-model_" in sample[:-16]
                else f"layer_{layer:02d}-model_states.pt",
                None,
                "FileNotFoundError",
            )
            for layer in layers
            for model in models
        ]

    def _others(self, expected: set[str]) -> None:
        """Files of DeepSpeed that no rank reads."""
        data = self.engine.data_ranks or 1
        foreign = [rank for prefix, rank, _ in self.found.optimizers if prefix == self.engine.prefix and rank >= data]
        foreign += [rank for rank, _ in self.found.models if rank is not None and rank >= data]
        if foreign and self.found.models:
            ranks = ", ".join(map(str, sorted(set(foreign))[:20]))
            self.saved.notes.append(
                f"files of rank {ranks} are from another checkpoint: this one is of {data} "
                f"rank{'s' if data > 1 else ''}, which do not read them"
            )
        other = [
            name for (prefix, rank, _), name in self.found.optimizers.items()
            if prefix != self.engine.prefix and rank < data and name not in expected
        ]  # fmt: skip
        if other and any(prefix == self.engine.prefix for prefix, _, _ in self.found.optimizers):
            of = "fp16 or fp32" if self.engine.prefix else "bf16"
            self.saved.notes.append(
                f"{other[0]} and the like are from a run in {of}, beside those of this one: an engine in {of} loads "
                "them with weights of this one"
            )
        mixed = [name for (rank, _), name in self.found.models.items() if (rank is not None) != self.is_partitioned]
        if mixed:
            stage = "another stage" if self.is_partitioned else "stage 3"
            self.saved.notes.append(f"{mixed[0]} is from a run with {stage}: an engine with {stage} loads it")

    # ----------------------------------------------------------------------------------------------------- what is odd

    def _agreement(self) -> None:
        """Ranks whose files are of another run or step, which may load, and the result is wrong."""
        data = self.engine.data_ranks or 0
        weights = {
            str(rank if rank is not None else model): one
            for (rank, model), one in self.models.items()
            if (rank is not None) == self.is_partitioned and (rank or 0) < data
        }
        states = {
            _label(rank, model): one
            for (prefix, rank, model), one in self._states()
            if prefix == self.engine.prefix and rank < data
        }
        steps = self._optimizer_steps(data)
        self._compared({rank: one.get("dp_world_size") for rank, one in weights.items()}, "world size", _OTHER_RANKS)
        self._compared({rank: one.get("global_steps") for rank, one in weights.items()}, "global_steps", _SILENT)
        stages = {rank: zero_stage(one) for rank, one in states.items()}
        self._compared(stages, "stage", "KeyError: 'optimizer_state_dict'" if 3 in stages.values() else _SILENT)
        for model in range(self.engine.model_ranks):
            ranks = [_label(rank, model) for rank in range(data) if _label(rank, model) in states]
            sizes = {rank: group_sizes(states[rank]) for rank in ranks}
            self._compared(sizes, "elements of the partition", _OTHER_SIZE)
            self._compared({rank: partition_count(states[rank]) for rank in ranks}, "number of partitions", _SILENT)
        self._compared(steps, "optimizer steps", _SILENT)
        self._compare_steps({step for step in steps.values() if step is not None})

    def _optimizer_steps(self, data: int) -> dict[str, float | None]:
        steps = {}
        for (prefix, rank, model), one in self._states():
            if prefix == self.engine.prefix and rank < data:
                name = join(self.below, self.found.optimizers[prefix, rank, model])
                steps[_label(rank, model)] = self.place.number(name, optimizer_step(one))
        return steps

    def _compare_steps(self, steps: set[float]) -> None:
        """The steps of the optimizer beside those that the weights have made."""
        made, skipped = self._first("global_steps"), self._first("skipped_steps")
        if len(steps) != 1 or not _is_comparable(made) or not _is_comparable(skipped):
            return
        (step,) = steps
        if step == made - skipped:
            return
        what = f"the weights have made {made - skipped} steps, and the optimizer's states {step:g}"
        if step > made or (self.engine.tag or "") == f"global_step{step:g}":
            self.saved.mistakes.append(f"{what}: the files are of two steps, and {NOTHING_RAISES}")
        else:
            self.saved.notes.append(f"{what}, as in a run that has begun without the optimizer's states")

    def _compared(self, values: dict[str, Any], what: str, result: str) -> None:
        known = {rank: value for rank, value in values.items() if _is_comparable(value)}
        usual = Counter(known.values()).most_common(1)  # of two, that of the first rank
        odd = next((rank for rank, value in known.items() if value != usual[0][0]), None)
        if odd is not None:
            self.saved.mistakes.append(
                f"the files of rank {odd} are of another run or step, with {what} {_shown(known[odd])} instead of "
                f"{_shown(usual[0][0])}: {result}"
            )

    # -------------------------------------------------------------------------------------------------------- contents

    def _shapes(self, key: str) -> dict[tuple[int | None, int], dict[str, tuple[int, ...]]]:
        """The shapes of parameters by name, from each file with weights."""
        found: dict[tuple[int | None, int], dict[str, tuple[int, ...]]] = {}
        for rank, one in self.models.items():
            groups = one.get(key)
            groups = [groups] if isinstance(groups, dict) else groups if isinstance(groups, list) else []
            found[rank] = {
                name: shape
                for group in groups
                if isinstance(group, dict)
                for name, value in group.items()
                if isinstance(name, str) and (shape := shape_of(value)) is not None
            }
        return found

    def _tensors(self) -> None:
        counted = TensorCount()
        trained, frozen = self._shapes("param_shapes"), self._shapes("frozen_param_shapes")
        if self.is_partitioned:
            rank = next((one for one in self.models if trained.get(one)), None)
            if rank is not None:
                module = self.models[rank].get("module")
                dtypes = {name: tensor.dtype for name, value in (module if isinstance(module, dict) else {}).items()
                          if (tensor := tensor_of(value)) is not None}  # fmt: skip
                usual = next(iter(dtypes.values()), "float32")
                for name, shape in {**trained[rank], **frozen[rank]}.items():
                    counted.count(dtypes.get(name, usual), product(shape))
                    if 0 in shape and shape == (0,):
                        counted.empty.append(name)
        else:
            for one in self.models.values():
                counted.add(tensors_of(one.get("module")))
            for path in (*self.found.layers.values(), *self.found.experts.values()):
                counted.add(tensors_of(self.place.archive(join(self.below, path)).value))
        self.saved.tensors = counted
        self._frozen(trained)
        if not self.engine.leaves_frozen_out:
            self._note_frozen()
        if counted.empty:
            self.saved.failures.append(
                f"{len(counted.empty)} tensors have no elements, as {counted.empty[0]}: saved from weights that "
                "stage 3 had partitioned"
            )

    def _note_frozen(self) -> None:
        """Stages 2 and 3 write what is frozen, if anything is, unless it is left out."""
        values = [one["frozen_param_shapes"] for one in self.models.values() if "frozen_param_shapes" in one]
        if (self.saved.stage or 0) > 1 and values and values[0] is None and not self.engine.is_pipeline:
            self.saved.notes.append(
                "saved with exclude_frozen_parameters=True: if the model has frozen weights, load_checkpoint() needs "
                "load_module_strict=False"
            )

    def _frozen(self, trained: dict[tuple[int | None, int], dict[str, tuple[int, ...]]]) -> None:
        """Whether frozen weights are in the files, and whether each rank has its part of them."""
        for rank, one in self.models.items():
            fragments = one.get("frozen_param_fragments")
            if isinstance(fragments, dict) and fragments:
                self.engine.leaves_frozen_out = False
                self.engine.partitions_frozen = self.is_partitioned
                return
            names = trained.get(rank, {})
            is_of_adapters = bool(names) and all("lora_" in name or "modules_to_save" in name for name in names)
            module = one.get("module")
            others = set(module if isinstance(module, dict) else ()) - set(names)
            if is_of_adapters:
                buffers = one.get("buffer_names")
                self.engine.leaves_frozen_out = not others - set(buffers if isinstance(buffers, list) else ())
                return

    def _engine(self) -> None:
        scheduler = self._first("lr_scheduler")
        self.engine.scheduler = scheduler if isinstance(scheduler, dict) else None
        self.engine.has_universal_information = isinstance(self._first("universal_checkpoint_info"), dict)
        for _, states in self._states():
            base = states.get("base_optimizer_state")
            self.engine.is_elastic = isinstance(base, list)
            self.engine.moments = moments(states)
            break
        if self.engine.is_elastic and not any("base_optimizer_state_step" in states for _, states in self._states()):
            self.saved.failures.append(
                "saved with `elastic_checkpoint`, and without the step: load_checkpoint() raises KeyError: "
                "'base_optimizer_state_step', and with `elastic_checkpoint` an AssertionError without a message"
            )
        for library in ("pytorch-lightning_version", "lightning_version"):
            if isinstance(release := self._first(library), str):
                self.saved.writer["lightning"] = release[:40]


# ------------------------------------------------------------------------------------- what the optimizer's files have


def partition_count(states: dict[Any, Any]) -> int | None:
    """The number of partitions: one number, or one for each group of parameters."""
    count = states.get("partition_count")
    if isinstance(count, list):
        count = next((one for one in count if isinstance(one, int)), None)
    return count if isinstance(count, int) and 0 < count <= _MOST_RANKS else None


def zero_stage(states: dict[Any, Any]) -> int | None:
    """The stage, which is a member of an enumeration in the pickle, or a number in old ones."""
    stage = states.get("zero_stage")
    if isinstance(stage, Call) and isinstance(stage.function, Global) and stage.function.name == "ZeroStageEnum":
        arguments = stage.arguments
        stage = arguments[0] if isinstance(arguments, tuple) and arguments else None
    return stage if isinstance(stage, int) and stage in (0, 1, 2, 3) else None


def _base(states: dict[Any, Any]) -> dict[Any, Any]:
    """The states of the optimizer itself, below those of ZeRO."""
    base = states.get("base_optimizer_state", states.get("optimizer_state_dict"))
    groups = base.get("state") if isinstance(base, dict) else None
    first = next(iter(groups.values()), None) if isinstance(groups, dict) else None
    return first if isinstance(first, dict) else {}


def optimizer_step(states: dict[Any, Any]) -> Any:
    """The step of the optimizer, a number or a tensor with one."""
    return _base(states).get("step")


def moments(states: dict[Any, Any]) -> frozenset[str]:
    """The names of the optimizer's states, such as exp_avg."""
    return frozenset(name for name in _base(states) if isinstance(name, str)) - {"step"}


def group_sizes(states: dict[Any, Any]) -> tuple[int, ...] | None:
    """The elements of each group of weights in fp32, with the padding that the last rank leaves out."""
    groups = states.get("single_partition_of_fp32_groups", states.get("fp32_flat_groups"))
    paddings = states.get("group_paddings")
    if not isinstance(groups, list):
        return None
    sizes = []
    for place, value in enumerate(groups):
        if (tensor := tensor_of(value)) is None:
            return None
        padding = paddings[place] if isinstance(paddings, list) and place < len(paddings) else 0
        sizes.append(tensor.elements + (padding if isinstance(padding, int) else 0))
    return tuple(sizes)


def is_enabled(config: dict[str, object], *names: str) -> bool | None:
    """Whether a section is switched on; None if the config does not tell, as with "auto"."""
    section = next((config[name] for name in names if name in config), {})
    value = section.get("enabled", False) if isinstance(section, dict) else None
    return value if isinstance(value, bool) else None


def _label(rank: int, model: int) -> str:
    return str(rank) if not model else f"{rank} (model rank {model})"


def _is_comparable(value: Any) -> bool:
    """Whether a value is one that DeepSpeed writes: a number of a usual size, or several."""
    return isinstance(value, (tuple, float)) or (isinstance(value, int) and abs(value) < 1 << 62)


def _shown(value: Any) -> str:
    return (
        ", ".join(map(_shown, value))
        if isinstance(value, tuple)
        else f"{value:g}"
        if isinstance(value, float)
        else str(value)[:60]
    )
