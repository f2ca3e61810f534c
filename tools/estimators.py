"""Write docs/memory-compared.md: ds-lint memory beside the estimators of DeepSpeed and Accelerate, and the real engine.

    python -m tools.estimators            compare the page with what the installed releases say; status 1 if it differs
    python -m tools.estimators --write    write it, with new times

Full-size models are those of the default config classes of transformers, made on the meta device: nothing is
downloaded. What the engine holds is counted by ``tests/fidelity/programs/held.py``, of small siblings of the same
classes, because a full-size engine needs the memory that is in question.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import importlib
import io
import json
import re
import resource
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from ds_lint.facts import Facts
from ds_lint.facts.model import Model
from ds_lint.facts.safetensors import Parameter
from ds_lint.footprint import setup
from ds_lint.footprint.estimate import estimate
from ds_lint.knowledge.keys import knowledge
from ds_lint.semantics import configs
from ds_lint.semantics.basis import Basis
from ds_lint.source import documents

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.footprint.estimate import Estimate

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "memory-compared.md"
ARCHITECTURES = ("llama", "gpt2", "t5", "bert", "gemma", "bloom", "phi", "mixtral", "qwen3_moe", "deepseek_v3")
WHOLE = ("bert", "gemma")  # which transformers cannot build within zero.Init
RANKS = 8
CPU = {"device": "cpu"}
SMALL = {"stage3_param_persistence_threshold": 500}  # of a sibling, so that not all of it stays whole
STATES = ("parameters", "gradients", "master_weights", "optimizer_states")
WIDTHS = {"bfloat16": 2, "float16": 2, "float32": 4}  # bytes
RUNS = 3
GIB = 2**30


class Way(NamedTuple):
    """A way to train that DeepSpeed has an estimator for."""

    name: str
    stage: int
    zero: dict[str, Any]

    @property
    def config(self) -> dict[str, Any]:
        """The config of a run."""
        return {
            "train_micro_batch_size_per_gpu": 1,
            "bf16": {"enabled": True},
            "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}},
            "zero_optimization": {"stage": self.stage, **self.zero},
        }


WAYS = (
    Way("2", 2, {}),
    Way("2, optimizer offload", 2, {"offload_optimizer": CPU}),
    Way("3", 3, {}),
    Way("3, both offloads", 3, {"offload_optimizer": CPU, "offload_param": CPU}),
)


class Sizes(NamedTuple):
    """The elements of a model and of its largest layer, as DeepSpeed's estimators want them."""

    total: int
    largest_layer: int


class States(NamedTuple):
    """Bytes per GPU, and on the host of the node."""

    gpu: float
    host: float


