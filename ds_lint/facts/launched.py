"""What a launch tells of the config that it names: ranks, training arguments, stack and model, each with its place."""

from __future__ import annotations

import os
import re
from functools import cached_property, lru_cache

from ds_lint.diagnostics.finding import Related
from ds_lint.facts.argument_values import form
from ds_lint.facts.families import family_of_class, family_of_name
from ds_lint.facts.model import NAMES_MODEL
from ds_lint.facts.named_model import named_model
from ds_lint.facts.reached_calls import reached
from ds_lint.facts.script_training import StartedScript, script_training
from ds_lint.facts.storage import saved_by, storage_behind
from ds_lint.facts.training import Argument, TrainingArguments, flag_values
from ds_lint.frameworks import SCRIPT, by_flag
from ds_lint.knowledge import tables
from ds_lint.launches.flag_config import has_own_config, identity
from ds_lint.launches.launch import NO_LAUNCHER
from ds_lint.launches.megatron import is_megatron
from ds_lint.launches.recipe import recipe_of
from ds_lint.launches.resumed import resumption
from ds_lint.launches.script_ranks import OwnRanks
from ds_lint.launches.word import shown_name
from ds_lint.source.notebook_cells import shown_line
from ds_lint.source.tree import Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from ds_lint.diagnostics.finding import Stack
    from ds_lint.facts.checkpoints import Checkpoint
    from ds_lint.facts.composed import ComposedConfig
    from ds_lint.facts.gpu import Gpu
    from ds_lint.facts.model import Model
    from ds_lint.facts.set_variable import SetVariable
    from ds_lint.facts.storage import Storage
    from ds_lint.facts.training_recipe import TrainingRecipe
    from ds_lint.frameworks.record import Framework
    from ds_lint.launches.launch import Launch
    from ds_lint.launches.script_code import CodePlace
    from ds_lint.launches.training_script import TrainingScript
    from ds_lint.launches.training_ways import KeywordArgument
    from ds_lint.launches.word import LooseWord, Word
    from ds_lint.source.document import Document

# A script that cannot be read is known to be one of the Trainer by its flags: so many fields of TrainingArguments,
# among them the path of a config, or one of these, which the scripts with a loop of their own hardly have.
_TELLING = 3
_OF_TRAINER = frozenset({
    "do_eval", "do_train", "eval_strategy", "evaluation_strategy", "logging_steps", "logging_strategy",
    "overwrite_output_dir", "save_steps", "save_strategy", "save_total_limit", "warmup_ratio",
})  # fmt: skip

# What a script has that sets the variables of a rank, connects ranks in its own way, or starts processes.
_SETS_RANKS = re.compile(
    r"environ\[[^\]\n]*(?:RANK|MASTER_)[^\]\n]*\]\s*=(?!=)|environ\.update\b|\bputenv\b"
    r"|environ\.setdefault\(\s*(?![\"'])|environ\.setdefault\(\s*[\"'](?:LOCAL_)?(?:RANK|MASTER_)"
    r"|(?<!get\([\"'])(?<!env\([\"'])\b(?:RANK|LOCAL_RANK|MASTER_ADDR)[\"']\]?\s*(?:[:,]|=(?!=))"
    r"|mpi4py|SLURM_|OMPI_|PMI_|\bray\b|submitit"
    r"|spawn\b|multiprocessing|subprocess|notebook_launcher|torchrun|\bexecv|init_process_group"
    r"|(?<!deepspeed\.)\b\w*(?:init|setup|set_up)_?\w*dist\w*\("
)
# The same of a notebook, whose variables are known.
_CONNECTS_RANKS = re.compile(
    r"mpi4py|SLURM_|OMPI_|PMI_|\bray\b|submitit|spawn\b|multiprocessing|subprocess|notebook_launcher|torchrun|\bexecv"
    r"|init_process_group|(?<!deepspeed\.)\b\w*(?:init|setup|set_up)_?\w*dist\w*\("
    r"|init_distributed\([^)]*\b(?:rank|world_size|init_method|auto_mpi_discovery)\b"
)
# What a script has in which ranks share a copy of the model; ``DeepSpeedConfig.__init__`` counts them as one.
_SPLITS_MODEL = re.compile(r"\bmpu\s*=\s*(?!None\b)\w|\bPipelineModule\b")
# The options of Megatron and its descendants, whose loop is in a module of their own.
_OF_SPLITTING = ("model_parallel_size", "pipeline_model_parallel_size", "tensor_model_parallel_size")


