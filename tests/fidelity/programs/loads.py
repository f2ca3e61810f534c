"""What a library does with many configs: ``python loads.py LIBRARY CONFIGS``, JSON in and out.

For each config the error that stops it, or what became of it; of DeepSpeed only the error, as every value is a default
of some class. At the end the fields of what people write, with their defaults.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import logging
import os
import sys
import tempfile
import warnings
from pathlib import Path
from types import SimpleNamespace

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
answer = os.dup(1)
os.dup2(2, 1)  # libraries print too


def of_deepspeed():
    import deepspeed
    from deepspeed.runtime.config import DeepSpeedConfig

    def load(config):
        DeepSpeedConfig(config)

    return deepspeed.__version__, load, {}


def of_transformers():
    import transformers
    from transformers.integrations.deepspeed import HfTrainerDeepSpeedConfig

    def load(config):
        with tempfile.TemporaryDirectory() as folder:
            arguments = transformers.TrainingArguments(output_dir=folder, report_to=[])
            loaded = HfTrainerDeepSpeedConfig(config)
            loaded.trainer_config_process(arguments)
            loaded.trainer_config_finalize(arguments, SimpleNamespace(config=SimpleNamespace(hidden_size=64)), 100)
        return loaded.config

    return transformers.__version__, load, fields(transformers.TrainingArguments)


def of_accelerate():
    import accelerate
    from accelerate.utils import DeepSpeedPlugin

    def load(config):
        return DeepSpeedPlugin(hf_ds_config=config).deepspeed_config

    return accelerate.__version__, load, fields(DeepSpeedPlugin)


def fields(cls):
    return {field.name: [str(field.type), plain(field.default)] for field in dataclasses.fields(cls)}


def plain(value):
    return value if isinstance(value, (bool, int, float, str, type(None))) else type(value).__name__


def outcome(load, config):
    try:
        return {"config": load(copy.deepcopy(config))}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


release, loader, declared = {"deepspeed": of_deepspeed, "transformers": of_transformers, "accelerate": of_accelerate}[
    sys.argv[1]
]()
outcomes = [outcome(loader, config) for config in json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))]
said = {"release": release.strip(), "outcomes": outcomes, "fields": declared}
os.write(answer, json.dumps(said, default=repr).encode())
