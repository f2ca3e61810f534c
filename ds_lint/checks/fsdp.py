"""Rules about FSDP that the training arguments set up, and about what it does with a model (DS66x)."""

from __future__ import annotations

from ds_lint.diagnostics.problem import IGNORED, RISK, Outcome, Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.facts.script_values import conditions_hold
from ds_lint.knowledge.suggestions import choice
from ds_lint.knowledge.suggestions import is_typo as is_slip
from ds_lint.semantics.fsdp_arguments import fsdp_arguments
from ds_lint.semantics.fsdp_layers import is_layer_of_another, layers_of, makes_own_plugin, named_layers
from ds_lint.semantics.fsdp_places import place_of
from ds_lint.semantics.fsdp_setup import fsdp_setup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.semantics.config import Config
    from ds_lint.semantics.fsdp_places import AnyArguments


@rule("DS660", "fsdp-config-refused", severity="error", effects=("rejected",), kind="accelerate", elsewhere=True)
def fsdp_config_refused(config: Config) -> Iterator[Problem]:
    """Values of ``fsdp`` and ``fsdp_config`` in the training arguments with which the Trainer raises."""
    arguments = fsdp_arguments(config)
    if arguments is None or not arguments.is_on:
        return
    for name, what, advice in arguments.refusals():
        yield _about(arguments, config, name, f"{what}: the Trainer raises", rejected("initialize"), advice)


@rule("DS661", "fsdp-config-unread", severity="warning", effects=("ignored",), kind="accelerate", elsewhere=True)
def fsdp_config_unread(config: Config) -> Iterator[Problem]:
    """Keys of ``fsdp_config`` in the training arguments that the Trainer does not read."""
    arguments = fsdp_arguments(config)
    if arguments is None:
        return
    if not arguments.argument.value:
        if arguments.values:
            what = "`fsdp_config` of the training arguments has no effect: `fsdp` is not set"
            yield _about(arguments, config, None, what, IGNORED, arguments.switch)
        return
    for name, why, advice in arguments.unread() if arguments.is_on else ():
        if arguments.is_telling(name):
            what = f"`{name}` of `fsdp_config` has no effect: {why}"
            yield _about(arguments, config, name, what, IGNORED, advice)


def _about(
    arguments: AnyArguments, config: Config, name: str | None, message: str, outcome: Outcome, advice: str
) -> Problem:
    """A problem of the training arguments."""
    place = place_of(arguments, config, name)
    return Problem(
        place.path or None,
        place.span,
        message,
        {"trainer": outcome},
        help=advice,
        label="with these training arguments",
        related=place.related,
    )


@rule("DS668", "fsdp-layer-not-in-model", severity="error", effects=("rejected",), kind="accelerate")
def fsdp_layer_not_in_model(config: Config) -> Iterator[Problem]:
    """A class of layers that the model does not have: preparing it raises.

    Source: ``set_auto_wrap_policy`` in ``accelerate/utils/dataclasses.py``, which looks every name up in the modules of
    the model.
    """
    model = config.facts.model_or_family
    own = layers_of(model.model_type) if model is not None else []
    named = named_layers(config) if own else None
    if model is None or named is None or makes_own_plugin(config):
        return
    for name in named.names:
        meant = choice(name, own)
        is_typo = meant is not None and name not in own and is_slip(name, meant)
        if name in own or not (is_typo or is_layer_of_another(name)):
            continue
        written = meant if is_typo and meant is not None else next((one for one in own if one.endswith(_USUAL)), own[0])
        yield Problem(
            named.path,
            named.span,
            f"`{named.key}` names {name}, which a {model.model_type} model does not have: preparing it raises",
            rejected("initialize"),
            help=f"Write {written}, or leave it out: models of transformers know their layers.",
            label=f"did you mean {written}?",
            related=[*named.related, *config.facts.model_at],
        )


_USUAL = ("DecoderLayer", "EncoderLayer", "Layer", "Block")


@rule(
    "DS669", "fsdp-mixed-parameters", severity="error", effects=("rejected", "risk"), kind="accelerate", elsewhere=True
)
def fsdp_mixed_parameters(config: Config) -> Iterator[Problem]:
    """Parameters that FSDP 1 does not join: 4 bits kept as bytes, and frozen ones beside those that are trained.

    Source: ``_validate_tensors_to_flatten`` in ``torch/distributed/fsdp/_flat_param.py``.
    """
    launch, setup = config.facts.launch, fsdp_setup(config)
    script = launch.script if launch is not None else None
    if launch is None or script is None or setup is None or setup.version != 1:
        return
    for loaded in script.calls.quantizations:
        is_stored = loaded.argument == _FOUR_BITS and not loaded.names_storage
        if is_stored and conditions_hold(loaded.conditions, launch.launch, script):
            yield Problem(
                setup.path or None,
                setup.span,
                f"`{_FOUR_BITS}` without `bnb_4bit_quant_storage`: FSDP 1 does not take weights of integers and raises",
                rejected("initialize"),
                help="Pass `bnb_4bit_quant_storage=torch.bfloat16` to `BitsAndBytesConfig`: the dtype of the other "
                "weights.",
                label="FSDP",
                related=launch.related(loaded.place, "weights of integers"),
            )
            break
    has_adapters = script.calls.has_adapters and config.stacks == ("accelerate",)  # the Trainer has a policy of peft
    if setup.switch is not None and has_adapters and not makes_own_plugin(config):
        yield Problem(
            setup.switch_path,
            setup.switch,
            "`use_orig_params` is off: FSDP 1 raises over layers with adapters, of which the rest is frozen",
            RISK,
            help="Write `fsdp_use_orig_params: true`, or wrap the adapters on their own with "
            "`fsdp_auto_wrap_policy` of peft.",
            label="with adapters",
            severity="warning",
        )


_FOUR_BITS = "load_in_4bit"
