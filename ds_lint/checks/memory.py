"""Rules about what a run holds in the memory of GPUs and hosts (DS85x).

They compare the bands of ``ds_lint/footprint`` with the facts: what the least exceeds fails, the likely may fail.
"""

from __future__ import annotations

from ds_lint.diagnostics.amounts import billions, gibibytes
from ds_lint.diagnostics.problem import ADVICE, RISK, Problem
from ds_lint.diagnostics.rule import rule
from ds_lint.record import Record
from ds_lint.semantics.features import is_on, zero_stage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from dataclasses import KW_ONLY

    from ds_lint.footprint.advice import Advice
    from ds_lint.footprint.band import Band
    from ds_lint.footprint.certainty import Needs
    from ds_lint.footprint.loading import LoadedModel
    from ds_lint.footprint.peaks import Peak
    from ds_lint.semantics.config import Config
    from ds_lint.source.tree import KeyPath, Span

ZERO = "zero_optimization"
_16_BIT = 2  # bytes
_GATHERS = ("stage3_gather_16bit_weights_on_model_save", "gather_16bit_weights_on_model_save")
_ROOM = 0.95  # share of a node's memory that a run is likely to find free: the system has the rest
_SHOWN = 2  # changes that make a run fit: likely and surely, or two of one kind
_SMALLEST = 0.01  # share of the figure above which a part is named
_PHASES = {"initialization": " while it is initialized", "step": "", "saving": " while it saves"}


@rule("DS844", "offload-while-it-fits", severity="info", effects=("advice",), keys=(ZERO,))
def offload_while_it_fits(config: Config) -> Iterator[Problem]:
    """Offload, although the most that the run takes fits on the GPU without it."""
    gpu = config.facts.gpu
    if gpu is None or config.section(ZERO) is None:
        return
    from ds_lint.footprint import certainty

    found = certainty.of_gpu_without_offload(config)
    if found is None or found.gpu_bytes.most > gpu.least_memory:
        return
    sections = [name for name in ("offload_optimizer", "offload_param") if config.value(ZERO, name, "device")]
    member = config.member(ZERO, sections[0], "device") if sections else None
    if member is None:
        return
    most = found.gpu_bytes.most
    yield Problem(
        (ZERO, sections[0], "device"),
        member.value.span,
        f"{' and '.join(f'`{name}`' for name in sections)} {'slow' if len(sections) > 1 else 'slows'} every step down, "
        f"and the run fits on the GPU without {'them' if len(sections) > 1 else 'it'}: at most {gibibytes(most)} of "
        f"{gibibytes(gpu.least_memory)}",
        ADVICE,
        help=f"Delete {' and '.join(f'`{name}`' for name in sections)}. On every {gpu.name}, "
        f"{gibibytes(gpu.least_memory - most)} stay free.",
        label="not needed",
        related=config.facts.model_at,
        subject=(gpu.name, gibibytes(most)),
    )


@rule("DS851", "offload-exceeds-host-memory", severity="warning", effects=("risk",), keys=(ZERO,))
def offload_exceeds_host_memory(config: Config) -> Iterator[Problem]:
    """States offloaded to the CPU that need more memory than a node has."""
    memory = config.facts.host_memory
    if memory is None:
        return
    from ds_lint.footprint import certainty

    needs = certainty.of_host(config)
    if needs is None or not _offloads_to_host(needs):
        return
    shortage = _shortage(needs, memory, _host_peak, room=_ROOM)
    if shortage is None:
        return
    held = {name: amount.bytes for name, amount in needs.trained.host.items()}
    advice = _advice(config, needs)
    key, span = _place(config, advice, (ZERO, "offload_optimizer", "device"), (ZERO, "offload_param", "device"))
    yield Problem(
        key,
        span,
        f"training {shortage.condition}{billions(needs.trained.setup.saved_count)} parameters needs "
        f"{shortage.amount} of host memory{shortage.when}, but a node has {gibibytes(memory)}: the run is "
        f"{'' if shortage.is_certain else 'likely to be '}killed",
        RISK,
        help=_help(config, advice, "Use more nodes, or offload to NVMe at stage 3.", shortage, needs)
        + f" Offload to the CPU takes on each node: {shortage.parts(held)}.",
        label=f"{gibibytes(shortage.figure)} of {gibibytes(memory)}",
        related=config.facts.model_at,
        severity="error" if shortage.is_sure else None,
        subject=gibibytes(shortage.figure),
    )


