"""The types of the records in ``schemas/``; ``schemas/README.md`` says what each fact means.

For the type checker alone: the clean path of ``check`` does without ``typing``, so a module imports these names under
``TYPE_CHECKING``. ``tests/test_records.py`` holds the files to them, so that no fact is added without a type.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol, TypedDict, overload

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.diagnostics.finding import Effect, Severity, Stack, Stage
    from ds_lint.targets.pin import Library

# A value of a JSON file: what ``json.load`` returns. Whoever uses one as more than that looks first (``isinstance``).
JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]
JsonObject = dict[str, JsonValue]

# The defaults of parameters, each of its parameter's own type; "$required" where there is none.
Defaults = dict[str, Any]

StackLibrary = Literal["transformers", "accelerate", "lightning", "trl"]
JsonType = Literal["array", "boolean", "integer", "null", "number", "object", "string"]
TorchFamily = Literal["optimizers", "schedulers"]
NumberType = Literal["integer", "float"]
# When a library acts on a config: Accelerate in the first four, the Trainer in the other two.
StackStage = Literal["load", "plugin", "precision", "prepare", "arguments", "training"]
StackTable = Literal[
    "fills", "overwrites", "inserts", "refusals", "required", "requires", "training_arguments", "plugin",
    "launch_arguments", "yaml", "sagemaker", "launchers", "words", "beside_file",
    "strategy", "strategy_config", "trainer_names", "fabric_names",
    "fsdp_variables", "fsdp_plugin", "fsdp_config", "fsdp_before", "options", "seq2seq_arguments",
    "classes", "fields", "trainers", "deprecated",
]  # fmt: skip
Bound = Literal["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]
ModelTable = Literal["hidden_sizes", "chosen_experts"]
TraitName = Literal["reader", "pydantic"]


class Dated(TypedDict, total=False):
    """What holds from one release to another, both included; without one of them, from the first or to the newest."""

    since: str
    until: str


# The keys of DeepSpeed: deepspeed.json and overlay.json


class ValueFacts(Dated, total=False):
    """What is known of a value, be it of a key or of a parameter."""

    # As in JSON Schema.
    type: JsonType | list[JsonType]
    enum: list[Any]  # all of them strings, or all whole numbers
    minimum: float
    maximum: float
    exclusiveMinimum: float
    exclusiveMaximum: float
    default: Any  # of the key's own type, which whoever asks for it knows
    defaults: list[Any]  # where the places that read the key do not agree on one
    items: ValueFacts
    unknown: Literal["rejected", "ignored", "open", "by-type"]  # what happens to keys that a section does not know
    # Measured, for values that no pydantic model checks.
    takes: str  # kinds of value, in words with a space between them
    one_of: list[str]
    case: Literal["any", "insensitive"]  # of one_of, of enum
    numbers: list[float]  # single numbers that are taken
    zero: Literal["refused"]
    nan: Literal["taken"]
    stage: Stage  # when another value raises
    # Stricter than pydantic: DeepSpeed's own validators.
    bool: Literal["refused"]
    finite: bool
    text: Literal["digits"]
    on_new_default: str  # what a changed default does to a run
    lax: bool  # in no file: Knowledge adds it for releases that validate with pydantic 1


class NewName(TypedDict, total=False):
    """What a removed key is called now."""

    to: str
    value: str  # in words, how the value is written under the new name, where not as before


class KeyFacts(ValueFacts, total=False):
    """What is known of a key in one release, or with ``runs`` in each; of a section also what is below it."""

    runs: list[KeyFacts]
    keys: dict[str, KeyFacts]
    items_are: KeyFacts  # the elements of an array
    any_key: KeyFacts  # below names that are the user's own
    group: bool  # a section of the tree alone: no extracted fact is about it

    alias: str  # a second name of the same setting
    removed: bool  # DeepSpeed refuses a config that has the key
    instead: str
    deprecated: bool
    replaced_by: str
    no_effect: str  # accepted and used for nothing: how
    unread: bool  # with no_effect: nothing looks at the value
    renamed: NewName
    when: str  # the switch that must be on for the value to be used
    unless: str  # the switch that must be off
    presets: list[str]  # any other name changes nothing
    stacks: list[Stack]  # the only stacks that use the value
    needs: list[str]  # keys beside a switch that are looked up once it is on
    requires: list[str]  # keys without which the section must not be there


class ParameterFacts(ValueFacts, total=False):
    """What a constructor does with a parameter; under the name ``*``, with all of them."""

    runs: list[ParameterFacts]
    never: str  # why the constructor always raises
    needs: list[list[str]]  # of these sets of parameters it wants one


class _ConstructorCall(TypedDict):
    callee: str


class ConstructorCall(_ConstructorCall, total=False):
    """A constructor that DeepSpeed calls."""

    external: bool  # of another library, of which nothing was extracted
    closed: bool  # an unknown parameter raises
    parameters: Defaults


class CallableRun(Dated):
    """The constructors that a type leads to in some releases."""

    callables: list[ConstructorCall]


Trait = TypedDict("Trait", {"since": str, "until": str, "is": "str | int"}, total=False)  # of some releases as a whole


class Store(TypedDict):
    """What was extracted from every release of a library."""

    library: Library | Literal["lightning", "torch", "trl"]
    releases: list[str]  # oldest first


class DeepSpeedStore(Store):
    """``deepspeed.json``."""

    reader: list[Trait]
    pydantic: list[Trait]
    root: KeyFacts
    constructors: dict[str, dict[str, list[CallableRun]]]  # by optimizer.params and scheduler.params, then by type


class Behaviour(Dated):
    """What only some releases of DeepSpeed do and no fact of a key says."""

    source: str


class Overlay(TypedDict):
    """``overlay.json``."""

    root: KeyFacts
    constructors: dict[str, dict[str, ParameterFacts]]  # by constructor, then by parameter
    confusions: dict[str, list[str]]  # another tool's name: the path of the key that is meant
    common_names: list[str]
    behaviours: dict[str, Behaviour]


# The Trainer and Accelerate: transformers.json, accelerate.json, trainer_overlay.json

# Where a value comes from: ``from`` for "auto", ``with`` over any value, both expressions.
Source = TypedDict(
    "Source",
    {
        "from": str,
        "with": str,
        "at": StackStage,
        "matched": bool,  # any other value must equal it
        "matched_if": str,
        "only_if": list[str],
        "number": NumberType,
    },
    total=False,
)


class StackFacts(Dated, total=False):
    """What a library does in one release, or with ``runs`` in each: a record of any table of ``StackStore``."""

    runs: list[StackFacts]
    # fills, overwrites, inserts
    sources: list[Source]
    # refusals, required, strategy_config
    at: StackStage
    only_if: list[str]  # conditions, all of which must hold
    # requires
    minimum: str  # the oldest release that is taken
    specifier: str  # of the releases that a package requires
    prepares: bool  # whether Accelerate prepares the engine of the Trainer
    # training_arguments, seq2seq_arguments, plugin, launch_arguments, yaml, sagemaker, beside_file, strategy, fields
    type: str  # as Python declares it
    default: Any  # of the field's own type
    default_is: str  # the expression of a default that is not a constant
    bare: Any  # what a flag without a value stands for, if the field has that in its metadata
    choices: list[str]  # words too
    environment: str  # the variable that is read where the field is not given
    otherwise: Any  # what stands in for that; in fsdp_plugin also by the version of FSDP
    # launchers
    reads: list[str]  # names of launch_arguments and of keys; a name that ends with * is a prefix
    keys: list[str]  # of the YAML
    # yaml
    converted: bool  # a key of older releases, which is still taken
    # strategy_config
    keyword: str  # of the strategy, whose value the key gets
    # trainer_names, fabric_names
    keywords: dict[str, Any]  # of the call that a name stands for
    # fsdp_variables, fsdp_plugin
    variable: str
    lowered: bool  # written in small letters
    if_given: bool  # null leaves the variable out
    versions: list[int]  # of FSDP, for which the field counts
    checked: list[int]  # for which it is converted, and dropped after that
    policy: str  # for which it counts
    kind: str  # "flag" or "integer", if the text is converted
    takes: list[str]  # "words" as they are written, "numbers" for them; of older releases, which raise over no other
    refused: list[str]  # comparisons with which version 2 raises
    # fsdp_config, which has versions, too
    flag_for: list[int]  # the versions for which the text must be true or false
    policy_number: int  # of the policy for which the key counts
    needs: str  # the key that must not be off where this one is on
    # classes
    bases: list[str]  # in trl, or the name of a class of another library
    exported: bool  # `from trl import` takes it
    sets: list[str]  # the fields that it sets once it is made
    # fields, beside what training_arguments has
    aliases: list[str]  # of the flag
    if_null: str  # the expression that stands in for null
    replaced_by: str  # the field that gets its value
    instead: str  # what a warning names instead
    # trainers
    parameters: list[str]  # of the constructor
    renamed: dict[str, str]  # other names that it takes
    is_open: bool  # it takes others too
    inherits: str  # the trainer that has the constructor


class StackStore(Store, total=False):
    """``transformers.json``, ``accelerate.json``, ``lightning.json``, ``trl.json`` or ``trainer.json``.

    None of them has every table.
    """

    fills: dict[str, StackFacts]
    overwrites: dict[str, StackFacts]
    inserts: dict[str, StackFacts]
    refusals: dict[str, StackFacts]
    required: dict[str, StackFacts]
    requires: dict[str, StackFacts]
    training_arguments: dict[str, StackFacts]
    seq2seq_arguments: dict[str, StackFacts]
    options: dict[str, StackFacts]
    plugin: dict[str, StackFacts]
    launch_arguments: dict[str, StackFacts]
    yaml: dict[str, StackFacts]
    sagemaker: dict[str, StackFacts]
    launchers: dict[str, StackFacts]
    fsdp_variables: dict[str, StackFacts]
    fsdp_plugin: dict[str, StackFacts]
    fsdp_config: dict[str, StackFacts]
    fsdp_before: dict[str, StackFacts]  # transformers before 5.10.1: the choices of ``options``, and of ``prefix``
    words: dict[str, StackFacts]
    beside_file: dict[str, StackFacts]
    strategy: dict[str, StackFacts]
    strategy_config: dict[str, StackFacts]
    trainer_names: dict[str, StackFacts]
    fabric_names: dict[str, StackFacts]
    classes: dict[str, StackFacts]
    fields: dict[str, StackFacts]
    trainers: dict[str, StackFacts]
    deprecated: dict[str, StackFacts]


class StackBehaviour(Dated, total=False):
    """What only some releases of transformers or Accelerate do and no extracted fact says."""

    runs: list[StackBehaviour]
    library: StackLibrary
    source: str


class TrainerOverlay(TypedDict):
    """``trainer_overlay.json``: words by key path and expression, and behaviours."""

    fills: dict[str, dict[str, str]]
    overwrites: dict[str, dict[str, str]]
    behaviours: dict[str, StackBehaviour]


# Models: models.json, shapes.json, families.json


class ModelFacts(Dated, total=False):
    """What transformers makes of a model type: a record of either table of ``ModelStore``."""

    runs: list[ModelFacts]
    key: str | None  # where config.json has the hidden size; None where it has none
    calculated: bool  # code works it out
    blocks: list[str]  # classes, by their full names


StackRecord = StackFacts | StackBehaviour | ModelFacts


class ModelStore(Store):
    """``models.json``."""

    hidden_sizes: dict[str, ModelFacts]
    chosen_experts: dict[str, ModelFacts]


class Substitute(TypedDict, total=False):
    """What stands in for a key of config.json: a value, or an expression of other keys."""

    missing: bool | int | str
    null: bool | int | str
    also: list[str]  # other names of the key
    over: list[str]  # other names that count beside the key, too
    is_text: bool  # a key with words, on which a switch depends


_Condition = TypedDict("_Condition", {"if": dict[str, bool]}, total=False)  # the switches that decide


class _OneParameter(TypedDict):
    name: str  # ``#`` stands for a number
    shape: list[str | int]


class ModelParameters(_OneParameter, _Condition, total=False):
    """Parameters of one kind."""

    times: str | int  # how many there are, where not one
    first: str | int  # the layer that has the first one, where it is not the first layer
    layer: Literal["linear", "conv1d", "embedding"]  # whose weight it is


_ModelShapes = TypedDict(
    "_ModelShapes",
    {
        "class": str,
        "prefix": str,
        "head": str | None,  # the layer that makes logits
        "parameters": list[ModelParameters],
        "keys": dict[str, Substitute],
        "fixed": JsonObject,  # the values of the config that the shapes hold for
    },
)


class ModelShapes(_ModelShapes, total=False):
    """The shape of every parameter of a model type, as expressions of the keys of its config.json."""

    source: str
    needs: JsonObject  # values that the config must have for the shapes to hold
    same: dict[str, str]  # keys that the shapes hold for if they are the same as others
    others: list[ModelShapes]  # other cases of the model type


class Shapes(TypedDict):
    """``shapes.json``."""

    transformers: str
    models: dict[str, ModelShapes]
    remote_code: dict[str, ModelShapes]


class DividedParameter(TypedDict):
    """The dimension in which a parameter is divided among ranks, and the rule."""

    dimension: int
    by: Literal["heads", "even"]


class TensorParallelModel(TypedDict, total=False):
    """Which parameters AutoTP divides, why DeepSpeed refuses the model, or why it is not measured and counts whole."""

    divided: dict[str, DividedParameter]
    tied: dict[str, DividedParameter]  # if the head shares the weight of the embedding
    refused: str
    unmeasured: str


class TensorParallel(TypedDict):
    """``tensor_parallel.json``."""

    deepspeed: str
    transformers: str
    measured: str
    models: dict[str, TensorParallelModel]


ActivationForm = dict[str, float]  # bytes of each quantity of ds_lint/footprint/quantities.py


class ActivationVariant(TypedDict):
    """What each layer of each stack adds, and the moments at which a step can hold the most, without its layers."""

    layers: list[ActivationForm]
    peaks: list[ActivationForm]


_MeasuredActivations = TypedDict("_MeasuredActivations", {"class": str})


class _DescribedActivations(_MeasuredActivations):
    attention: str
    defaults: dict[str, int]  # of the keys of config.json about sizes
    has_rms_norm: bool
    dropouts: dict[str, bool]  # the keys of config.json about dropout, and whether they were on
    variants: dict[str, ActivationVariant]


class MeasuredActivations(_DescribedActivations, total=False):
    """What a training step of a model type holds beside the model states, by the way to train."""

    has_liger: bool  # whether Liger has kernels for it; variants with them may not have been measured
    older: list[OlderActivations]  # the newest first


class OlderActivations(TypedDict):
    """The variants that hold something else in releases of transformers before one; in still older ones, too."""

    before: str
    variants: dict[str, ActivationVariant]


class CacheWindows(TypedDict):
    """Which layers of a model type keep a window of tokens alone, where its config.json does not say.

    ``pattern`` has 1 for each that does, and repeats; None if it depends on further keys. ``switch`` is the key that
    has to be true, and ``window`` the tokens of a window.
    """

    switch: str | None
    pattern: list[int] | None
    window: int | None


class _WithWindows(TypedDict, total=False):
    windows: CacheWindows


class MeasuredForward(_MeasuredActivations, _WithWindows):
    """What a pass of a model type without autograd holds, by the pass and the kind of attention."""

    attention: str
    defaults: dict[str, int]
    dropouts: dict[str, bool]
    variants: dict[str, ActivationVariant]


class PreferenceLosses(TypedDict):
    """``preference_losses.json``: bytes for each token and entry of the vocabulary.

    ``trl`` has them by trainer and release, ``in_fp32`` those of a loss that takes log-probabilities of fp32 logits.
    """

    transformers: str
    torch: str
    measured: str
    trl: dict[str, dict[str, float]]
    in_fp32: dict[str, float]


class ForwardActivations(TypedDict):
    """``forward_activations.json``."""

    transformers: str
    torch: str
    measured: str
    models: dict[str, MeasuredForward]


class Activations(TypedDict):
    """``activations.json``."""

    transformers: str
    torch: str
    peft: str
    liger: str
    measured: str
    models: dict[str, MeasuredActivations]


class PublishedModels(TypedDict):
    """``published_models.json``: what shapes and activations depend on of the config.json of each published model."""

    models: dict[str, JsonObject]
    also: dict[str, str]  # models of the same shapes, by the name of one in ``models``


class MegatronOption(TypedDict, total=False):
    """An option of Megatron-DeepSpeed; a default that is computed is left out."""

    dest: str
    takes: str  # "0", "1", "?" or "+" values
    kind: str  # "int", "float", "text" or "?"
    bare: bool
    default: JsonValue


MegatronStep = TypedDict(
    "MegatronStep",
    {
        "if": dict[str, bool],  # expressions of arguments, each with whether it has to hold
        "set": str,
        "to": str,
        "assert": str,
        "raises": str,  # if that is not an AssertionError
        "message": list[str],  # every second one is an expression
        "source": str,  # of an assertion without a message
    },
    total=False,
)


class MegatronEdition(TypedDict):
    """What a commit of a repository of Megatron-DeepSpeed has."""

    commit: str
    date: str
    sets_batch_size: bool  # of DeepSpeed, in each iteration
    options: dict[str, MegatronOption]
    steps: list[MegatronStep]


class Megatron(TypedDict):
    """``megatron.json``: the options of Megatron-DeepSpeed, and what it sets and asserts after it has parsed them."""

    editions: list[MegatronEdition]  # the newest one first


class FusedExperts(TypedDict):
    """What becomes of targets that name experts of which transformers makes one parameter."""

    renamed: dict[str, str]  # the end of the parameter by the target
    fused: dict[str, list[str]]  # the targets that go into one parameter together


class Peft(TypedDict):
    """``peft.json``: which layers peft gives LoRA adapters to if nothing names them, by model type."""

    release: str
    transformers: str
    targets: dict[str, list[str] | str]  # a text is a regular expression
    experts: dict[str, FusedExperts]
    experts_like: dict[str, str]  # the record of ``experts`` by model type


class CountedWeights(TypedDict):
    """The bytes of the storages of a small model that was loaded with these arguments of ``BitsAndBytesConfig``."""

    model: str  # its model type
    quantization: dict[str, bool | str | list[str]]
    parameters: int
    beside: int  # scales and tables


class QuantizedLayers(TypedDict):
    """``quantization.json``: what transformers quantizes with bitsandbytes, and what the weights then take.

    ``stays`` has the linear layers that stay as they are in every model of a type, by the names of their weights.
    """

    date: str
    transformers: str
    bitsandbytes: str
    stays: dict[str, list[str]]
    models: dict[str, dict[str, bool | int]]  # the small ones that were counted, by model type
    counted: list[CountedWeights]


class Family(TypedDict):
    """A model type whose training in fp16 overflows."""

    trained_in: str
    sources: list[str]


class Families(TypedDict):
    """``families.json``. ``published`` has the model types by patterns of names on the Hugging Face Hub."""

    overflow_in_fp16: dict[str, Family]
    published: dict[str, list[str]]


class ModelClasses(TypedDict):
    """``model_classes.json``: the model type of each class of transformers whose family a rule is about."""

    library: str
    release: str
    classes: dict[str, str]


class LayerClasses(TypedDict):
    """``layer_classes.json``: the layers that a model type of transformers may have, in ``older`` releases too."""

    library: str
    release: str
    older: list[str]
    layers: dict[str, list[str]]


# What `ds-lint convert` says: conversion.json


class _Fate(TypedDict):
    fate: Literal["mapped", "script", "not-needed", "no-counterpart"]
    keys: list[str]


class ConversionEntry(_Fate, total=False):
    """What becomes of keys."""

    text: str  # what happens, or what to do instead; none if code maps the keys


class Conversion(TypedDict):
    """``conversion.json``: what becomes of every key of DeepSpeed, and of Accelerate's YAML for FSDP."""

    to_fsdp: list[ConversionEntry]
    to_deepspeed: list[ConversionEntry]


