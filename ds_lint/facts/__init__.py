"""What is known beside the config: training arguments, model, ranks, GPU, host; none of it is required.

``Sources`` is what the user gives, ``readers.gather`` reads it, ``Facts`` is what came of it. This module is on the
clean path of ``check``; a reader is imported only where there is something for it to read.
"""

from __future__ import annotations

from ds_lint.option import OptionRecord, option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.diagnostics.finding import Related, Stack
    from ds_lint.diagnostics.verdict import Verdict
    from ds_lint.facts.gpu import Gpu
    from ds_lint.facts.launched import LaunchFacts
    from ds_lint.facts.lora import Adapters
    from ds_lint.facts.model import Model
    from ds_lint.facts.training import TrainingArguments
    from ds_lint.facts.training_recipe import TrainingRecipe
    from ds_lint.frameworks.record import PackedWeights

KERNELS = ("transformers", "liger")
ATTENTIONS = ("eager", "sdpa", "flash_attention_2", "flash_attention_3")


class Sources(OptionRecord):
    """Where facts are to be read from, as the command line, a settings file or a caller in Python names it.

    Every fact is one option here. Those of the part ``facts`` are known to settings, editors and callers too; which
    machine this is, only the command line, and what decides on memory alone, only commands about it.
    """

    world_size: int | None = option("facts", "number of ranks of the run", metavar="N", variable=True)
    nodes: int | None = option("facts", "number of machines that the ranks are spread over", metavar="N")
    # A path, flags that begin with "--", or an object of TrainingArguments.
    trainer_args: object = option(
        "facts",
        'training arguments: a JSON or YAML file of TrainingArguments fields, flags such as "--bf16 True", or '
        "a whole launch command",
        metavar="FILE|FLAGS", words='the path of a file, or flags such as "--bf16 True"', is_path=True,
        keyword="training_args", annotation="object",
    )  # fmt: skip
    model: str | None = option(
        "facts",
        "the model: a folder with its config.json, or the name of a model that was downloaded before, "
        "or whose shapes ship with ds-lint",
        metavar="NAME|FOLDER", words="a folder or a name", is_path=True, annotation="str | os.PathLike[str] | None",
    )  # fmt: skip
    gpu: str | None = option(
        "facts", "the GPU that the run uses, such as A100-80GB or T4", metavar="NAME",
        words='the name of a GPU such as "A100-80GB"',
    )  # fmt: skip
    host_memory: str | None = option(
        "facts", "memory of each machine, such as 512GB", metavar="SIZE", words='a size such as "512GB"'
    )
    here: bool | None = option("here", "the run uses this machine: read its GPU and its memory", can_be_off=False)
    parameters: str | None = option(
        "samples", "number of parameters, such as 7B, of a model whose shapes are not known", metavar="COUNT"
    )
    lora: str | None = option(
        "samples",
        "train LoRA adapters, such as r=16,targets=q_proj+v_proj (targets may be all-linear; default: those of peft)",
        metavar="ADAPTERS",
    )
    quantization: str | None = option(
        "samples",
        "weights that bitsandbytes quantizes: nf4, fp4 or int8, with double, storage=bfloat16, skip=lm_head; or none",
        metavar="WEIGHTS",
    )
    gpu_memory: str | None = option(
        "samples", "memory of each GPU, such as 80GB, if it has no known name", metavar="SIZE"
    )
    micro_batch: int | None = option("samples", "samples that one GPU computes at once", metavar="B")
    sequence_length: int | None = option("samples", "tokens of a sample, or of a prompt", metavar="S")
    new_tokens: int | None = option("samples", "tokens that a run generates behind each prompt", metavar="N")
    attention: str | None = option(
        "samples", f"how attention is computed: {', '.join(ATTENTIONS[:-1])} or {ATTENTIONS[-1]}", metavar="KIND",
        choices=ATTENTIONS,
    )  # fmt: skip
    kernels: str | None = option(
        "samples", f"whose kernels compute the layers and the loss: {' or '.join(KERNELS)}", metavar="WHOSE",
        choices=KERNELS,
    )  # fmt: skip
    packing: bool | None = option("samples", "whether all sequences of a batch are equally long, so none is padded")
    activation_checkpointing: bool | None = option("samples", "whether activations are computed again in backward")
    optimizer: str | None = option(
        "updates", "the optimizer, by its type in a config or as --optim of the Trainer, such as adamw_bnb_8bit",
        metavar="NAME",
    )  # fmt: skip

    async_io: bool | None = None  # whether libaio is installed; only the machine shows it
    adapters: str | None = None  # the option that says that the script trains adapters
    given_by: str | dict[str, str] | None = None  # who gives all of them, or some by name; else options do

    def __bool__(self) -> bool:
        names = ("adapters", *(one.name for one in self.options())) if vars(self) else ()
        return any(getattr(self, name) is not None for name in names)

    def giver(self, name: str) -> str:
        """Who gives a fact: an option, an environment variable, a settings file or a caller."""
        if isinstance(self.given_by, str):
            return self.given_by
        return (self.given_by or {}).get(name, f"--{name.replace('_', '-')}")

    def over(self, others: Sources) -> Sources:
        """These sources, and for what they leave out, the others."""
        joined, givers = Sources(adapters=self.adapters or others.adapters), {}
        for name in (one.name for one in self.options()):
            first = self if getattr(self, name) is not None else others
            setattr(joined, name, getattr(first, name))
            givers[name] = first.giver(name)
        joined.given_by = givers
        return joined


