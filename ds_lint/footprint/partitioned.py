"""Whether ``deepspeed.zero.Init`` builds the model of a run in partitions at stage 3, and what makes it do so.

The Trainer and the frameworks around it read their arguments, which name the config, before they load a model; a script
shows what it does. Without it each rank has the whole model, which ``deepspeed.initialize`` moves to the GPU.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.semantics.config import Config

INIT_FLAG = "zero3_init_flag"  # of Accelerate


def uses_zero_init(config: Config) -> bool | None:
    """Whether the model is built in partitions if the stage is 3; None if it is not known."""
    launch, recipe = config.facts.launch, config.facts.recipe
    if is_switched_off(config):
        return False
    script = launch.script if launch is not None else None
    if script is None:
        return True if recipe is not None or config.stack == "trainer" else None
    if script.fills_in:
        return None
    is_usual = config.stack == "trainer" and not script.calls.loads  # the models are loaded elsewhere
    return True if is_usual and script.calls.is_partitioned is None else script.calls.is_partitioned


def is_switched_off(config: Config) -> bool:
    """Whether Accelerate's ``zero3_init_flag`` is off; the Trainer asks it only if its arguments name no config.

    Source: ``DeepSpeedPlugin`` in ``accelerate/utils/dataclasses.py``, ``_setup_devices`` and ``__post_init__`` in
    ``transformers/training_args.py``.
    """
    launch = config.facts.launch
    yaml = config.accelerate.launch if config.accelerate is not None else None
    is_off = (launch is not None and launch.builds_whole_models) or (
        yaml is not None and yaml.value(INIT_FLAG) is False
    )
    names_config = launch is not None and "deepspeed" in launch.launch.arguments
    return is_off and config.stack != "deepspeed" and not (config.stack == "trainer" and names_config)


def way(config: Config) -> str:
    """What to write so that the model is built in partitions."""
    if is_switched_off(config):
        return INIT_FLAG
    launch = config.facts.launch
    loads = launch.script.calls.loads if launch is not None and launch.script is not None else ()
    if loads and loads[0].setup_after is not None:
        return f"{loads[0].setup_after[0]} before {loads[0].function}"
    return "deepspeed.init_distributed(); dschf = HfDeepSpeedConfig(config)" if loads else "deepspeed.zero.Init()"
