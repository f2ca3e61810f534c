"""The record of a saved folder: what wrote it, its files and tensors, and what stands against loading it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ds_lint.record import Record, field

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Literal

    from ds_lint.checkpoints.archives import FileStatus
    from ds_lint.checkpoints.tensors import SavedTensor

    ResumeStatus = Literal["yes", "convert", "no"]

# What the reasons say of loading.
NOTHING_RAISES = "nothing raises"
RETURNS_NONE = "returns None"
TRAINER_RAISES = "the Trainer raises"


class SavedFile(NamedTuple):
    """A file that belongs to the checkpoint, by its path in the folder; ``rank`` is the data rank that reads it."""

    path: str
    status: FileStatus
    rank: int | None = None
    why: str | None = None  # of a status that is not ok


class TensorCount(Record):
    """The parameters of the model: how many elements, of which dtypes, and which are empty and should not be."""

    elements: int | None = None
    empty: list[str] = field(factory=list)
    dtypes: dict[str, int] = field(factory=dict)

    def add(self, tensors: Iterable[SavedTensor], *, empty_is_wrong: bool = True) -> None:
        """Count more tensors."""
        for tensor in tensors:
            self.count(tensor.dtype, tensor.elements)
            if empty_is_wrong and tensor.shape == (0,):
                self.empty.append(".".join(tensor.path))

    def count(self, dtype: str, elements: int) -> None:
        """Count elements of a dtype."""
        self.elements = (self.elements or 0) + elements
        self.dtypes[dtype] = self.dtypes.get(dtype, 0) + elements


class EngineState(Record):
    """What DeepSpeed's own files say of the engine that wrote them."""

    tag: str | None = None
    folder: str = ""  # that engine.load_checkpoint would be given, below the folder that was named
    data_ranks: int | None = None
    model_ranks: int = 1
    is_pipeline: bool = False
    has_experts: bool = False
    has_partitions: bool = False  # of the optimizer, one for each data rank
    has_autoep: bool = False  # experts that AutoEP has made, which ds_to_universal knows
    is_elastic: bool = False
    prefix: str = ""  # "bf16_" of the optimizer's files of a bf16 engine
    config: dict[str, object] = field(factory=dict)
    scheduler: dict[str, object] | None = None
    moments: frozenset[str] | None = None  # the names of the optimizer's states
    leaves_frozen_out: bool | None = None  # of the saved weights; None: nothing is frozen, or that is not known
    partitions_frozen: bool = False  # stage 3: each rank has its part of frozen weights too
    has_universal_information: bool = False
    is_by_tag: bool = False  # loaded by a tag that the program knows, so that `latest` is not read


class SavedFolder(Record):
    """What a folder holds.

    ``failures`` are what raises or loses states when it is loaded as it was saved, ``mistakes`` what loads and is
    wrong, ``notes`` what does not matter to that. ``partition`` says on how many ranks it loads: only on those that
    wrote it, on any, or on none, as weights alone; None if that is not known.
    """

    kind: str
    stage: int | None = None
    ranks: int | None = None
    writer: dict[str, str] = field(factory=dict)
    files: list[SavedFile] = field(factory=list)
    tensors: TensorCount = field(factory=TensorCount)
    failures: list[str] = field(factory=list)
    mistakes: list[str] = field(factory=list)
    notes: list[str] = field(factory=list)
    partition: Literal["same", "any", "none"] | None = None
    engine: EngineState | None = None
    why_none: str = ""  # of ``partition`` "none"

    @property
    def is_whole(self) -> bool:
        """Whether every file is there and whole, and no tensor is wrongly empty."""
        return all(file.status == "ok" for file in self.files) and not self.tensors.empty


class ResumeAnswer(NamedTuple):
    """Whether a checkpoint resumes on so many ranks, and what to run before if it has to be converted."""

    world_size: int | None
    status: ResumeStatus
    why: str
    command: str | None = None

    def raises_in(self, stack: str) -> bool:
        """Whether a run of a stack ends, rather than going on with other states or from the start."""
        return NOTHING_RAISES not in self.why and not (stack == "deepspeed" and RETURNS_NONE in self.why)

    @property
    def is_of_trainer(self) -> bool:
        """Whether only the Trainer reads what is wrong."""
        return TRAINER_RAISES in self.why and RETURNS_NONE not in self.why