# The rest: torch.json, gpus.json, allowances.json, documentation.json


class TorchStore(Store):
    """``torch.json``: the parameters of each constructor, where they differ between releases in ``runs``."""

    optimizers: dict[str, Defaults]
    schedulers: dict[str, Defaults]


class FsdpFacts(TypedDict, total=False):
    """How a name of ``FsdpStore`` is called, or which members it has; empty for anything else."""

    parameters: list[str]
    required: list[str]  # without a default
    positional: int  # how many need no keyword, if others do
    is_open: bool  # takes further keywords
    members: list[str]  # of an enumeration


class FsdpRun(FsdpFacts, Dated):
    """The same in some releases."""


class FsdpRecord(FsdpFacts, total=False):
    """The same in all releases, or with ``runs`` in each."""

    runs: list[FsdpRun]


class FsdpStore(Store):
    """``fsdp.json``: the modules of torch that are about FSDP and their names, by full name."""

    names: dict[str, FsdpRecord]


Torch = dict[TorchFamily, dict[str, Defaults]]  # in no file: the constructors of one release


class LauncherOptions(TypedDict, total=False):
    """The options of a launcher in these releases: how many words each takes, as argparse's ``nargs`` says it.

    ``only`` are those that some of the releases lack. ``backends`` are the values of ``--launcher`` of ``deepspeed``,
    each with what it refuses on several nodes.
    """

    library: str
    releases: list[str]
    options: dict[str, str]
    only: dict[str, StackFacts]
    backends: dict[str, list[str]]


