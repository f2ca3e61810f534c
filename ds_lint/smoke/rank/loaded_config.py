"""The config as its stack reads the text, with the changes of the run, recording which keys are read."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

from ds_lint.smoke.observe import recorder
from ds_lint.smoke.records.job import ConfigEdit, Job, Removed

if TYPE_CHECKING:
    from ds_lint.knowledge.records import JsonObject


def load(job: Job) -> Any:
    """What the loader of the stack makes of the text; raises what it raises. A dict arrives as it is.

    Sources: ``DeepSpeedConfig.__init__`` in deepspeed/runtime/config.py, ``HfDeepSpeedConfig.__init__`` in
    accelerate/utils/deepspeed.py.
    """
    if job.is_dict or job.stack != "deepspeed":
        return json.loads(job.text)
    import hjson
    from deepspeed.runtime.config_utils import dict_raise_error_on_duplicate_keys

    return hjson.loads(job.text, object_pairs_hook=dict_raise_error_on_duplicate_keys)


def load_recorded(job: Job) -> tuple[Any, recorder.ReadLog]:
    """The config to give to the stack, and the log of what is read of it."""
    config = load(job)
    # Transformers and Accelerate walk through the whole config.
    log = recorder.start("" if job.stack == "deepspeed" else "deepspeed.")
    if not isinstance(config, dict):
        return config, log
    for edit in job.edits:
        apply(config, edit)
    return recorder.wrap(config, (), log), log


def apply(config: JsonObject, edit: ConfigEdit) -> None:
    """Put a value under a path, with the sections on the way, or take the key away."""
    *sections, name = edit.path
    for section in sections:
        below = config.get(section)
        if not isinstance(below, dict):
            if edit.value is Removed:
                return
            below = config[section] = {}
        config = below
    if edit.value is Removed:
        config.pop(name, None)
    else:
        config[name] = copy.deepcopy(edit.value)


def unread(job: Job, log: recorder.ReadLog) -> list[str]:
    """The topmost keys of the user's text that nothing has read, as dotted paths."""
    config = load(job)
    if not isinstance(config, dict):
        return []
    changed = {edit.path for edit in job.edits}
    return sorted(".".join(map(str, path)) for path in recorder.unread(config, log) if path not in changed)