def main() -> int:
    """Check or write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the page, with new times")
    if parser.parse_args().write:
        PAGE.write_text(page(), encoding="utf-8", newline="\n")
        return 0
    shown = PAGE.read_text(encoding="utf-8")
    is_right = all(table in shown for table in (full_size_table(), sibling_table()))
    sys.stdout.write("the tables are right\n" if is_right else "the tables differ; run with --write\n")
    return 0 if is_right else 1


# -------------------------------------------------------------------------------------------------------------- models


def full_size(name: str) -> Any:
    """The default config of a model class, with the class that is trained."""
    import transformers

    job = _siblings()[name]
    config = getattr(transformers, job["config"])()
    config.architectures = [job["class"]]
    return config


def on_meta(config: Any) -> Any:
    """The model of a config without memory."""
    import torch
    import transformers

    with torch.device("meta"):
        return getattr(transformers, config.architectures[0])(config)


def sizes(model: Any) -> Sizes:
    """The elements of a model, and of the module that has most of its own."""
    layers = [sum(one.numel() for one in module.parameters(recurse=False)) for module in model.modules()]
    return Sizes(sum(one.numel() for one in model.parameters()), max(layers))


def _siblings() -> dict[str, Any]:
    found: dict[str, Any] = _holdings().MODELS
    return found


def _holdings() -> Any:
    """The measuring module of the tests."""
    for folder in ("tests", "tests/fidelity"):
        if (path := str(ROOT / folder)) not in sys.path:
            sys.path.insert(0, path)
    return importlib.import_module("holdings")


# ---------------------------------------------------------------------------------------------------------- estimators


def deepspeed_says(way: Way, model: Sizes) -> States:
    """What ``estimate_zero2_model_states_mem_needs_all_cold`` and its counterpart for stage 3 print for a way."""
    from deepspeed.runtime.zero.stage3 import estimate_zero3_model_states_mem_needs
    from deepspeed.runtime.zero.stage_1_and_2 import estimate_zero2_model_states_mem_needs

    is_offloaded = "offload_optimizer" in way.zero
    if way.stage == 2:
        host, gpu = estimate_zero2_model_states_mem_needs(model.total, RANKS, 1, cpu_offload=is_offloaded)
    else:
        host, gpu, _ = estimate_zero3_model_states_mem_needs(
            *model, RANKS, 1, cpu_offload=is_offloaded, cpu_offload_params=is_offloaded, zero_init=True
        )
    return States(gpu, host)


def accelerate_says(config: Any) -> float:
    """The bytes that ``accelerate estimate-memory`` shows for training with Adam in 16 bit; 0 if it runs out of memory.

    It allocates each parameter before it puts it on the meta device.
    """
    from accelerate.commands import estimate as command

    class Found:
        library_name = "transformers"
        config: dict[str, Any] = {}  # noqa: RUF012 - as the Hub answers

    command.verify_on_hub = lambda *_, **__: Found()
    command.AutoConfig = type("Offline", (), {"from_pretrained": staticmethod(lambda *_, **__: config)})
    arguments = argparse.Namespace(
        model_name="offline", library_name="transformers", trust_remote_code=False, dtypes=["float16"]
    )
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            ((_, _, _, training),) = command.gather_data(arguments)
    except RuntimeError as error:
        if "allocate memory" not in str(error):
            raise
        return 0.0
    return float(max(training.values()))


def ds_lint_says(way: Way, model: Model) -> Estimate:
    """What ``ds-lint memory`` counts."""
    facts = Facts(world_size=RANKS, nodes=1)
    facts.model = model
    document = documents.from_bytes(json.dumps(way.config).encode(), "ds_config.json")
    found = setup.of(configs.from_document(document, Basis(knowledge(), "deepspeed", facts)))
    assert found is not None  # noqa: S101 - every architecture is known
    return estimate(found)


def states(found: Estimate) -> States:
    """The model states of an estimate."""
    parts = [found.parts[name] for name in STATES]
    return States(sum(part.gpu.bytes.likely for part in parts), RANKS * sum(part.host.bytes.likely for part in parts))


def engine_holds(name: str, way: Way) -> tuple[list[Parameter], float]:
    """The parameters of a small sibling, and the bytes of model states that the rank with most of them holds."""
    tests = _holdings()
    _, held = tests.measure_most(tests.Case(name, way.stage, RANKS, zero=way.zero, zero_init=name not in WHOLE))
    total = sum(WIDTHS[dtype] * count for kind in STATES for dtype, count in held.elements(kind).items())
    return [Parameter(one.name, (one.size,), "BF16") for one in held.tensors], total


# ---------------------------------------------------------------------------------------------------------------- page


def full_size_table() -> str:
    """What each estimator says of full-size models."""
    rows = ["| model | stage | accelerate, GPU | DeepSpeed, GPU | ds-lint, GPU | DeepSpeed, host | ds-lint, host |"]
    rows.append("|---|---|--:|--:|--:|--:|--:|")
    for name in ARCHITECTURES:
        config = full_size(name)
        counted, one_gpu = sizes(on_meta(config)), accelerate_says(config)
        for way in WAYS:
            theirs = deepspeed_says(way, counted)
            ours = states(ds_lint_says(way, Model("", config.to_dict())))
            title = f"{name}, {counted.total / 1e9:.3g} billion" if way is WAYS[0] else ""
            figures = (one_gpu, theirs.gpu, ours.gpu, theirs.host, ours.host)
            rows.append(f"| {title} | {way.name} | {' | '.join(_gib(figure) for figure in figures)} |")
    return "\n".join(rows)


def sibling_table() -> str:
    """What each estimator says of small siblings beside what the engine holds, in bytes per parameter and rank."""
    rows = ["| model | stage | engine | ds-lint | DeepSpeed |", "|---|---|--:|--:|--:|"]
    for name in ARCHITECTURES:
        for usual in WAYS:
            way = usual._replace(zero=usual.zero | SMALL) if usual.stage == 3 else usual
            parameters, held = engine_holds(name, way)
            count = sum(one.count for one in parameters)
            ours = states(ds_lint_says(way, Model("", {}, parameters=parameters, parameter_count=count)))
            theirs = deepspeed_says(way, Sizes(count, max(one.count for one in parameters)))
            host = theirs.host if "offload_optimizer" in way.zero else 0  # else it is that of loading
            estimates = [ours.gpu + ours.host / RANKS, theirs.gpu + host / RANKS]
            title = f"{name}, {count:,}" if usual is WAYS[0] else ""
            others = " | ".join(f"{one / count:.2f} ({_off(one, held)})" for one in estimates)
            rows.append(f"| {title} | {way.name} | {held / count:.2f} | {others} |")
    return "\n".join(rows)


def times_table() -> str:
    """The CPU time of whole processes, imports included, and what is left without the imports."""
    rows = ["| command | seconds of CPU time | imports alone |", "|---|--:|--:|"]
    for title, command, imports in _commands():
        taken = median(_cpu_seconds(command) for _ in range(RUNS))
        rows.append(f"| {title} | {taken:.2f} | {median(_cpu_seconds(imports) for _ in range(RUNS)):.2f} |")
    return "\n".join(rows)


def _commands() -> Iterator[tuple[str, list[str], list[str]]]:
    folder = Path(tempfile.mkdtemp(prefix="ds-lint-estimators-"))
    config = full_size("llama")
    (folder / "config.json").write_text(json.dumps(config.to_dict(), default=str))
    (folder / "ds_config.json").write_text(json.dumps(WAYS[2].config))
    counted = sizes(on_meta(config))
    python = [sys.executable, "-c"]
    ours = [sys.executable, "-m", "ds_lint", "memory", str(folder / "ds_config.json"), "--model", str(folder)]
    yield (
        "`ds-lint memory ds_config.json --model DIR --world-size 8`",
        [*ours, "--world-size", str(RANKS), "--stack", "deepspeed"],
        [*python, "import ds_lint.cli"],
    )
    cold = "from deepspeed.runtime.zero.stage3 import estimate_zero3_model_states_mem_needs_all_cold as cold"
    yield (
        "`estimate_zero3_model_states_mem_needs_all_cold(total, largest, 8)`",
        [*python, f"{cold}\ncold({counted.total}, {counted.largest_layer}, {RANKS})"],
        [*python, cold],
    )
    here = f"import sys; sys.path.insert(0, {str(ROOT)!r})\nfrom tools import estimators"
    made = "import transformers\nconfig = transformers.LlamaConfig(architectures=['LlamaForCausalLM'])"
    live = (
        f"{here}\n{made}\nestimators.deepspeed_says(estimators.WAYS[2], estimators.sizes(estimators.on_meta(config)))"
    )
    loaded = "import deepspeed, torch\nfrom transformers import LlamaForCausalLM"
    yield "the same, with `total` and `largest` from the model on the meta device", [*python, live], [*python, loaded]
    yield (
        "`accelerate estimate-memory`, without the requests to the Hub",
        [*python, f"{here}\n{made}\nestimators.accelerate_says(config)"],
        [*python, "import accelerate.commands.estimate\nfrom transformers import LlamaModel"],
    )


def _cpu_seconds(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _gib(size: float) -> str:
    return "-" if not size else f"{size / GIB:.2f}" if size < 10 * GIB else f"{size / GIB:.0f}"


def _off(figure: float, held: float) -> str:
    share = f"{100 * (figure / held - 1):+.0f} %"
    return "0 %" if re.fullmatch(r"[+-]0 %", share) else share


def page() -> str:
    """The whole page."""
    releases = ", ".join(f"{name} {version(name)}" for name in ("deepspeed", "transformers", "accelerate"))
    return f"""\
