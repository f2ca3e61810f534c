"""Switches off the loggers of a script, or leads what they write into the folder of the run."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any

from ds_lint.smoke.probe import imports
from ds_lint.smoke.wrapping import around

if TYPE_CHECKING:
    from types import ModuleType

    from ds_lint.smoke.probe.plan import Plan

_OFF = {
    "WANDB_MODE": "disabled",
    "WANDB_SILENT": "true",
    "SWANLAB_MODE": "disabled",
    "NEPTUNE_MODE": "debug",
    "CLEARML_OFFLINE_MODE": "1",
    "COMET_START_ONLINE": "false",
    "MLFLOW_ALLOW_FILE_STORE": "true",  # mlflow 3 has databases instead, but the skinny one needs a package for them
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DISABLE_TELEMETRY": "1",
}
_FOLDERS = ("WANDB_DIR", "SWANLAB_LOG_DIR", "CLEARML_CACHE_DIR", "COMET_OFFLINE_DIRECTORY", "TRACKIO_DIR")
# What would go on with a run on a server, or tell it how far this one is.
_UNSET = (
    "MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_ID", "WANDB_RUN_ID", "WANDB_RESUME", "COMET_EXPERIMENT_KEY", "TRACKIO_SPACE_ID",
    "KUBEFLOW_TRAINER_SERVER_URL", "TENSORBOARD_LOGGING_DIR",
)  # fmt: skip
# A script may override the environment in a call: module, function, and the arguments that it gets instead.
_CALLS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("wandb", "init", {"mode": "disabled"}),
    ("swanlab", "init", {"mode": "disabled"}),
    ("neptune", "init_run", {"mode": "debug"}),
    ("trackio", "init", {"space_id": None}),
    ("comet_ml", "start", {"online": False}),
)
_DO_NOTHING = (
    ("wandb", "login", True),
    ("swanlab", "login", None),
    ("mlflow", "set_tracking_uri", None),
    ("mlflow", "set_registry_uri", None),
)


def environment(plan: Plan, own: dict[str, str]) -> dict[str, str]:
    """The environment of the user with every logger off; what none of its variables switches off has a folder."""
    kept = {name: value for name, value in own.items() if name not in _UNSET}
    folders = {name: os.path.join(plan.outputs, "loggers") for name in _FOLDERS}
    mlflow = f"file://{os.path.join(plan.outputs, 'loggers', 'mlruns')}"
    return {**kept, **_OFF, **folders, "MLFLOW_TRACKING_URI": mlflow, "MLFLOW_REGISTRY_URI": mlflow}


def install(plan: Plan) -> None:
    """Keep calls of a script from switching them on again."""
    folder = os.path.join(plan.outputs, "loggers")
    for module, name, arguments in _CALLS:
        imports.after(module, functools.partial(_force, name, arguments))
    for module, name, answer in _DO_NOTHING:
        imports.after(module, functools.partial(_do_nothing, name, answer))
    imports.after("comet_ml", functools.partial(_be_offline, folder))
    imports.after("aim", functools.partial(_write_into, folder))
    imports.after("clearml", lambda module: module.Task.set_offline(offline_mode=True))


def _force(name: str, arguments: dict[str, Any], owner: Any) -> None:
    """A function gets these arguments, whatever the script gives it by name."""
    if getattr(owner, name, None) is not None:
        around(owner, name)(lambda function, /, *args, **kwargs: function(*args, **{**kwargs, **arguments}))


def _do_nothing(name: str, answer: object, module: ModuleType) -> None:
    if hasattr(module, name):
        setattr(module, name, lambda *_args, **_kwargs: answer)


def _be_offline(folder: str, module: Any) -> None:
    """``comet_ml.Experiment`` would send; its offline form writes an archive."""
    offline = getattr(module, "OfflineExperiment", None)
    if offline is not None and hasattr(module, "Experiment"):

        def experiment(*_args: Any, **kwargs: Any) -> Any:
            kwargs.pop("api_key", None)
            return offline(**{**kwargs, "offline_directory": folder})

        module.Experiment = experiment


def _write_into(folder: str, module: Any) -> None:
    """The repository of ``aim``, which may be a server."""
    _force("__init__", {"repo": folder}, module.Run)