class _GpuFacts(TypedDict):
    memory: list[int]  # in GB, each size that its maker sells


class GpuFacts(_GpuFacts, total=False):
    """What is sold under the name of a GPU."""

    compute_capability: str
    also: list[str]  # other names
    rebuilt: list[int]  # sizes that others have put on it
    variants: dict[str, int]  # the memory of one that has a name of its own, in lower case
    bf16: bool  # for a GPU without a compute capability, as is its source
    source: str
    comment: str


class Gpus(TypedDict):
    """``gpus.json``; ``beside`` are the words that makers and drivers write beside the name of a kind."""

    sources: dict[str, str]
    beside: list[str]
    gpus: dict[str, GpuFacts]


class DocumentedAllowance(TypedDict):
    """Why an allowance is what it is: what documents say."""

    kind: Literal["documented"]
    text: str


class MeasuredAllowance(TypedDict):
    """Why an allowance is what it is: what was measured, on which cards, with which releases."""

    kind: Literal["measured"]
    gpu: str
    driver: str
    torch: str
    date: str  # the last one
    setups: int
    rule: str  # how the bounds follow from the figures


class Allowance(TypedDict):
    """What a GPU holds of one kind beside the tensors of a run."""

    unit: Literal["bytes", "share of the tensors"]
    least: float
    likely: float
    most: float
    source: DocumentedAllowance | MeasuredAllowance