class LaunchFacts:
    """A launch of a project. ``document`` is the script with the launch; ``script`` what it starts, if it is there.

    ``recipe`` is the one that it starts with, with what the command line sets over it. ``builds_whole_models`` says
    that Accelerate's YAML switches ``zero3_init_flag`` off, and ``names_experts`` that it names the classes of blocks
    of experts, which become leaf modules. ``written`` are the lines with which the launching script writes the configs
    itself, each from the first to the last. ``is_open`` says that unknown words may give any argument. ``variables``
    are those of the environment that findings are about. ``port_taken`` is the line of another launch that runs at the
    same time at the same port.
    """

    __slots__ = (
        "builds_whole_models", "checkpoint", "composed", "document", "fsdp_config", "is_open", "launch", "model",
        "named", "names_experts", "port_taken", "recipe", "resumption", "script", "script_document", "stack",
        "training", "values", "variables", "written",
    )  # fmt: skip

    def __init__(
        self,
        launch: Launch,
        document: Document,
        script: TrainingScript | None,
        script_document: Document | None = None,
        recipe: Document | None = None,
    ) -> None:
        self.launch = launch
        self.document = document
        self.script = None if script is None else reached(script, launch)
        self.script_document = script_document  # the text that ``script`` is read from
        self.builds_whole_models = False
        self.names_experts = False
        self.composed: ComposedConfig | None = None  # with Hydra or OmegaConf
        self.model: Model | None = None  # if its files are in the project, or its shapes are known
        self.written: tuple[tuple[int, int], ...] = ()
        self.is_open = False
        self.variables: tuple[SetVariable, ...] = ()
        self.port_taken: int | None = None
        self.values: Mapping[str, Any] = flag_values(launch.flags)  # behind each flag, as HfArgumentParser takes them
        self.recipe = self._recipe(recipe) if recipe is not None else None
        self.stack = self._stack()
        text = script_document.content if script_document is not None else None
        self.resumption = resumption(launch, self.stack, text, script)
        self.checkpoint: Checkpoint | None = None  # that it resumes from, if it lies in the project
        self.fsdp_config: Document | None = None  # the JSON that its training arguments name, if it is in the project
        self.training = self._training() if self.stack == "trainer" else None
        self.named = named_model(launch, script)

    @property
    def origin(self) -> str:
        """The launch, in words."""
        return f"{self.document.path}:{shown_line(self.launch.line, self.document.notebook)}"

    @property
    def is_in_notebook(self) -> bool:
        """Whether a notebook trains in its own process."""
        return self.launch.launcher == NO_LAUNCHER and self.document.notebook is not None

    @property
    def trains_in_notebook(self) -> bool:
        """Whether a notebook certainly trains in its own process, which gets no variables from elsewhere."""
        script, document = self.script, self.script_document
        if not self.is_in_notebook or script is None or document is None:
            return False
        if script.ranks is not None and not script.ranks.are_in_environment:
            return False
        connects = _has(_CONNECTS_RANKS, document.content) or self.installs_mpi
        return self.stack is not None and not self.fills_in and not connects

    @property
    def installs_mpi(self) -> bool:
        """Whether the file with the launch names mpi4py, with which a process asks MPI for its rank."""
        return "mpi4py" in self.document.text

    @property
    def world_size(self) -> int | None:
        """The number of ranks: of the launcher, or of the script that Python starts and that starts them itself."""
        own = self._own_ranks
        return self.launch.world_size if own is None else own.world_size

    @property
    def nodes(self) -> int | None:
        """The number of nodes."""
        own = self._own_ranks
        return self.launch.nodes if own is None else own.nodes

    @property
    def framework(self) -> Framework | None:
        """The framework whose own fields the flags are; that of a script which cannot be read shows in a flag."""
        if self.launch.framework is not None:
            return self.launch.framework if not self.launch.framework.renames else None
        return by_flag(self.launch.arguments) if self.script is None else None

    @property
    def _own_ranks(self) -> OwnRanks | None:
        """The ranks that the script starts itself, or may start, and no launcher."""
        own = self.script.ranks if self.script is not None else None
        record = self.launch.record
        is_cluster = record is not None and record.is_around
        is_no_launcher = record is None or record.starts_anything
        if own is None or (is_cluster and own.are_of_cluster) or not is_no_launcher:
            return None
        if own.are_in_environment and self.is_in_notebook:
            return None  # the launch has the variables of each line
        is_by_environment = self.launch.world_size is None and self.launch.launcher == "python"
        return OwnRanks() if is_cluster or is_by_environment else own

    @property
    def memory(self) -> int | None:
        """The bytes of memory that a job or a container has on each node."""
        return self.launch.memory

    @property
    def shared_memory(self) -> int | None:
        """The bytes of /dev/shm in the container of a launch."""
        return self.launch.container.shared_memory if self.launch.container is not None else None

    @property
    def gpu(self) -> Gpu | None:
        """The kind of GPU that a job asks for; None if its name is not one that is sold."""
        if self.launch.gpu is None:
            return None
        from ds_lint.facts.cluster_gpu import of_cluster  # few launches name one

        return of_cluster(self.launch.gpu)

    @property
    def place(self) -> Span:
        """The line of the launch."""
        return self.line(self.launch.line)

    @property
    def model_name(self) -> str | None:
        """The name or folder of the model; None if it is unknown."""
        is_in_recipe = self.recipe is not None and self.recipe.model_argument is not None
        return self.recipe.model_name if self.recipe is not None and is_in_recipe else self.named.name

    @property
    def model_place(self) -> tuple[str, list[Related]]:
        """Where the name of the model stands, in words and as another place of a finding."""
        if self.recipe is not None and self.recipe.model_argument is not None:
            return self.recipe.model_place
        if self.named.flag is not None:
            return self.at_flag(self.named.flag, NAMES_MODEL)
        code = self.named.code
        return ("", []) if code is None else (self.at(code), self.related(code, NAMES_MODEL))

    @property
    def named_configs(self) -> list[str]:
        """The paths of what may be the DeepSpeed config: other files among them are not configs."""
        if self.launch.deepspeed_config is not None:
            return [self.launch.deepspeed_config]
        values: list[Word] = [value for value in self.launch.arguments.values() if isinstance(value, str)]
        if self.launch.redirections:  # which separate the config from its flag
            values += self.launch.flags
        values += self.launch.cut_off
        flags = [value for value in values if value is not None and value.endswith((".json", ".hjson"))]
        return flags or [path for path in (self.script.config if self.script is not None else None,) if path]

    @property
    def family(self) -> Model | None:
        """What the name of the model or the class that the script loads tells of it; None if that is nothing."""
        class_name = self.named.class_name
        if class_name is None:
            return None
        return family_of_class(class_name) if class_name else family_of_name(self.model_name)

    @property
    def base_family(self) -> Model | None:
        """The same of the class of transformers that the script derives its own from."""
        return family_of_class(self.named.base_name) if self.named.base_name is not None else None

    def trains(self, model: Model, *, is_here: bool) -> bool:
        """Whether the script trains the model of this name or folder as what it is: another class makes another one.

        A class of the script's own may take what lies in the project.
        """
        class_name = self.named.class_name
        if class_name is None:
            return is_here
        made = family_of_class(class_name) if class_name else None
        if made is not None:
            return made.model_type == model.model_type
        letters = (model.model_type or "").replace("_", "").replace("-", "").lower()
        return class_name.lower().startswith(letters) or not class_name  # LlamaForCausalLM makes a llama

    @property
    def fills_in(self) -> bool:
        """Whether the script gives the config to something that adds keys to it."""
        return self.script is not None and self.script.fills_in

    @property
    def noun(self) -> str:
        """What tells: a launch, or a script that no launch of the project starts."""
        return "launch" if self.is_mentioned else "script"

    @property
    def label(self) -> str:
        """What happens at the place."""
        return "launched here" if self.is_mentioned else "used here"

    @property
    def is_mentioned(self) -> bool:
        """Whether findings mention the launch: a finding does not show that it depends on the number of ranks."""
        return self.launch.launcher != NO_LAUNCHER

    def may_name(self, config: Document) -> bool:
        """Whether this is the config that the launch names, and not its data, or another one in the same script."""
        if config.command is not None:
            return config.command == identity(self.launch)
        if config.is_inline:
            return self.composed is not None and self.composed.covers(config)
        if config.language == "shell" and has_own_config(self.launch):
            return False
        if config.is_python and self._is_of_module(config):
            return self.imports(config)
        if self.launch.deepspeed_config is None and config.language == "json":
            from ds_lint.source.recognition import may_be_named  # few arguments are JSON files

            return may_be_named(config)
        if not self.written and self.is_in_notebook and config.notebook is not None:
            return self._takes(config)
        if not self.written or config.root is None:
            return True
        if os.path.abspath(config.path) != os.path.abspath(self.document.path):
            return True
        line, _ = config.position(config.root.span.start)
        return any(first <= line <= last for first, last in self.written)

    def _takes(self, config: Document) -> bool:
        """Whether a notebook trains with a dict in its Python: what a cell writes into a file is not named."""
        script, document, root = self.script, self.script_document, config.root
        if script is None or document is None or root is None or not (config.is_python and config.is_dict):
            return False
        if document.content[root.span.start : root.span.end].isspace():
            return False  # of a cell that becomes a script
        return config.stack is not None or self.stack == "deepspeed" or "deepspeed" in script.keywords

    def imports(self, config: Document) -> bool:
        """Whether this is the dict of another module that the script hands to DeepSpeed."""
        named = self.script.imported_config if self.script is not None else None
        start = config.root.span.start if config.root is not None else None
        return named is not None and self._is_of_module(config) and start == named[1]

    def _is_of_module(self, config: Document) -> bool:
        """Whether a config is in the module from which the script imports its own."""
        named = self.script.imported_config if self.script is not None else None
        return named is not None and os.path.abspath(named[0]) == os.path.abspath(config.path)

    @property
    def documents(self) -> list[Document]:
        """The files that findings refer to."""
        recipe = self.recipe.document if self.recipe is not None else None
        found = (
            self.document,
            self.script_document,
            recipe,
            self.fsdp_config,
            *(one.document for one in self.variables),
            *(self.composed.documents if self.composed else ()),
        )
        return [one for one in found if one is not None]

    @property
    def says(self) -> object:
        """What decides about findings: launches with the same find the same."""
        arguments = tuple(sorted((name, repr(value)) for name, value in self.launch.arguments.items()))
        training = None if self.training is None else self.training.says
        return self.circumstances, arguments, training, self.model_name

    @property
    def circumstances(self) -> object:
        """What decides about findings beside the values of arguments; which arguments there are is part of it."""
        facts = (self.stack, self.world_size, self.nodes)
        family = self.family
        model = (
            self.model and self.model.path,
            family and family.model_type,
            self.named.class_name,
            self.named.base_name,
        )
        script = (self.launch.script, *((self.script.calls, self.script.models) if self.script is not None else ()))
        around = (
            self.launch.launcher,
            self.launch.surroundings,
            self.launch.environment.get("CUDA_VISIBLE_DEVICES", ""),
            any(name.startswith("PET_") for name in self.launch.environment),
            self.memory,
            self.launch.container,
            self.launch.gpu,
            self.sets_ranks,
            self.splits_model,
            self.launch.added_option,
            self.launch.only_file,
            self.launch.first_word,
            self.launch.redirections,
            self.launch.cut_off,
        )
        recipe = None if self.recipe is None else self.recipe.says
        composed = None if self.composed is None else self.composed.words
        saved = (self.resumption, self.checkpoint, self.storage and self.storage[:2])
        yaml = (self.builds_whole_models, self.names_experts, self.port_taken)
        variables = tuple(one.says for one in self.variables)
        training = self.training
        names = (frozenset(self.launch.arguments), frozenset(self.values), bool(self.launch.flags))
        forms: object = None
        if training is not None:
            given = {**training.given, **training.others}
            late = frozenset((name, form(one)) for name, one in training.later.items())
            forms = frozenset((name, form(one)) for name, one in given.items()), late, frozenset(training.defaults)
        return (
            *facts,
            *model,
            *script,
            *yaml,
            recipe,
            composed,
            around,
            saved,
            variables,
            bool(self.doubts),
            names,
            forms,
        )

    @property
    def doubts(self) -> list[str]:
        """The unknown words that may be options, and change what others of the launch say."""
        before = self.launch.loose_before
        names = dict.fromkeys((*before, *(name for one in self._loose for name in one.names)))
        is_shell = not self.launch.path.endswith(".py")
        return [shown_name(name) if is_shell else name for name in names]

    @property
    def _loose(self) -> list[LooseWord]:
        """The words behind the program that may be options: not those that are values of its own options."""
        declared = self.script.arguments.values() if self.script is not None else ()
        takes = {flag: argument.takes for argument in declared for flag in argument.flags}
        framework = self.recipe.record if self.recipe is not None else self.launch.framework
        known = tables.load("recipes")["frameworks"].get(framework.name) if framework and self.launch.loose else None
        takes.update(dict.fromkeys(known["fields"] if known is not None else (), "1"))
        return [one for one in self.launch.loose if not one.is_value(takes)]

    def but(self, launch: Launch) -> LaunchFacts:
        """The same facts with another record of the launch."""
        other = LaunchFacts.__new__(LaunchFacts)
        for name in self.__slots__:
            setattr(other, name, getattr(self, name))
        other.launch = launch
        return other

    def certain(self) -> LaunchFacts:
        """The same launch without what its doubts may change."""
        other = self.but(self.launch)
        launch, is_loose = self.launch, bool(self._loose)
        if launch.loose_before or (is_loose and launch.record is not None and launch.record.mixes_options):
            around = launch.surroundings._replace(starts=None, inside=None, gpus=None, options=(), is_complete=False)
            launch = launch._replace(nodes=None, processes_per_node=None, world_size=None, surroundings=around)
        if is_loose:
            other.is_open = True
            launch = launch._replace(arguments={}, flags=[])
            other.values = {}
            other.recipe = other.resumption = other.checkpoint = None
            if self.training is not None:
                other.training = self._open_training()
        other.launch = launch
        if other.model_name != self.model_name:
            other.model = None
        return other

    def _open_training(self) -> TrainingArguments:
        """The training arguments of which any may be on the command line: those that the script itself passes count."""
        script = self.script
        if (
            script is None
            or self.recipe is not None
            or not script.ways
            or any(way.takes_flags and way.words is None for way in script.ways)
        ):
            return TrainingArguments({}, self.origin, are_taken=True).without_defaults()
        return self._training_of(script, is_loose=True)

    @property
    def sets_ranks(self) -> bool:
        """Whether the script may tell its process which rank it is, or start the ranks itself, as Lightning does."""
        if self.fills_in or (self.script is not None and self.script.ranks is not None):
            return True
        return any(_has(_SETS_RANKS, text) for text in self._texts)

    @property
    def _texts(self) -> list[str]:
        """The text of the script, and of the one that calls it."""
        document, script = self.script_document, self.script
        return [one for one in (document and document.content, script and script.caller) if one]

    @property
    def script_text(self) -> str | None:
        """The text of the script, with that of the one that calls it; None if it is not in the project."""
        return "\n".join(self._texts) or None

    @property
    def script_path(self) -> str | None:
        """The whole path of the script that is started."""
        return os.path.abspath(self.script_document.path) if self.script_document is not None else None

    @property
    def starts_itself(self) -> bool:
        """Whether the launch stands in the script that it starts."""
        return self.script_path == os.path.abspath(self.document.path) and self.document.notebook is None

    @property
    def only_starts_script(self) -> bool:
        """Whether Python starts the script, and the launch has no flags."""
        return self.launch.launcher == "python" and not self.launch.flags

    @property
    def splits_model(self) -> bool:
        """Whether ranks may share a copy of the model, although no key of the config tells so: they count as one."""
        if self.is_open and self.stack != "trainer":
            return True
        arguments = self.launch.arguments
        is_in_script = any(_has(_SPLITS_MODEL, text) for text in self._texts)
        return is_in_script or any(arguments.get(name, "1") != "1" for name in _OF_SPLITTING)

    @property
    def storage(self) -> Storage | None:
        """Where the run saves, if the name of the folder tells whether the nodes share it."""
        script = self.script_document.content if self.script_document is not None else ""
        given = self.launch.arguments
        for name in saved_by(self.stack, script):
            flag, value = self.flag(name), given.get(name)
            if name in given and flag != self.place:
                found = storage_behind(self.document.text, flag, value if isinstance(value, str) else None)
                if found is not None:
                    return found
        return None

    def at_flag(self, name: str, label: str) -> tuple[str, list[Related]]:
        """A flag of the launch in words, and as another place that takes part in a finding."""
        span = self.flag(name)
        return f"{self.document.path}:{_line_in(self.document, span)}", [Related(span, label, self.document.path)]

    def at(self, place: CodePlace) -> str:
        """A place in the training script, in words."""
        assert self.script_document is not None  # noqa: S101 - the script was read from it
        return f"{self.script_document.path}:{shown_line(place.line, self.script_document.notebook)}"

    def related(self, place: CodePlace, label: str) -> list[Related]:
        """A place in the training script as another one that takes part in a finding."""
        document = self.script_document
        return [] if document is None else [Related(self._span(place), label, document.path)]

    def _span(self, place: CodePlace) -> Span:
        """The range of a place in the training script."""
        assert self.script_document is not None  # noqa: S101 - the script was read from it
        ends = [(place.line, place.column), (place.end_line, place.end_column)]
        start, end = (_offset(self.script_document.text, line, column) for line, column in ends)
        return Span(start, end)

    def _recipe(self, document: Document) -> TrainingRecipe | None:
        """The recipe that the launch starts with; None if nothing shows that the file is one."""
        from ds_lint.facts.training_recipe import TrainingRecipe, override  # few launches start with one

        launched = recipe_of(self.launch, self.script)
        assert launched is not None  # noqa: S101 - the document was found by it
        overrides = {}
        for name, value in launched.overrides.items():
            span = self.flag(name)
            place = f"{self.document.path}:{_line_in(self.document, span)}"
            overrides[name] = override(value, place, self.document, span)
        takes_recipe = self.script is not None and self.script.takes_recipe
        framework = launched.framework or (SCRIPT.name if takes_recipe else None)
        recipe = TrainingRecipe(document, framework, overrides)
        return recipe if recipe.framework else None

    def _stack(self) -> Stack | None:
        if self.recipe is not None and (self.script is None or self.recipe.record is not SCRIPT):
            return "trainer"
        program = self.launch.record.framework if self.launch.record is not None else None
        if program is not None and not program.renames:
            return "trainer"
        if self.script is not None and (self.script.stack is not None or not self.script.parses_flags):
            return self.script.stack or ("deepspeed" if is_megatron(self.launch.flags, self.script_text) else None)
        arguments = self.launch.arguments
        if "deepspeed_config" in arguments:  # which deepspeed.add_config_arguments defines
            return "deepspeed"
        fields = tables.load("transformers")["training_arguments"]
        is_trainers = isinstance(arguments.get("deepspeed"), str) or not _OF_TRAINER.isdisjoint(arguments)
        return "trainer" if is_trainers and sum(name in fields for name in arguments) >= _TELLING else None

    def _training(self) -> TrainingArguments | None:
        """The flags that are training arguments, over those of the recipe and what the script sets."""
        script, recipe = self.script, self.recipe
        is_loose = bool(self._loose)
        if recipe is not None and (script is None or recipe.record is not SCRIPT):
            return recipe.training.without_defaults() if is_loose and recipe.training is not None else recipe.training
        if script is not None:
            return self._training_of(script, is_loose=is_loose)
        return TrainingArguments(dict(self._flags()), self.origin, are_taken=True).without_defaults()

    def _training_of(self, script: TrainingScript, *, is_loose: bool) -> TrainingArguments:
        """What the script shows of them, with the flags of the launch."""

        def at(value: Any, keyword: KeywordArgument) -> Argument:
            if self.script_document is None:
                return Argument(value, f"{self.launch.script}:{keyword.place.line}")
            return Argument(value, self.at(keyword.place), self.script_document, self._span(keyword.place))

        def behind(value: Any, flag: str) -> Argument:
            return _FlagArgument(value, self, flag, is_flag=False)

        flags = dict(self._flags())
        return script_training(
            StartedScript(script, self.launch, self.recipe, flags, is_loose, self.origin, at=at, behind=behind)
        )

    def _flags(self) -> Iterator[tuple[str, Argument]]:
        for name, value in self.values.items():
            yield name, _FlagArgument(value, self, name)

    def flag(self, name: str) -> Span:
        """Where a flag stands: behind the start of the command, else in the variable that brings it."""
        words = re.escape(name).replace("_", "[-_]")
        written = re.compile(rf"(?<![\w-])(?:--?{words}(?![\w-])|{words}(?==))")
        start = self.place.start
        found = written.search(self.document.text, start) or written.search(self.document.text)
        return self.place if found is None else Span(found.start(), found.end())

    def line(self, number: int) -> Span:
        """A line of the file with the launch."""
        start = 0
        for _ in range(number - 1):
            start = self.document.text.find("\n", start) + 1
        end = self.document.text.find("\n", start)
        text = self.document.text[start : end if end >= 0 else None]
        return Span(start + len(text) - len(text.lstrip()), start + len(text.rstrip().rstrip("\\").rstrip()))


