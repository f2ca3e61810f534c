"""The runs of ``measurements.toml``, and the estimate of each from what its source says of it."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import tomllib

from ds_lint.commands.launched_configs import launched_configs
from ds_lint.facts import Sources
from ds_lint.footprint import setup as setups
from ds_lint.footprint.estimate import estimate
from ds_lint.session.options import Options
from ds_lint.session.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.footprint.band import Band
    from ds_lint.footprint.estimate import Estimate

STORE = Path(__file__).parent / "measurements.toml"
UNITS = {"GiB": 2**30, "GB": 10**9}
_INITIALIZATION, _PROCESS = "initialization", "process"  # what is measured, or when
_CONFIG, _LAUNCH, _MODEL = "ds_config.json", "run.sh", "config.json"


class PublishedRun(NamedTuple):
    """A run with a published figure; ``fields`` are those of ``measurements.toml``."""

    source: str
    url: str
    name: str
    fields: dict[str, Any]

    @property
    def measured(self) -> float:
        """The bytes of one GPU, or of one node; of a run that failed, those that were not enough."""
        return float(self.fields["measured"] / self.fields.get("per", 1) * UNITS[self.fields["unit"]])

    @property
    def fails(self) -> bool:
        """Whether the run was out of memory."""
        return bool(self.fields.get("fails", False))

    @property
    def is_lower_bound(self) -> bool:
        """Whether a fact that decides about activations is missing, so that what is said is the least that it takes."""
        return "launch" not in self.fields and "length" not in self.fields and self.fields["measure"] == _PROCESS


def runs() -> list[PublishedRun]:
    """All of them, in the order of the file."""
    sources = tomllib.loads(STORE.read_text(encoding="utf-8"))["source"]
    return [
        PublishedRun(source["name"], source["url"], own["run"], {**source, **own})
        for source in sources
        for own in source["runs"]
    ]


def band(run: PublishedRun) -> Band:
    """What ``ds-lint memory`` says of what was measured."""
    return _measured_band(run, _estimate(run))


def _measured_band(run: PublishedRun, found: Estimate) -> Band:
    measure = run.fields["measure"]
    if measure == "host":
        return found.host_bytes
    if measure.startswith(_INITIALIZATION):
        peak = found.peaks[_INITIALIZATION]
        return peak.gpu if measure.endswith(_PROCESS) else peak.tensors
    if measure == _PROCESS:
        return found.gpu_bytes
    bands = [peak.tensors for peak in found.peaks.values()]
    return max(bands, key=lambda one: one.likely)


def _estimate(run: PublishedRun) -> Estimate:
    fields = run.fields
    with TemporaryDirectory() as directory, _inside(directory):
        given = Path(_CONFIG)
        if "launch" in fields:
            given = Path(_LAUNCH)
            given.write_text(fields["launch"] + "\n", encoding="utf-8")
        else:
            given.write_text(json.dumps(_config(fields)), encoding="utf-8")
        if "architecture" in fields:
            Path(_MODEL).write_text(json.dumps(fields["architecture"]), encoding="utf-8")
        (found,) = launched_configs(str(given), Session(_options(fields)))
        setup = setups.of(found.config)
    assert setup is not None, run.name  # noqa: S101 - every fact that an estimate needs is in the file
    known: dict[str, Any] = {"attention": fields.get("attention"), "is_checkpointed": fields.get("checkpointing")}
    known["is_length_known"] = fields.get("is_length_known", True if "launch" not in fields else None)
    known["uses_zero_init"] = fields.get("zero_init", True if "launch" not in fields else None)
    return estimate(setup._replace(**{name: value for name, value in known.items() if value is not None}))


def _config(fields: dict[str, Any]) -> dict[str, Any]:
    config = dict(fields["config"])
    if "stage" in fields:
        zero = dict(config.get("zero_optimization", {})) | {"stage": fields["stage"]}
        for what in fields.get("offload", ()):
            zero[f"offload_{what}"] = {"device": "cpu", "pin_memory": fields.get("is_pinned", False)}
        config["zero_optimization"] = zero
    if "batch" in fields:
        config["train_micro_batch_size_per_gpu"], config["gradient_accumulation_steps"] = fields["batch"]
    return config


def _options(fields: dict[str, Any]) -> Options:
    releases = fields.get("releases", {})
    model = _MODEL if "architecture" in fields else fields.get("model")
    sources = Sources(
        model=model,
        parameters=fields.get("parameters"),
        lora=fields.get("lora"),
        world_size=fields.get("ranks"),
        nodes=fields.get("nodes"),
        sequence_length=fields.get("length"),
    )
    return Options(
        [],
        stack=fields.get("stack", "deepspeed") if "launch" not in fields else None,
        sources=sources,
        **{f"{library}_version": release for library, release in releases.items()},
    )


@contextmanager
def _inside(directory: str) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(directory)
    try:
        yield
    finally:
        os.chdir(before)