# Memory, compared

Written by `python -m tools.estimators --write` on {dt.datetime.now(dt.timezone.utc).date()} with {releases}. All
figures are for {RANKS} ranks on one node, bf16 and AdamW.

DeepSpeed has two estimators: `estimate_zero2_model_states_mem_needs_all_cold` and
`estimate_zero3_model_states_mem_needs_all_cold`. They count model states for stages 2 and 3, by the number of
parameters and the size of the largest layer; stages 0 and 1, LoRA and the values of a config are not among what
they take. Their host figures include a factor of 1.5, and for stage 2 without offload the loading of the model in
fp32 on every rank. `accelerate estimate-memory` counts the model of `AutoModel`, without its head, with gradients
and Adam on one GPU. It does not know ZeRO, so its figure is the same for every stage.

## What the engine holds

The model states that the real engine holds at the boundary of a step on the rank that holds most, GPU and host
together, in bytes per parameter, and how far the estimators are from it. The other ranks are torch's fake group, and
every storage is counted once. The models are small siblings: a few layers of the same class, with the number of
parameters behind the name, and `stage3_param_persistence_threshold` is 500. DeepSpeed's figure is the one for a GPU,
and with offload an eighth of the one for the host.

{sibling_table()}

DeepSpeed's estimators are made for full-size models: of a small one, the largest layer is a large part.

## Full-size models

The default config of each class of transformers, in GiB per GPU and per host. The columns of ds-lint are the model
states alone, as those of the others; [`ds-lint memory`](memory.md) also counts buffers, activations, an allowance
and the peaks. A "-" under accelerate: it allocates each parameter before it drops it, and the machine has no room
for the largest one.

{full_size_table()}

## Time

The median of {RUNS} runs of each whole process, for `llama` above at stage 3, on the machine that wrote this page;
the last column is a process that only imports what the command needs.

{times_table()}
"""


if __name__ == "__main__":
    sys.exit(main())
