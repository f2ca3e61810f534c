"""What a rank holds with FSDP and what ds-lint says it does, of small models with one YAML each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import transformers
import yaml
from holdings import MODELS, WIDTHS
from installed import INSTALLED
from linted import config_of
from ranks import ROOT

from ds_lint.facts import Facts
from ds_lint.facts.model import Model
from ds_lint.facts.safetensors import Parameter
from ds_lint.facts.tensors import Tensor
from ds_lint.footprint import setup
from ds_lint.footprint.estimate import estimate
from ds_lint.footprint.kernels import Kernels
from ds_lint.source import documents

if TYPE_CHECKING:
    from ds_lint.footprint.estimate import Estimate
    from ds_lint.footprint.setup import TrainingSetup

PROGRAM = Path(__file__).parent / "programs" / "fsdp_held.py"
LAYERED = {"fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP"}
WIDE: dict[str, Any] = {  # of which the units are large beside the activations of a few tokens
    "class": "LlamaForCausalLM",
    "config": "LlamaConfig",
    "values": {
        "vocab_size": 500, "hidden_size": 256, "intermediate_size": 700, "num_hidden_layers": 6,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "tie_word_embeddings": False,
    },
}  # fmt: skip
DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
_ALL_MODELS: dict[str, Any] = {**MODELS, "wide": WIDE}


class FsdpCase(NamedTuple):
    """A model, the settings of FSDP, and the ranks."""

    model: str
    version: int
    ranks: int
    settings: tuple[tuple[str, object], ...] = ()
    precision: str = "bf16"
    dtype: str = "bf16"  # in which the model is loaded
    accumulation: int = 1
    nodes: int = 1
    tokens: int = 2
    checkpointed: bool = False
    lora: tuple[tuple[str, object], ...] = ()
    by_trainer: bool = False
    degrees: tuple[tuple[str, int], ...] = ()
    rank: int = 0

    @property
    def yaml(self) -> dict[str, Any]:
        """The file for ``accelerate launch``."""
        content: dict[str, Any] = {
            "compute_environment": "LOCAL_MACHINE",
            "distributed_type": "FSDP",
            "mixed_precision": self.precision,
            "num_machines": self.nodes,
            "num_processes": self.ranks,
            "machine_rank": 0,
            "fsdp_config": {"fsdp_version": self.version, **LAYERED, **dict(self.settings)},
        }
        if self.degrees:
            content["parallelism_config"] = {f"parallelism_config_{name}_size": size for name, size in self.degrees}
        return content

    @property
    def job(self) -> dict[str, Any]:
        """What the program needs."""
        names = ("ranks", "dtype", "rank", "accumulation", "tokens", "checkpointed")
        return {
            "model": _ALL_MODELS[self.model],
            "yaml": self.yaml,
            "ranks_per_node": self.ranks // self.nodes,
            "lora": dict(self.lora),
            **{name: getattr(self, name) for name in names},
            "by_trainer": self.by_trainer,
        }


def case(model: str, version: int, ranks: int, **more: Any) -> FsdpCase:
    """A case; all other keywords are settings of FSDP, without the prefix."""
    fields = {name: more.pop(name) for name in list(more) if name in FsdpCase._fields}
    for name in ("lora", "degrees"):
        if name in fields:
            fields[name] = tuple(fields[name].items())
    return FsdpCase(model, version, ranks, tuple((f"fsdp_{name}", value) for name, value in more.items()), **fields)


_measured: dict[str, dict[str, Any]] = {}  # by job


def measured(cases: list[FsdpCase]) -> list[dict[str, Any]]:
    """What the program answers of each; it runs once for each case."""
    jobs = [json.dumps(one.job) for one in cases]
    new = [one for one, job in zip(cases, jobs, strict=True) if job not in _measured]
    _measured.update(zip((json.dumps(one.job) for one in new), _answers(new), strict=True) if new else ())
    return [_measured[job] for job in jobs]


def _answers(cases: list[FsdpCase]) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), json.dumps([one.job for one in cases])],
        check=False,
        capture_output=True,
        text=True,
        timeout=1200,
        env=dict(os.environ, PYTHONPATH=str(ROOT), HF_HUB_OFFLINE="1", OMP_NUM_THREADS="1"),
    )
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(found) == len(cases), done.stderr[-3000:]
    for one, answer in zip(cases, found, strict=True):
        assert "error" not in answer, (one, answer["error"])
    return found


def setup_of(one: FsdpCase, tensors: list[Any]) -> TrainingSetup:
    """The setup that ds-lint reads from the YAML, with the parameters of the model."""
    facts = Facts(world_size=one.ranks, nodes=one.nodes)
    model = _ALL_MODELS[one.model]
    model_type = getattr(transformers, model["config"]).model_type
    parameters = [Parameter(name, (size,), "BF16") for name, size, *_ in tensors]
    content = {"model_type": model_type, **model["values"], "dtype": DTYPES[one.dtype]}
    facts.model = Model("", content, parameters=parameters)
    document = documents.from_bytes(yaml.safe_dump(one.yaml).encode(), "fsdp.yaml")
    found = setup.of(config_of(document, target=INSTALLED, facts=facts))
    assert found is not None
    assert found.fsdp is not None
    return found._replace(
        tensors=tuple(Tensor(*rest, shape=tuple(shape)) for *rest, shape in tensors),
        optimizer="adamw_torch_fused",  # the one of the program computes with no lists of tensors
        accumulation_steps=one.accumulation,
        micro_batch=1,
        sequence_length=one.tokens,
        is_checkpointed=one.checkpointed,
        attention="sdpa",
        kernels=Kernels("transformers", "logits"),
        is_length_known=True,
        fsdp=found.fsdp._replace(adapters_alone=one.by_trainer and bool(one.lora)),
    )


def differences(one: FsdpCase, answer: dict[str, Any]) -> list[str]:
    """What ds-lint says otherwise than what was counted, of each kind of states, in words."""
    said = estimate(setup_of(one, answer["tensors"])).parts
    held = {**answer["boundary"], "optimizer_states": answer["states"]}
    found = []
    for kind in ("parameters", "gradients", "optimizer_states"):
        elements = sum(held[kind].values())
        size = sum(count * WIDTHS[dtype] for dtype, count in held[kind].items())
        amount = said[kind].gpu.plus(said[kind].host)
        if amount.elements.likely != elements or amount.bytes.likely != size:
            found.append(f"{kind}: {elements:,} elements, {size:,} bytes; said {amount.elements}, {amount.bytes}")
    return found


def step_of(one: FsdpCase, answer: dict[str, Any]) -> tuple[int, float, float, float]:
    """The most bytes in a step that were counted, and the least, likely and most that ds-lint says."""
    said = estimate(setup_of(one, answer["tensors"]))
    most = max(answer["phases"][phase] for phase in ("forward", "backward", "update"))
    band = said.peaks["step"].tensors
    beside = _on_host(said)
    return most, band.least + beside, band.likely + beside, band.most + beside


def begun_of(one: FsdpCase, answer: dict[str, Any]) -> tuple[int, float, float, float]:
    """The same while the model is sharded, before the first step."""
    said = estimate(setup_of(one, answer["tensors"]))
    band = said.peaks["initialization"].tensors
    beside = said.parts["parameters"].host.bytes.likely
    return answer["phases"]["initialization"], band.least, band.likely + beside, band.most + beside


def _on_host(said: Estimate) -> float:
    kinds = ("parameters", "gradients", "optimizer_states")
    return sum(said.parts[kind].host.bytes.likely for kind in kinds)
