"""The keys of a YAML that nothing reads, and which of them are worth a word."""

from __future__ import annotations

from ds_lint.knowledge import tables
from ds_lint.semantics.accelerate.fsdp import FsdpPlugin
from ds_lint.source.tree import dotted, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.semantics.accelerate.launch import AccelerateLaunch
    from ds_lint.source.tree import KeyPath, Member

# What ``accelerate config`` writes into every file (``commands/config/cluster.py``), although nothing reads it.
_ALWAYS_WRITTEN = {"same_network": True, "main_training_function": "main", "downcast_bf16": "no"}
_MODELLED = ("deepspeed", "multi_gpu", "simple")


def unread_keys(launch: AccelerateLaunch) -> Iterator[tuple[KeyPath, Member]]:
    """The keys that nothing reads, the topmost ones only; those at the top level that accelerate rejects are not here.

    What launches for TPUs and SageMaker read is not looked at.
    """
    if launch.launcher not in _MODELLED or not launch.is_followed:
        return
    unread: set[KeyPath] = set()
    plugin = FsdpPlugin(launch)
    for path, member in launch.members():
        if (path[0] not in launch.keys and not launch.is_command) or path[:1] in unread:
            continue
        if is_read(launch, plugin, path) or path in launch.overruled:
            continue
        unread.add(path)
        yield path, member


def is_read(launch: AccelerateLaunch, plugin: FsdpPlugin, path: KeyPath) -> bool:
    """Whether a key makes a difference to the launch or, for FSDP, to the plugin."""
    name = launch.landed.get(path, "")
    return launch.is_read(path) and (not plugin.knows(name) or (plugin.reads(name) and not is_replaced(launch, path)))


def is_replaced(launch: AccelerateLaunch, path: KeyPath) -> bool:
    """Whether a later key sets the same name, as ``offload_params`` and ``fsdp_offload_params`` do."""
    return path in launch.landed and launch.setting(launch.landed[path]).path != path


def is_shown(launch: AccelerateLaunch, plugin: FsdpPlugin, path: KeyPath, member: Member) -> bool:
    """Whether a key that nothing reads is worth a word, as any is that a user has written into a section."""
    is_setting_of_section = len(path) > 1 and member.value.kind != "null"
    return is_setting_of_section or is_telling(launch, plugin, path, member)


def is_telling(launch: AccelerateLaunch, plugin: FsdpPlugin, path: KeyPath, member: Member) -> bool:
    """Whether the value of a key that nothing reads asks for something that the run would not do anyway.

    Any value of a misspelled name does: the setting that is meant keeps its default, which may be another.
    """
    value, name = plain(member.value), path[-1]
    landed = launch.landed.get(path, name)
    if plugin.knows(landed):
        return not plugin.does_anyway(landed)
    if len(path) > 1 and not _is_setting(launch, path, landed):
        return True
    if not value or value in ("no", "NO", "none"):
        return False
    if (
        len(path) == 1
        and not launch.is_command
        and (_ALWAYS_WRITTEN.get(name, _NOTHING) == value or value == launch.keys[name].get("default", _NOTHING))
    ):
        return False
    return value != launch.arguments.get(landed, _NOTHING)


def _is_setting(launch: AccelerateLaunch, path: KeyPath, landed: str) -> bool:
    """Whether any release of accelerate has a setting of this name."""
    return landed in tables.load("accelerate")["launch_arguments"] or dotted(path) in launch.keys


_NOTHING = object()