@rule("DS852", "states-exceed-gpu-memory", severity="warning", effects=("risk",))
def states_exceed_gpu_memory(config: Config) -> Iterator[Problem]:
    """A run that needs more memory than a GPU has."""
    gpu = config.facts.gpu
    if gpu is None:
        return
    from ds_lint.footprint import certainty

    needs = certainty.of_gpu(config)
    shortage = _shortage(needs, gpu.memory, _gpu_peak) if needs is not None else None
    if needs is None or shortage is None:
        return
    held = needs.trained.peaks[shortage.phase].held
    advice = _advice(config, needs)
    key, span = _place(config, advice, (ZERO, "stage"), (ZERO,))
    yield Problem(
        key,
        span,
        f"training {shortage.condition}{billions(needs.trained.setup.saved_count)} parameters needs "
        f"{shortage.amount} per GPU{shortage.when}, but {gpu.in_words} has {gibibytes(gpu.memory)}: the run is "
        f"{'' if shortage.is_certain else 'likely to be '}out of memory",
        RISK,
        help=_help(config, advice, "Use a higher ZeRO stage, more ranks, or offload.", shortage, needs)
        + f" Each GPU holds: {shortage.parts(held)}.",
        label=f"{gibibytes(shortage.figure)} of {gibibytes(gpu.memory)}",
        related=config.facts.model_at,
        severity="error" if shortage.is_sure else None,
        subject=(gpu.name, gibibytes(shortage.figure)),
    )


@rule("DS854", "gathered-weights-exceed-host-memory", severity="info", effects=("risk",), keys=(ZERO,), default=False)
def gathered_weights_exceed_host_memory(config: Config) -> Iterator[Problem]:
    """A save that gathers the whole model on one rank, on a node with less memory than that."""
    model, memory = config.facts.model, config.facts.host_memory
    member = next((found for name in _GATHERS if (found := config.member(ZERO, name)) is not None), None)
    if member is None or model is None or not model.parameter_count or memory is None or zero_stage(config) != 3:
        return
    size = model.parameter_count * _16_BIT
    if is_on(config, ZERO, member.key) and size > memory:
        yield Problem(
            (ZERO, member.key),
            member.value.span,
            f"saving gathers {billions(model.parameter_count)} parameters (at least {gibibytes(size)}) in host memory "
            f"of rank 0, but the node has {gibibytes(memory)}",
            RISK,
            help="Save sharded checkpoints, and convert them with zero_to_fp32.py on a machine with more memory.",
            label=f"{gibibytes(size)} of {gibibytes(memory)}",
            related=config.facts.model_at,
        )


@rule("DS855", "model-exceeds-host-memory", severity="warning", effects=("risk",), keys=())
def model_exceeds_host_memory(config: Config) -> Iterator[Problem]:
    """Ranks that each load the whole model, on a node with less memory than that."""
    memory = config.facts.host_memory
    if memory is None or config.facts.launch is None:
        return
    from ds_lint.footprint import loading

    loaded = loading.on_each_rank(config)
    if loaded is None or loaded.node_bytes <= memory or config.facts.model is None:
        return
    launch, is_certain = config.facts.launch, loaded.rank_bytes > memory
    stage = config.member(ZERO, "stage")
    count = billions(config.facts.model.parameter_count or 0)
    yield Problem(
        (ZERO, "stage") if stage is not None else None,
        stage.value.span if stage is not None else config.opening,
        f"`{loaded.load.function}`, {launch.at(loaded.load.place)}, loads {gibibytes(loaded.node_bytes)} into "
        f"{gibibytes(memory)} of host memory: the system "
        f"{'kills' if is_certain else 'is likely to kill'} the run",
        RISK,
        help=f"{_how_to_load(config, loaded)} Before training starts, host memory holds {count} parameters in "
        f"{loaded.dtype}"
        + (f", {gibibytes(loaded.rank_bytes)} in each of {loaded.ranks} ranks." if loaded.ranks > 1 else "."),
        label=f"{gibibytes(loaded.node_bytes)} of {gibibytes(memory)}",
        severity="error" if is_certain else None,
        related=[
            *launch.related(loaded.load.place, f"loads {gibibytes(loaded.rank_bytes)} in each rank"),
            *config.facts.model_at,
        ],
        subject=gibibytes(loaded.node_bytes),
    )


class _Shortage(Record):
    """What a run needs that a GPU or a node does not have.

    ``is_certain`` says that the least is too much if all that is counted is trained, ``is_sure`` that it is whatever is
    frozen.
    """

    phase: str
    band: Band
    _: KW_ONLY
    is_certain: bool
    is_sure: bool
    trains_all: bool

    @property
    def figure(self) -> float:
        """The bytes that are too many: the least if they are, else the likely ones."""
        return self.band.least if self.is_certain else self.band.likely

    @property
    def amount(self) -> str:
        """The figure in words."""
        if self.is_certain:
            return f"at least {gibibytes(self.figure)}"
        return f"about {gibibytes(self.figure)}"

    @property
    def when(self) -> str:
        """The phase in words, if it is not the training itself."""
        return _PHASES[self.phase]

    def parts(self, held: Mapping[str, Band]) -> str:
        """The kinds that take most, by the bound that the figure is."""
        sizes = {name.replace("_", " "): band.least if self.is_certain else band.likely for name, band in held.items()}
        known = "" if self.is_certain else f"; at least {gibibytes(self.band.least)} in all"
        named = (f"{name} {gibibytes(size)}" for name, size in sizes.items() if size > _SMALLEST * self.figure)
        return f"{', '.join(named)}{known}"

    @property
    def condition(self) -> str:
        """What has to be trained for the claim to be true."""
        return "" if self.is_sure or self.trains_all else "all "


