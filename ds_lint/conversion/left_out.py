"""Keys of a DeepSpeed config, and of the YAML that names or makes it, that the YAML for FSDP does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ds_lint.conversion import table, zero
from ds_lint.conversion.note import Note, spelled
from ds_lint.semantics.features import is_on
from ds_lint.source.spelling import AUTO, is_comment
from ds_lint.source.tree import dotted, plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.knowledge.keys import Key
    from ds_lint.semantics.accelerate.launch import AccelerateLaunch
    from ds_lint.semantics.config import Config, Visit
    from ds_lint.source.tree import KeyPath, Node

# Sections of a YAML for DeepSpeed that FSDP would read in another way.
NOT_CARRIED = ("dynamo_config", "parallelism_config")
_OFF = (False, None)


def notes(config: Config) -> Iterator[Note]:
    """A note on each key that the file has and that asks for something; a section and its keys share one."""
    noted: set[str] = set()
    for visit in config.visits:
        is_inside = any(dotted(visit.path[:length]) in noted for length in range(1, len(visit.path)))
        if is_inside or is_comment(visit.path[-1]) or not _is_of_file(visit.path, config):
            continue
        note = _note(visit, config)
        if note is not None:
            noted.add(dotted(visit.path))
            if visit.key is None or not _asks_for_nothing(visit.path, visit.value, visit.key, config):
                yield note


def notes_on_launch(launch: AccelerateLaunch) -> Iterator[Note]:
    """A note on each key of a YAML that is not carried over, and that nothing makes a key of the config of."""
    for path, member in launch.members():
        found = table.fate("to_fsdp", path)
        value = plain(member.value)
        if found is None or path[0] not in ("deepspeed_config", *NOT_CARRIED) or value in (*_OFF, {}):
            continue
        note = table.note_on(found, dotted(path), value)
        if note is not None and found.at == dotted(path):
            yield note


def _note(visit: Visit, config: Config) -> Note | None:
    """The note on a key; None if it is converted."""
    found = table.fate("to_fsdp", visit.key.path) if visit.key is not None else None
    key, value = zero.written_key(config, *visit.path), plain(visit.value)
    if found is None:
        return Note("not-read", "DeepSpeed does not know it", key, spelled(key, value))
    note = table.note_on(found, key, value)
    if note is not None and note.subject == "script" and _is_of_script(visit.path, config):
        source = "the training arguments" if config.stack == "trainer" else "the script"
        return Note("not-needed", f'"auto" stands for what {source} set already', key, spelled(key, AUTO))
    return note


def _is_of_file(path: KeyPath, config: Config) -> bool:
    """Whether a key is in the file: neither a default of a plugin, nor added by a stack."""
    if config.accelerate is not None:
        return not config.accelerate.is_default(path)
    return config.written.at(path) is not None


def _is_of_script(path: KeyPath, config: Config) -> bool:
    """Whether a key has "auto" for something that the script or the training arguments set; Accelerate clips at 1.0."""
    node = config.written.at(path)
    if node is None or node.value != AUTO or config.stack not in config.filled_by(path):
        return False
    return config.stack == "trainer" or path != ("gradient_clipping",)


def _asks_for_nothing(path: KeyPath, value: Node, known: Key, config: Config) -> bool:
    """Whether DeepSpeed does nothing for a key: it is off, and would be without the key, or its section is."""
    if any(_is_off(path[:length], config) for length in range(1, len(path))):
        return True
    if value.kind == "object":
        return _is_off(path, config) and not _has_switches(value)
    return value.kind in ("boolean", "null") and value.value in _OFF and known.facts.get("default") in _OFF


def _is_off(path: KeyPath, config: Config) -> bool:
    """Whether a section has a switch that is off."""
    known = config.knowledge.find(path)
    switch = known.child("enabled") if known is not None and known.is_section else None
    if switch is None or "no_effect" in switch.facts:
        return False
    node = config.node(*path, "enabled")
    if node is None:
        return switch.facts.get("default") is not True
    return node.value != AUTO and not is_on(config, *path, "enabled")


def _has_switches(section: Node) -> bool:
    """Whether a section in a section has a switch of its own that is on."""
    switches = (member.value.get("enabled") for member in section.members)
    return any(switch is not None and switch.value is True for switch in switches)
