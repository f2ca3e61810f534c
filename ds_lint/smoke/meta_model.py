"""The parameters of a model of transformers by its ``config.json``, built on torch's meta device in another process.

Nothing is allocated, downloaded or loaded, and no code of the model's own folder runs: only a class of the installed
transformers counts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ds_lint.knowledge.records import JsonObject

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_SECONDS = 600  # to import torch on a slow disk, and to build what has a parameter for each of thousands of experts
_MARK = "ds-lint-parameters:"


class NotBuilt(Exception):  # noqa: N818 - it says nothing about the model
    """No class builds the model; the message says why, in one sentence."""


def parameters(config: JsonObject) -> list[tuple[str, tuple[int, ...]]]:
    """The names and shapes of all parameters in the order of the model, those that are shared once; raises NotBuilt."""
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": _with_package()}
    with tempfile.TemporaryDirectory(prefix="ds-lint-") as folder:  # no module of the project stands in for a library
        try:
            done = subprocess.run(  # noqa: S603 - ourselves
                [sys.executable, "-m", __name__],
                input=json.dumps(config), capture_output=True, text=True, encoding="utf-8", cwd=folder,
                env=environment, timeout=_SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise NotBuilt(f"building the model takes longer than {_SECONDS} seconds") from None
        except OSError as error:
            raise NotBuilt(f"cannot start a process that builds the model: {error.strerror}") from None
    found = next((line for line in done.stdout.splitlines() if line.startswith(_MARK)), None)
    if found is None:
        lines = done.stderr.strip().splitlines()
        raise NotBuilt(f"no class of the installed transformers builds it: {lines[-1] if lines else 'no reason given'}")
    return [(name, tuple(shape)) for name, shape in json.loads(found.removeprefix(_MARK))]


def _with_package() -> str:
    return os.pathsep.join(filter(None, (_PACKAGE, os.environ.get("PYTHONPATH"))))


def _built(config: JsonObject) -> list[tuple[str, list[int]]]:
    import torch
    import transformers

    made = transformers.AutoConfig.for_model(**{**config, "model_type": str(config.get("model_type"))})
    with torch.device("meta"):
        model = _class_of(config, made, transformers)(made)
    return [(name, list(parameter.shape)) for name, parameter in model.named_parameters()]


def _class_of(config: JsonObject, made: Any, transformers: Any) -> Any:
    """The class that the checkpoint was saved from, else the one that generates text."""
    named = config.get("architectures")
    for name in named if isinstance(named, list) else ():
        found = getattr(transformers, str(name), None)
        if isinstance(found, type) and issubclass(found, transformers.PreTrainedModel):
            return found
    for auto in (transformers.AutoModelForCausalLM, transformers.AutoModelForSeq2SeqLM, transformers.AutoModel):
        if type(made) in auto._model_mapping:  # noqa: SLF001 - transformers has no public word for it
            return auto._model_mapping[type(made)]  # noqa: SLF001
    raise ValueError(f"transformers {transformers.__version__} has no model for {type(made).__name__}")


if __name__ == "__main__":
    sys.stdout.write(f"{_MARK}{json.dumps(_built(json.loads(sys.stdin.read())))}\n")