def _shortage(needs: Needs, memory: int, peak_of: Callable[[Peak], Band], room: float = 1) -> _Shortage | None:
    """What is too much in the phase that needs most; None if what is likely fits."""
    phases = [phase for phase in _PHASES if phase in needs.trained.peaks]
    peaks = {phase: peak_of(needs.trained.peaks[phase]) for phase in phases}
    sure = max((peak_of(peak).least for phase, peak in needs.surely.peaks.items() if phase in phases), default=0)
    certain = [phase for phase in phases if peaks[phase].least > memory]
    found = certain or [phase for phase in phases if peaks[phase].likely > room * memory]
    if not found:
        return None
    phase = max(found, key=lambda one: peaks[one].least if certain else peaks[one].likely)
    return _Shortage(phase, peaks[phase], is_certain=bool(certain), is_sure=sure > memory, trains_all=needs.trains_all)


def _how_to_load(config: Config, loaded: LoadedModel) -> str:
    """What takes less memory: the dtype of the file, which may stay mapped, or partitions."""
    has_partitions = "With stage 3, each rank holds a part of the model while it is loaded."
    saved = config.facts.model.dtype if config.facts.model is not None else None
    if saved not in (None, loaded.dtype):
        name = "torch_dtype" if config.knowledge.stack_does("models-are-loaded-in-fp32-unasked") else "dtype"
        low = config.knowledge.stack_does("checkpoints-of-the-same-dtype-stay-mapped")
        return f'Pass `{name}="auto"`{"" if low else " and `low_cpu_mem_usage=True`"}. {has_partitions}'
    return f"Pass `low_cpu_mem_usage=True`. {has_partitions}"


def _gpu_peak(peak: Peak) -> Band:
    return peak.gpu


def _host_peak(peak: Peak) -> Band:
    return peak.host


def _offloads_to_host(needs: Needs) -> bool:
    wanted = needs.trained.setup
    return any(one is not None and one.device == "cpu" for one in (wanted.optimizer_offload, wanted.parameter_offload))


def _advice(config: Config, needs: Needs) -> list[Advice]:
    """What makes the run fit; nothing if the ranks or the nodes are not known, so that there is no figure."""
    if config.world_size is None or (config.facts.nodes is None and config.world_size > 1):
        return []
    from ds_lint.checks.acceptance import rejections
    from ds_lint.footprint.applied import advised

    return advised(config, needs.trained.setup, rejections, most=_SHOWN)


def _help(config: Config, advice: list[Advice], otherwise: str, shortage: _Shortage, needs: Needs) -> str:
    """The changes that make the run fit with what it then takes, else what helps in general."""
    is_whole = shortage.phase == "initialization" and needs.trained.setup.is_moved_whole
    text = " ".join(_ways(config, advice)) or otherwise
    if is_whole:
        text = f"Without `deepspeed.zero.Init`, `deepspeed.initialize` moves the whole model to every GPU. {text}"
    return text if shortage.is_sure or shortage.trains_all else f"{text} LoRA trains fewer parameters and needs less."


def _ways(config: Config, advice: list[Advice]) -> Iterator[str]:
    """What makes it likely fit, and what surely: the first of each, and a second one if there is one answer."""
    known = [name for name, one in (("GPU", config.facts.gpu), ("host", config.facts.host_memory)) if one]
    where = f" the {known[0]}" if len(known) == 1 else ""  # of the other one the memory is not known
    kinds = [[one for one in advice if one.is_sure is is_sure] for is_sure in (False, True)]
    shown = _SHOWN // max(1, sum(map(bool, kinds)))
    for found, fits in zip(kinds, ("is likely to fit", "fits" if not kinds[0] else "surely fits"), strict=True):
        ways = [
            f"{one.words} ({gibibytes(one.estimate.gpu_bytes.likely)} per GPU, "
            f"{gibibytes(one.estimate.host_bytes.likely)} of host memory)"
            for one in found[:shown]
        ]
        if ways:
            yield f"It {fits}{where} with {'; or '.join(ways)}."


def _place(config: Config, advice: list[Advice], *others: KeyPath) -> tuple[KeyPath | None, Span]:
    """The key whose change helps most, or the section that it belongs to; else another one, or the opening."""
    written = (write.key for one in advice for write in one.writes if write.place == "config")
    paths = [tuple(key.split(".")) for key in written]
    sections = [path[:-1] for path in paths if len(path) > 1]
    for path in (*paths[:1], *others, *sections[:1], (ZERO,)):
        member = config.member(*path)
        if member is not None:
            is_section = member.value.kind == "object"
            return path, member.key_span if is_section else member.value.span
    return None, config.opening