AllowanceKind = Literal["context", "matrix_workspaces", "communication", "fragmentation"]
Allowances = dict[AllowanceKind, Allowance]  # ``allowances.json``


class KeyDocumentation(TypedDict, total=False):
    """What a key means, and where DeepSpeed documents it."""

    text: str
    url: str | None


class Documentation(TypedDict):
    """``documentation.json``."""

    source: str
    keys: dict[str, KeyDocumentation]


# What knowledge/stacks.py makes of the two libraries for one release of each

_Value = TypedDict("_Value", {"with": str})  # in words, or the expression


class Overwrite(_Value):
    """A key that is set whatever is there, and by whom."""

    by: list[Stack]


class Fill(Overwrite):
    """A key whose "auto" is replaced; what may differ between the stacks is there for each."""

    matched: bool
    floored: dict[Stack, bool]  # whether a number below 1 becomes 1
    number: dict[Stack, NumberType | None]


class TrainerFacts(TypedDict):
    """Which keys a release of transformers and one of Accelerate fill, match and overwrite."""

    transformers: str
    accelerate: str
    fills: dict[str, Fill]
    overwrites: dict[str, Overwrite]


class RecipeUse(TypedDict):
    """An expression that a framework passes as a training argument, and when it does."""

    value: str
    only_if: list[str]


