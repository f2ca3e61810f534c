"""The record of a training framework: all that ds-lint knows of one, but for what its releases say.

What differs between releases is in ``schemas/recipes.json``, which ``tools.extract.recipes`` reads off the sources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Literal, TypeAlias

    from ds_lint.frameworks.layout import FieldLayout, PresetLayout, SourceLayout

    # The value of a field of a recipe, or of a flag; None if it is not given.
    FieldValues: TypeAlias = Callable[[str], Any]

TRUE = (True, "True", "true", "1")
OFF = (None, False, "False", "false", "0")
# Which kernels a field replaces: all that Liger has, some of the layers, those of the loss; and by those of whom.
LIGER, LIGER_NORMS, LIGER_MLP, LIGER_LOSS, CUT_LOSS = "liger", "liger-norms", "liger-mlp", "liger-loss", "cut-loss"
NO_WEIGHT = (0, 0.0, "0", "0.0")  # of a reference model in the loss
ALL = "all"  # the names of all linear layers, which frameworks collect and pass to peft one by one


def switched(given: Any, *, otherwise: bool) -> bool | None:
    """What a field that is on or off says, by its default if it is not given; None if it says neither."""
    if given is None:
        return otherwise
    return True if given in TRUE else False if given in OFF else None


def named(given: Any, *, otherwise: str | None) -> str | None:
    """The name that a field gives, by its default if it is not given; None if that is not a text."""
    if given is None:
        return otherwise
    return given if isinstance(given, str) else None


class Program(NamedTuple):
    """The command line of a framework.

    ``programs``, and ``modules`` that ``python -m`` starts, have the words of which one is behind them in a command
    that trains; none if every command does. It starts what trains with the options of ``accelerate launch`` among its
    own, unless ``launcher_flag`` names another launcher, or with torchrun as the environment says, which is
    ``processes`` on each node, or one for each GPU if that is None.
    """

    programs: Mapping[str, tuple[str, ...]]
    starts: Literal["accelerate", "torchrun"]
    modules: Mapping[str, tuple[str, ...]] = {}
    processes: int | None = None
    launcher_flag: str | None = None


class AdapterFields(NamedTuple):
    """How a framework is configured to train adapters, with what it takes if a field is missing.

    ``switches`` are the fields that switch LoRA on, with the values that do; None if missing. ``word_for_all`` is what
    it makes of a word for all linear layers, and ``all_linear`` a field that is true for them.
    """

    switches: Mapping[str, tuple[Any, ...]]
    rank: str
    default_rank: int | None
    targets: str
    default_targets: str | None  # None is what peft takes
    saved: str
    needs_targets: bool = False  # the framework rejects a recipe without them
    all_linear: str = ""
    word_for_all: str = ALL


class PackedWeights(NamedTuple):
    """How the weights of a model are quantized.

    ``bits`` are those of bitsandbytes, 0 of another ``method``. What is None is not known. ``storage`` is the dtype in
    which 4 bit are packed, as torch names it, "" the one that the run trains in. ``skipped`` are the modules that stay
    as they are, None those that transformers chooses. ``is_in_files`` says that the files of the model have packed
    weights; ``source`` says what asks for them, in words.
    """

    method: str
    bits: int = 0
    is_nested: bool | None = False  # double quantization: the scales are quantized, too
    storage: str | None = "uint8"
    skipped: tuple[str, ...] | None = None
    computes_in_full: bool | None = None  # in fp32, which is the default of ``BitsAndBytesConfig``
    packs_experts: bool = False  # those of a layer in one parameter, which transformers leaves alone
    is_in_files: bool = False
    source: str = ""


BITSANDBYTES = "bitsandbytes"


class Aligned(NamedTuple):
    """How a framework aligns a model.

    ``method`` is one of trl's (``ds_lint/frameworks/trl.py``). ``reference`` says whether a method that has one keeps a
    frozen copy of the model; None if that is not known. ``others`` are further models, in words.
    """

    method: str
    reference: bool | None
    others: tuple[str, ...] = ()


class GivenFields(NamedTuple):
    """What a framework is started with.

    ``is_known`` says of a field that no interpolation hides its value; ``command`` is the word behind the program, and
    ``is_complete`` says that no unknown word of the command line may be a flag.
    """

    value: FieldValues
    is_known: Callable[[str], bool]
    command: str
    is_complete: bool


class Framework(NamedTuple):
    """A framework that trains with the Trainer, by a recipe or by flags.

    A recipe of it has the key ``model`` and one of ``keys``; no recipe of another has both. A script is known to be of
    it by ``flag`` on its command line. ``adapter`` and ``quantized`` give the field by which it trains an adapter and
    loads a quantized model, ``packed`` how the weights of that model are quantized; ``trains_otherwise`` says that
    something else than the Trainer trains, or with other arguments, which any of the fields ``otherwise`` means too.
    """

    name: str
    package: str = ""
    source: SourceLayout | None = None
    program: Program | None = None
    model: str = ""
    keys: frozenset[str] = frozenset()
    flag: str | None = None
    recipe_flag: str | None = "config"  # may name the recipe, too; None: only the first word does
    sweeps: str | None = None  # the option with which it trains several times, with other values than the recipe has
    renames: bool = False  # the training arguments are computed of fields with names of its own
    presets: PresetLayout | None = None  # configs of its own, which words name
    otherwise: tuple[str, ...] = ()
    trains_otherwise: Callable[[FieldValues], bool] = lambda _value: False
    trains_all: tuple[str, str] | None = None  # the field, and its value, with which no parameter is frozen
    adapter: Callable[[FieldValues], str | None] = lambda _value: None
    adapters: AdapterFields | None = None
    quantized: Callable[[FieldValues], str | None] = lambda _value: None
    packed: Callable[[FieldValues], PackedWeights | None] = lambda _value: None
    aligned: Callable[[GivenFields], Aligned | None] | None = None
    checkpoints_unless: str = ""  # the field without which it recomputes, whatever the training arguments say
    checkpoints_by_default: bool = False
    is_reentrant: bool = False  # recomputation, unless ``gradient_checkpointing_kwargs`` says otherwise
    sets_leaf_modules: bool = True  # of many models
    lengths: tuple[str, ...] = ()  # the fields with the longest sequence
    attentions: Mapping[str, str] = {}  # the fields that choose how attention is computed, each with what it chooses
    fusing: tuple[str, ...] = ()  # the fields with which it keeps less in ways of which there is no figure
    kernels: Mapping[str, str] = {}  # the fields with which it replaces kernels of transformers, each with which
    packing: tuple[str, ...] = ()  # the fields with which each sequence is as long as the longest
    packed_by: tuple[str, str] = ("", "")  # the field, and its value, with which they are unless ``packing`` is off
    splitting: tuple[str, ...] = ()  # the fields by whose number the model is divided among ranks
    sequences: tuple[str, ...] = ()  # and each sequence
    fields: FieldLayout | None = None  # what its parser takes
    takes_recipe_as_flags: bool = False  # as if each field were a flag on the command line
    converts_nothing: bool = False  # of a recipe: a text stays a text
    ignores_unknown: bool = False  # in a recipe
    pairs_since: str = ""  # the release that first takes ``key=value`` behind a recipe; flags it never does
    keys_once: tuple[str, str] = ("", "")  # the releases that first refuse a recipe with a key twice, and take it again
