"""What is known beside the config: training arguments, model, ranks, GPU, host; none of it is required.

``Sources`` is what the user said, ``readers.gather`` reads it, ``Facts`` is what came of it. This module is on the
clean path of ``check``; a reader is imported only where there is something for it to read.
"""

from __future__ import annotations

from ds_lint.record import Record, field

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dataclasses import KW_ONLY

    from ds_lint.diagnostics.finding import Related, Stack
    from ds_lint.diagnostics.verdict import Verdict
    from ds_lint.facts.gpu import Gpu
    from ds_lint.facts.launched import LaunchFacts
    from ds_lint.facts.lora import Adapters
    from ds_lint.facts.model import Model
    from ds_lint.facts.recipes import TrainingRecipe
    from ds_lint.facts.training import TrainingArguments


class Sources:
    """Where facts are to be read from, as the command line, a settings file or a caller in Python names it."""

    __slots__ = (
        "adapters",
        "async_io",
        "gpu",
        "gpu_memory",
        "here",
        "host_memory",
        "lora",
        "micro_batch",
        "model",
        "nodes",
        "parameters",
        "said_by",
        "sequence_length",
        "trainer_args",
        "world_size",
    )

    NAMES = ("world_size", "nodes", "trainer_args", "model", "gpu", "host_memory", "here")
    # Which only `ds-lint memory` takes.
    OF_MEMORY = ("parameters", "lora", "gpu_memory", "micro_batch", "sequence_length")
    ALL = (*NAMES, *OF_MEMORY)

    def __init__(
        self,
        *,
        world_size: int | None = None,
        nodes: int | None = None,
        trainer_args: object = None,
        model: str | None = None,
        gpu: str | None = None,
        host_memory: str | None = None,
        here: bool | None = None,
        gpu_memory: str | None = None,
        micro_batch: int | None = None,
        sequence_length: int | None = None,
        async_io: bool | None = None,
        adapters: str | None = None,
        parameters: str | None = None,
        lora: str | None = None,
        said_by: str | None = None,
    ) -> None:
        self.world_size = world_size
        self.nodes = nodes
        self.trainer_args = trainer_args  # a path, flags that begin with "--", or an object of TrainingArguments
        self.model = model  # a folder, or a name in the Hugging Face cache
        self.gpu = gpu  # its name
        self.host_memory = host_memory  # such as 512GB
        self.here = here  # whether the run is meant for this machine
        self.gpu_memory = gpu_memory  # such as 80GB
        self.micro_batch = micro_batch  # samples that one rank computes at once
        self.sequence_length = sequence_length  # tokens of a sample
        self.async_io = async_io  # whether libaio is installed; only the machine shows it
        self.adapters = adapters  # the option that says that the script trains adapters
        self.parameters = parameters  # how many the model has, such as 7B
        self.lora = lora  # the adapters that are trained, such as r=16,targets=q_proj+v_proj
        self.said_by = {name: said_by or f"--{name.replace('_', '-')}" for name in self.ALL}

    def __bool__(self) -> bool:
        return self.adapters is not None or any(getattr(self, name) is not None for name in self.ALL)

    def over(self, others: Sources) -> Sources:
        """These sources, and for what they leave out, the others."""
        joined = Sources(adapters=self.adapters or others.adapters)
        for name in self.ALL:
            first = self if getattr(self, name) is not None else others
            setattr(joined, name, getattr(first, name))
            joined.said_by[name] = first.said_by[name]
        return joined


