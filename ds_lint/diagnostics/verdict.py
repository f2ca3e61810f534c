"""What a short training run verified: the evidence of ``ds_lint.smoke`` for the rules DS9xx.

Plain records without a library behind them: a report, a rule and a page are made from them on machines without torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from ds_lint.diagnostics.finding import RunStack

FAKE = "fake"  # rank 0 of a world that is not there
CPU = "cpu-gloo"
CUDA = "cuda-nccl"
SCRIPT = "script"  # the user's own
WITHOUT_CONFIG: Final = "torch"  # the stack of a script that shards its model with FSDP of torch itself
COVERAGE = "coverage"  # the id of the checks that name a key which no other check is about

STATUSES = ("error", "fail", "warn", "skip", "pass")  # worst first
# How much of the arithmetic of the steps was compared, by these checks.
COMPARED, PARTLY, NOT_COMPARED = "compared", "partly", "not compared"
_OF_ARITHMETIC = ("averaging", "update", "weights")


class Adaptation(NamedTuple):
    """A difference between this run and the user's, because of the machine or the small model."""

    key: str | None  # dotted key path of the config, or ``--flag`` of a training argument; None for neither
    before: Any  # None: it was not there
    after: Any  # None: it was removed
    why: str


class Check(NamedTuple):
    """The check of one property that the config asks for.

    ``error`` is for an undecided check. ``adapted`` says that the property was changed for the run, so that
    what passed is verified with that adaptation only.
    """

    id: str  # "optimizer-states"
    status: str
    key: str | None  # the dotted key path that promises it
    expected: Any
    observed: Any
    unit: str | None  # "elements", "ranks"
    message: str  # one sentence
    help: str = ""
    adapted: bool = False

    @property
    def subject(self) -> tuple[str, str | None]:
        """What the finding about it is known by."""
        return self.id, self.key


class RankEnd(NamedTuple):
    """How one rank ended, in which phase, and with what error.

    ``exit`` is ``ok``, ``exception``, ``signal`` (it was killed), ``timeout``, or ``ended``: by ds-lint, because
    another rank had failed.
    """

    rank: int
    exit: str
    phase: str
    error: str | None = None


class RunNode(NamedTuple):
    """One of the nodes of a run."""

    name: str
    ranks: list[int]
    log: str | None = None  # the file with what its ranks printed; kept only where something went wrong


class Step(NamedTuple):
    """One optimizer step of rank 0."""

    loss: float
    learning_rates: list[float]  # of each parameter group, with which the step was made
    loss_scale: float | None
    gradient_norm: float | None  # before clipping
    is_skipped: bool


class Held(NamedTuple):
    """What one rank holds of one kind of thing: elements, and the bytes that they take."""

    elements: int
    bytes: int


class ScriptEngine(NamedTuple):
    """The engine of the user's own script that a run is about."""

    number: int  # in the order in which the script makes them, from 1
    device: str  # CPU or CUDA
    model_class: str
    optimizer: str  # the class that makes the steps; empty if the engine is not trained
    is_trained: bool


# What a script and its engine do, one after the other; the time and the memory of each is measured.
OF_SCRIPT, OF_DS_LINT = "script", "ds-lint"
OF_INITIALIZE, OF_FORWARD, OF_BACKWARD, OF_STEP = "initialize", "forward", "backward", "step"
OF_SAVE, OF_EXPORT, OF_LOAD = "save", "export", "load"


class PeakMemory(NamedTuple):
    """The most memory that one rank takes, and when."""

    rank: int
    bytes: int
    phase: str
    step: int  # from 1; 0 before the first
    reserved: int | None = None  # bytes that torch holds of a GPU, with those that no tensor takes


class Projection(NamedTuple):
    """What the whole training takes if all of it goes like the measured steps; None for what is not known."""

    steps: int | None  # of the whole training
    seconds: float | None  # of its steps, without evaluation and saving
    steps_of_epoch: int | None
    seconds_of_epoch: float | None
    checkpoints: int | None  # that lie on the disk in the end
    checkpoint_bytes: int | None  # of all of them
    free_bytes: int | None  # on the disk of the script's own output folder


class Estimated(NamedTuple):
    """What ds-lint computes from the config and the shapes for the fullest rank, beside what that rank holds."""

    kind: str  # "parameters", "master weights", "optimizer states"
    least: int  # bytes
    most: int
    held: int