class Facts:
    """What is known beside the config; None for what is not.

    ``origins`` has what is known and its source, in words, by the name of the fact; ``doubts`` what of it looks as if
    something else had been meant.
    """

    def __init__(
        self, *, world_size: int | None = None, nodes: int | None = None, training: TrainingArguments | None = None
    ) -> None:
        self.world_size = world_size  # ranks
        self.nodes = nodes
        self.training = training
        self.model: Model | None = None
        self.family: Model | None = None  # of a model that is not at hand: nothing but its type is known
        self.model_at: list[Related] = []  # where a launch, a recipe or a script names the model
        self.gpu: Gpu | None = None
        self.host_memory: int | None = None  # bytes on each node
        self.shared_memory: int | None = None  # bytes of /dev/shm there
        self.micro_batch: int | None = None  # samples that one rank computes at once
        self.sequence_length: int | None = None  # tokens of a sample
        self.attention: str | None = None  # as the user says; ``own_arguments`` asks the project too
        self.kernels: str | None = None  # as the user says; ``memory.kernels`` asks the project too
        self.packing: bool | None = None  # as the user says; ``memory.kernels`` asks the project too
        self.activation_checkpointing: bool | None = None  # as the user says
        self.named_optimizer: str | None = None  # as the user says, in lower case
        self.new_tokens: int | None = None  # that are generated behind each prompt
        self.async_io: bool | None = None  # whether there is libaio
        self.adapters: str | None = None  # the option that says that the script trains adapters
        self.lora: Adapters | None = None  # as the user describes them; ``lora_requests`` asks the project too
        self.packed: PackedWeights | None = None  # as the user describes them; ``packed_weights`` asks the project too
        self.recipe: TrainingRecipe | None = None  # the one that names or holds the config
        self.optimizer: str | None = None  # the class that a run of the script shows; empty if it makes no step
        self.launch: LaunchFacts | None = None  # a launch of the project that names the config
        self.origins: dict[str, str] = {}
        self.doubts: list[str] = []
        self.smoke: list[Verdict] = []  # what runs of the config showed

    def with_recipe(self, recipe: TrainingRecipe) -> Facts:
        """The same facts with what a recipe tells; what the user gives takes precedence."""
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
        """The same facts with what a launch tells; what the user gives takes precedence."""
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
        if self.shared_memory is None:
            joined.shared_memory = launch.shared_memory
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
        other = Facts()
        vars(other).update(vars(self))
        other.origins = dict(self.origins)
        return other

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