class Facts(Record):
    """What is known beside the config; None for what is not.

    ``origins`` has what is known and its source, in words, by the name of the fact; ``doubts`` what of it looks as if
    something else had been meant.
    """

    _: KW_ONLY
    world_size: int | None = None  # ranks
    nodes: int | None = None
    training: TrainingArguments | None = None
    model: Model | None = None
    family: Model | None = None  # of a model that is not at hand: nothing but its type is known
    model_at: list[Related] = field(factory=list)  # where a launch, a recipe or a script names the model
    gpu: Gpu | None = None
    host_memory: int | None = None  # bytes on each node
    micro_batch: int | None = None  # samples that one rank computes at once
    sequence_length: int | None = None  # tokens of a sample
    async_io: bool | None = None  # whether there is libaio
    adapters: str | None = None  # the option that says that the script trains adapters
    lora: Adapters | None = None  # as the user describes them; ``lora_requests`` asks the project too
    recipe: TrainingRecipe | None = None  # the one that names or holds the config
    optimizer: str | None = None  # the class that a run of the script shows; empty if it makes no step
    launch: LaunchFacts | None = None  # a launch of the project that names the config
    origins: dict[str, str] = field(factory=dict)
    doubts: list[str] = field(factory=list)
    smoke: list[Verdict] = field(factory=list)  # what runs of the config showed

    def with_recipe(self, recipe: TrainingRecipe) -> Facts:
        """The same facts with what a recipe tells; what the user says of a fact stands."""
        joined = self.copy()
        joined.recipe = recipe
        joined.adapters = self.adapters or recipe.adapter
        if self.model is None:
            joined.family = recipe.family
            joined.take_model(recipe.model, *recipe.model_place)
        if self.training is None and recipe.training is not None:
            joined.training = recipe.training
            joined.tell("training arguments", recipe.origin)
        return joined

    def with_launch(self, launch: LaunchFacts) -> Facts:
        """The same facts with what a launch tells; what the user says of a fact stands."""
        joined = self.with_recipe(launch.recipe) if launch.recipe is not None else self.copy()
        joined.launch = launch
        if self.world_size is None and self.nodes is None:
            joined.world_size, joined.nodes = launch.world_size, launch.nodes
            joined.tell("world size", launch.world_size and f"{launch.world_size}, by {launch.origin}")
            joined.tell("nodes", launch.nodes and f"{launch.nodes}, by {launch.origin}")
        if self.training is None and launch.training is not None:
            joined.training = launch.training
            joined.tell("training arguments", launch.origin)
        if self.gpu is None and launch.gpu is not None:
            joined.gpu = launch.gpu
            joined.tell("GPU", f"{joined.gpu.origin}, by {launch.origin}")
        if self.host_memory is None and launch.memory is not None:
            joined.host_memory = launch.memory
            joined.tell("host memory", f"{launch.memory / 2**30:.4g} GiB, by {launch.origin}")
        if self.model is None:
            joined.family = launch.family if launch.model is None else None
            joined.take_model(launch.model, *launch.model_place)
        return joined

    def take_model(self, model: Model | None, place: str, related: list[Related]) -> None:
        """Take the model that a launch or a recipe names at a place."""
        self.model, self.model_at = model, related
        if model is not None:
            self.tell("model", f"{model.origin}, by {place}")

    def copy(self) -> Facts:
        """The same facts, to which others can be added."""
        return self.but(origins=dict(self.origins), model_at=self.model_at, doubts=self.doubts, smoke=self.smoke)

    def tell(self, fact: str, source: str | int | None) -> None:
        """Name the source of a fact, if there is one."""
        if source:
            self.origins[fact] = str(source)

    @property
    def model_or_family(self) -> Model | None:
        """The model, or what is known of its type, for what the type alone decides."""
        return self.model or self.family

    @property
    def ranks_per_node(self) -> int | None:
        """Ranks on each node; None where that is not known, or the nodes are not alike."""
        if self.world_size is None or not self.nodes or self.world_size % self.nodes:
            return None
        return self.world_size // self.nodes

    @property
    def has_model_or_machine(self) -> bool:
        """Whether anything is known of the model, the GPU or the host."""
        return any(fact is not None for fact in (self.model, self.gpu, self.host_memory, self.async_io))

    def missing(self, stack: Stack | None) -> list[str]:
        """The facts that would tell more of a config that this stack loads, by name."""
        unknown = [] if self.world_size else ["world size"]
        unknown += ["training arguments"] if stack == "trainer" and self.training is None else []
        if self.gpu is None and self.host_memory is None:
            return unknown
        if self.model is None:  # without which nothing can be too large for the machine
            return [*unknown, "model"]
        is_size_known = self.model.parameter_count is not None or self.model.quantization is not None
        return unknown if is_size_known else [*unknown, "size of the model"]
