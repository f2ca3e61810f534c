"""What ``get_train_args`` of LLaMA-Factory says to recipes, a JSON list in standard input: null, or the message.

    python llama_factory_arguments.py FOLDER_OF_THE_RELEASE

Libraries that the parser imports and that are not installed are stand-ins; each process counts as one of several.
"""

import argparse
import importlib.machinery
import json
import logging
import os
import sys
import types

os.environ.update(DISABLE_VERSION_CHECK="1", CUDA_VISIBLE_DEVICES="")
sys.path.insert(0, sys.argv[1])


class _Anything(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return "x"


class _StandIn(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything(name, (), {"__init__": lambda *_, **__: None})


for library in ("peft", "peft.utils", "trl", "datasets", "omegaconf", "matplotlib"):
    try:
        __import__(library)
    except ImportError:  # noqa: PERF203 - six of them
        stand_in = _StandIn(library)
        stand_in.__path__ = []
        stand_in.__spec__ = importlib.machinery.ModuleSpec(library, None)
        sys.modules[library] = stand_in

_make = argparse.ArgumentParser.__init__  # two dataclasses have a field of the same name since transformers 5
argparse.ArgumentParser.__init__ = lambda self, *given, **named: _make(
    self, *given, **{"conflict_handler": "resolve", **named}
)

import transformers  # noqa: E402 - after the stand-ins
from transformers.training_args import ParallelMode  # noqa: E402

for cls in (transformers.TrainingArguments, transformers.Seq2SeqTrainingArguments):
    cls.parallel_mode = property(lambda _: ParallelMode.DISTRIBUTED)

from llamafactory.hparams import parser  # noqa: E402

parser._check_extra_dependencies = lambda *_: None  # what is installed
parser.is_torch_bf16_gpu_available = lambda: True
logging.disable(logging.CRITICAL)


def message(recipe):
    """Why a recipe is rejected, or None."""
    try:
        parser.get_train_args(recipe)
    except Exception as error:
        return str(error) or type(error).__name__
    return None


answers = [message(recipe) for recipe in json.load(sys.stdin)]
sys.stdout.write(f"\n{json.dumps(answers)}\n")
