"""What of FSDP decides about the parameters of a run, whoever sets it up: a file, flags, or training arguments."""

from __future__ import annotations

from ds_lint.record import Record
from ds_lint.semantics.accelerate.fsdp import FsdpPlugin
from ds_lint.semantics.fsdp_arguments import fsdp_arguments
from ds_lint.semantics.fsdp_places import place_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ds_lint.semantics.config import Config
    from ds_lint.source.tree import KeyPath, Span


class FsdpSetup(Record):
    """The version of FSDP, and the place of what switches it on.

    ``switch`` is the place at which the original parameters are given up; None if they are kept.
    """

    version: Any
    path: KeyPath
    span: Span
    switch_path: KeyPath | None = None
    switch: Span | None = None


def fsdp_setup(config: Config) -> FsdpSetup | None:
    """The setup of the run; None if it is not known, or another than FSDP."""
    arguments = fsdp_arguments(config)
    if arguments is not None and arguments.is_on:
        place = place_of(arguments, config, "fsdp")
        return FsdpSetup(arguments.version, place.path, place.span)
    launch = config.accelerate.launch if config.accelerate is not None else None
    if launch is None or launch.launcher != "multi_gpu" or not launch.value("use_fsdp") or not launch.is_followed:
        return None
    plugin = FsdpPlugin(launch)
    if not plugin.is_known:
        return None
    setting = plugin.setting("use_orig_params")
    is_off = plugin.is_on("use_orig_params") is False
    switch = setting.member.key_span if is_off and setting.member is not None else None
    return FsdpSetup(plugin.version, plugin.path, plugin.place.key_span, setting.path, switch)