class _RecipeState(TypedDict):
    releases: list[str]
    defaults: dict[str, Any]
    unknown: list[str]
    behaviours: list[str]


class RecipeState(_RecipeState, total=False):
    """What some releases of a framework make of a recipe.

    ``unknown`` are fields without a known default; ``sets`` are training arguments that the framework sets whatever
    the recipe says. With ``arguments``, the defaults are those of the recipe's own fields; else of training arguments.
    """

    sets: list[str]
    arguments: dict[str, list[RecipeUse]]


class RecipeFramework(TypedDict):
    """A framework: its package, the fields of its recipes that are not training arguments, and its releases."""

    package: str
    fields: list[str]
    states: list[RecipeState]


class Recipes(TypedDict):
    """``recipes.json``."""

    read_on: str
    transformers: str  # whose training arguments are not among the fields
    frameworks: dict[str, RecipeFramework]


class RefusalFacts(Dated, total=False):
    """The conditions under which a framework raises with a message, all of which must hold."""

    runs: list[RefusalFacts]
    only_if: list[str]


class FieldDefault(Dated, total=False):
    """The default of a field that such conditions read."""

    runs: list[FieldDefault]
    default: Any


class RefusalStore(TypedDict):
    """What a framework rejects."""

    library: str
    releases: list[str]  # oldest first
    refusals: dict[str, RefusalFacts]  # by message, with a number if there are several
    defaults: dict[str, FieldDefault]