class Communication(NamedTuple):
    """The collectives of one profiled step on one rank."""

    rank: int
    step: int  # from 1
    seconds: float  # in which at least one of them is on its way
    of_seconds: float  # that the step takes while it is profiled
    by_kind: dict[str, float]  # seconds; those that overlap count each


class Measurements(NamedTuple):
    """What only a run of the user's own script shows: memory, time, and files."""

    gpu_peaks: list[PeakMemory]  # of each rank; empty without GPUs
    host_peaks: list[PeakMemory]  # of the process of each rank
    is_host_sampled: bool  # host memory between the phases: the kernel gives no peaks
    step_seconds: float | None  # the median of ``timed_steps`` on the slowest rank
    timed_steps: list[int]  # without the first, and that after saving
    seconds: dict[str, float]  # of the slowest rank: initialize, save, export, load
    own_seconds: float  # that ds-lint itself takes in the first start, on the slowest rank
    samples: int | None  # of one step, of all ranks
    tokens: int | None  # of one step, with padding; None if the model gets no input_ids
    files: dict[str, int]  # bytes: "model states", "optimizer states", "other", "export"
    nvme_bytes: int  # of all ranks
    projection: Projection | None = None
    estimated: list[Estimated] = []  # noqa: RUF012 - a NamedTuple's default
    communication: list[Communication] = []  # noqa: RUF012 - the same; by rank, with a profile


class Verdict(NamedTuple):
    """One run: how it was made, and what it showed. Without an engine, the fields about one are empty."""

    path: str
    stack: RunStack
    mode: str  # one of the four above
    world_size: int
    status: str  # "pass", "warn", "fail", or "error": could not run, which is never a pass
    adaptations: list[Adaptation]
    checks: list[Check]
    ranks: list[RankEnd]
    seconds: float
    model: str = ""  # in words: "tiny Llama"
    parameter_count: int = 0
    steps: list[Step] = []  # noqa: RUF012 - a NamedTuple's default, here and below
    # By rank, what it holds after the steps, by kind: "parameters", "gradients", "master weights", "exp_avg" ...
    held: list[dict[str, Held]] = []  # noqa: RUF012
    versions: dict[str, str] = {}  # noqa: RUF012 - of python, torch, deepspeed, transformers, accelerate
    error: str | None = None  # why it could not run, in one sentence
    log: str | None = None  # the file with what the libraries printed; kept only where something went wrong
    peak_bytes: list[int] = []  # noqa: RUF012 - on GPUs, by rank
    engine: ScriptEngine | None = None  # in the mode SCRIPT; None if the script made none
    measured: Measurements | None = None  # in the mode SCRIPT; None if it has not come to its checkpoint
    launch: str | None = None  # the place of the launch that was run: "train.sh:12"
    strategy: str | None = None  # "fsdp1" or "fsdp2" in a small run with FSDP; None: DeepSpeed
    nodes: list[RunNode] = []  # noqa: RUF012 - of a run on several
    place: str | None = None  # of the config in a file that may hold several: "3:13", in a notebook "cell 2:3:13"

    @property
    def arithmetic(self) -> str | None:
        """How much of the gradients, of the optimizer's step and of the weights after it was compared; None: no check.

        That the weights follow the fp32 weights says nothing about the steps where no step was compared.
        """
        by_id = {
            check.id: check.status in ("pass", "warn", "fail") for check in self.checks if check.id in _OF_ARITHMETIC
        }
        if not by_id:
            return None
        if all(by_id.values()):
            return COMPARED
        return PARTLY if by_id.get("averaging") or by_id.get("update") else NOT_COMPARED

    @property
    def why_not_compared(self) -> str:
        """Why nothing of the arithmetic was compared; empty if something was, or if there is no check of it."""
        if self.arithmetic != NOT_COMPARED:
            return ""
        return next(one.message for one in self.checks if one.id in _OF_ARITHMETIC and one.status in ("skip", "error"))


def worst(statuses: list[str]) -> str:
    """The worst of some statuses: what failed counts, whatever else could not be decided.

    Skipped checks alone verify nothing, and count as a pass.
    """
    if "fail" in statuses:
        return "fail"
    found = min(statuses, key=STATUSES.index, default="pass")
    return "pass" if found == "skip" else found