class _FlagArgument(Argument):
    """A training argument behind a flag of a launch, whose place is searched for when a finding names it."""

    def __init__(self, value: Any, launch: LaunchFacts, name: str, *, is_flag: bool = True) -> None:
        self.__dict__.update(value=value, document=launch.document, is_flag=is_flag, plain=self, _flag=(launch, name))

    if not TYPE_CHECKING:  # for which the fields of a record are attributes

        @cached_property
        def span(self) -> Span:
            launch, name = self.__dict__["_flag"]
            return launch.flag(name)

        @cached_property
        def origin(self) -> str:
            return f"{self.document.path}:{_line_in(self.document, self.span)}"


@lru_cache(maxsize=32)  # of scripts, which each are launched many times
def _has(what: re.Pattern[str], text: str) -> bool:
    return what.search(text) is not None


def _line_in(document: Document, span: Span) -> str:
    """The line that a span begins in, as texts show it."""
    return shown_line(document.position(span.start)[0], document.notebook)


def _offset(text: str, line: int, column: int) -> int:
    """Where a column in bytes of a line stands in a text."""
    start = 0
    for _ in range(line - 1):
        start = text.find("\n", start) + 1
    end = text.find("\n", start)
    return start + len(text[start : end if end >= 0 else None].encode()[:column].decode("utf-8", "ignore"))