class Refusals(TypedDict):
    """``refusals.json``."""

    read_on: str
    frameworks: dict[str, RefusalStore]


PresetFacts = TypedDict(
    "PresetFacts",
    {"since": str, "until": str, "runs": "list[PresetFacts]", "is": JsonObject},
    total=False,
)  # a config that a framework ships: ``is`` has what the file contains


class PresetChange(Dated, total=False):
    """A key that a framework sets in the config of a run: the expression, and the conditions."""

    runs: list[PresetChange]
    value: str
    only_if: list[str]


class _PresetStore(TypedDict):
    library: str
    releases: list[str]  # oldest first
    presets: dict[str, PresetFacts]  # by the word that names the config


class PresetStore(_PresetStore, total=False):
    """The configs of a framework."""

    changes: dict[str, PresetChange]  # by the path of the key


class Presets(TypedDict):
    """``presets.json``."""

    read_on: str
    frameworks: dict[str, PresetStore]


class FrameworkField(TypedDict, total=False):
    """A field of a framework: which releases have it, and what its type lets through, as far as that is certain."""

    runs: list[FrameworkField]
    since: str
    until: str
    kind: Literal["bool", "float", "int", "text"]
    is_list: bool
    choices: list[Any]
    commands: list[str]  # that have it, if some have not
    is_read: bool  # no field, but something looks it up
    refused: str  # the message with which a value that is set is rejected
    specifier: str  # of requires: the releases of transformers


class FrameworkFieldStore(TypedDict):
    """The fields that the releases of a framework take."""

    library: str
    releases: list[str]  # oldest first
    fields: dict[str, FrameworkField]
    requires: dict[str, FrameworkField]


class RecipeFields(TypedDict):
    """``recipe_fields.json``."""

    read_on: str
    frameworks: dict[str, FrameworkFieldStore]


class PairConflict(TypedDict, total=False):
    """Releases of ``library`` that do not work with releases of ``other``; a bound that is missing is not there."""

    library: str
    other: str
    since: str
    until: str
    other_since: str
    other_until: str
    kind: Literal["minimum", "missing", "keyword", "measured"]
    what: str  # the release that is demanded, or the name that is missing
    when: Literal["import", "arguments", "train"]
    stacks: list[Stack]
    source: str


class Pairs(TypedDict):
    """Releases that do not work together: pairs.json."""

    compared: dict[str, str]  # the newest release of each library with a store that was compared
    releases: dict[str, list[str]]  # of the companions
    conflicts: list[PairConflict]


class SymptomKind(TypedDict):
    """Where a text of a log is found, and what shows that it is."""

    id: str
    where: Literal["exception", "line", "last", "end", "exit", "course"]
    examples: list[str]


class SymptomRecord(SymptomKind, total=False):
    """A text of a log, and what it means: symptoms.json."""

    role: Literal["cause", "victim", "wrapper", "release", "fact", "well"]
    library: str
    anchor: str  # a text that a line must have
    raises: str  # a regular expression for the name of the class
    pattern: str  # one for the message, the line, or the words of an exit
    frames: str  # one for "module:function" of a frame
    innermost: str  # one for that of the innermost frame
    message: str
    help: str
    codes: list[str]
    confidence: Literal["certain", "likely", "possible"]
    beside: list[str]
    over: str  # a regular expression for a later line that shows that a log did not end waiting
    words: list[str]
    by: str
    reason: str
    signal: int


class SymptomStore(TypedDict):
    """What texts of logs mean: symptoms.json."""

    about: str
    symptoms: list[SymptomRecord]


class ExceptionPlace(TypedDict):
    """Which function raises what, and what shows it."""

    function: str
    raises: str
    proof: Literal["source", "run"]


class ExceptionEntry(ExceptionPlace, total=False):
    """An exception, by the module that raises it: exceptions.json. What is not known is left out."""

    message: list[str | None]  # literal pieces, None for what is filled in
    since: str  # the first release that has it
    until: str  # the first release without it
    rules: list[str]
    reason: str
    because: str
    through: str  # of a run: module and function of the innermost frame of a library of the stack
    keys: list[str]
    releases: list[str]


class ReadReleases(TypedDict):
    """The oldest and the newest release that were read."""

    since: str
    until: str


class ExceptionStore(TypedDict):
    """What the exceptions of the libraries mean: exceptions.json."""

    releases: dict[str, ReadReleases]
    modules: dict[str, list[ExceptionEntry]]


class SourcePattern(TypedDict, total=False):
    """What a file of an affected release has, or is without."""

    file: str  # in the package: "deepspeed/runtime/engine.py"
    regex: str
    without: str


class AffectedReleases(TypedDict, total=False):
    """A stretch of releases with a defect, and what in their sources shows it; all patterns hold together."""

    introduced: str | None  # the first one; None: the oldest that was read (``read_since``) has it too
    fixed: str | None  # the first one without it; None: the newest known has it too
    pattern: list[SourcePattern]


class AdvisoryProof(TypedDict, total=False):
    """What shows a defect: a claim that was run, or the functions that were read."""

    kind: Literal["run", "source"]
    why: str  # where the range is not read by a pattern: how it was found
    # Of a run: the script in tests/advisories/claims, what it prints of a release without the defect, and what it
    # printed of each that was asked.
    claim: str
    arguments: list[str]
    ranks: int
    library: str  # which is asked; DeepSpeed where it is absent
    needs: dict[str, str]  # releases of other libraries
    right: str
    measured: dict[str, str]
    # Of sources: file, function and release.
    affected: str
    unaffected: str


class AdvisoryRecord(TypedDict, total=False):
    """A defect of releases of one library, or of several together."""

    id: str  # "DSA-2026-0001"; never reused
    code: str  # of the rule that reports it; DS847 where it is absent
    dated: str  # the day of the last change of the record
    summary: str  # continues "DeepSpeed 0.18.2 ..."
    libraries: dict[str, list[AffectedReleases]]  # all of them; of one, any stretch
    stacks: list[Stack]  # those it concerns; all where it is absent
    when: str  # ds_lint/semantics/advisory_conditions.py has its names
    keys: list[str]  # where to point, the first that is written
    effect: Effect
    stage: Stage | None
    kind: Literal["silent", "late-crash", "crash", "hang", "cost"]
    severity: Severity
    description: str
    advice: str  # what else one can do than to upgrade; continues "Upgrade to ..., or"
    references: list[str]
    proof: AdvisoryProof


class AdvisoryStore(TypedDict):
    """Defects of releases: advisories.json."""

    releases: dict[str, list[str]]  # the known ones of libraries without a store of their own, oldest first
    read_since: dict[str, str]  # the oldest release of each library whose sources were read
    advisories: list[AdvisoryRecord]


class VariableRecord(TypedDict, total=False):
    """A name, with the releases that know it if some do not."""

    runs: list[dict[str, str]]


class VariableRecords(TypedDict, total=False):
    """The environment variables that the releases of a library know; ``beginnings`` are those of names it makes."""

    library: str
    releases: list[str]
    names: dict[str, VariableRecord]
    beginnings: dict[str, VariableRecord]
    accelerators: dict[str, VariableRecord]  # the values of DS_ACCELERATOR


class VariableStore(TypedDict):
    """``environment.json``."""

    read_on: str
    documented: dict[str, list[str]]  # what no wheel has, from the pages of ``sources``
    sources: dict[str, str]
    allocator: dict[str, list[str]]  # the options of PYTORCH_CUDA_ALLOC_CONF, by release of PyTorch
    libraries: dict[str, VariableRecords]


class Loader(Protocol):
    """``knowledge.tables.load``: each file has its type."""

    @overload
    def __call__(self, name: Literal["deepspeed"]) -> DeepSpeedStore: ...
    @overload
    def __call__(self, name: StackLibrary | Literal["trainer"]) -> StackStore: ...
    @overload
    def __call__(self, name: Library) -> Store: ...
    @overload
    def __call__(self, name: Literal["overlay"]) -> Overlay: ...
    @overload
    def __call__(self, name: Literal["trainer_overlay"]) -> TrainerOverlay: ...
    @overload
    def __call__(self, name: Literal["models"]) -> ModelStore: ...
    @overload
    def __call__(self, name: Literal["shapes"]) -> Shapes: ...
    @overload
    def __call__(self, name: Literal["activations"]) -> Activations: ...
    @overload
    def __call__(self, name: Literal["tensor_parallel"]) -> TensorParallel: ...
    @overload
    def __call__(self, name: Literal["forward_activations"]) -> ForwardActivations: ...
    @overload
    def __call__(self, name: Literal["preference_losses"]) -> PreferenceLosses: ...
    @overload
    def __call__(self, name: Literal["published_models"]) -> PublishedModels: ...
    @overload
    def __call__(self, name: Literal["megatron"]) -> Megatron: ...
    @overload
    def __call__(self, name: Literal["peft"]) -> Peft: ...
    @overload
    def __call__(self, name: Literal["quantization"]) -> QuantizedLayers: ...
    @overload
    def __call__(self, name: Literal["families"]) -> Families: ...
    @overload
    def __call__(self, name: Literal["model_classes"]) -> ModelClasses: ...
    @overload
    def __call__(self, name: Literal["layer_classes"]) -> LayerClasses: ...
    @overload
    def __call__(self, name: Literal["conversion"]) -> Conversion: ...
    @overload
    def __call__(self, name: Literal["torch"]) -> TorchStore: ...
    @overload
    def __call__(self, name: Literal["fsdp"]) -> FsdpStore: ...
    @overload
    def __call__(self, name: Literal["launchers"]) -> dict[str, LauncherOptions]: ...
    @overload
    def __call__(self, name: Literal["gpus"]) -> Gpus: ...
    @overload
    def __call__(self, name: Literal["allowances"]) -> Allowances: ...
    @overload
    def __call__(self, name: Literal["presets"]) -> Presets: ...
    @overload
    def __call__(self, name: Literal["recipes"]) -> Recipes: ...
    @overload
    def __call__(self, name: Literal["recipe_fields"]) -> RecipeFields: ...
    @overload
    def __call__(self, name: Literal["refusals"]) -> Refusals: ...
    @overload
    def __call__(self, name: Literal["exceptions"]) -> ExceptionStore: ...
    @overload
    def __call__(self, name: Literal["symptoms"]) -> SymptomStore: ...
    @overload
    def __call__(self, name: Literal["pairs"]) -> Pairs: ...
    @overload
    def __call__(self, name: Literal["environment"]) -> VariableStore: ...
    @overload
    def __call__(self, name: Literal["advisories"]) -> AdvisoryStore: ...
