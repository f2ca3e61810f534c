"""Bring ``schemas/pairs.json`` up to date: which releases of the libraries do not work together.

    python -m tools.pairs --cache DIR
    python -m tools.pairs --cache DIR --check

Compared is the code of every release in the stores, downloaded with pip into the cache: what a release of transformers,
accelerate or DeepSpeed imports and calls of another library in every run with DeepSpeed, with what each release of the
other has, and the oldest release that it demands. Nothing of a release is run. Of torch, whose wheels for Linux are
large, the wheels for macOS are read, which have the same Python code. What no code shows is measured, and is in
``tools/pairs/measured.json``.
"""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.extract.history import at
from tools.extract.releases import available, number
from tools.pairs.conflicts import Failure, Reasons, rectangles
from tools.pairs.demands import Bound, called, imported
from tools.pairs.modules import Package
from tools.pairs.trees import tree

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tools.pairs.demands import Demand

SCHEMAS = Path(__file__).parent.parent.parent / "schemas"
STORE = SCHEMAS / "pairs.json"
MEASURED = Path(__file__).parent / "measured.json"
COMPANIONS = ("torch", "pydantic", "numpy")
OLDEST = {"torch": "1.13.0", "pydantic": "1.8", "numpy": "1.19.0"}  # nothing older is known to be different
_DOWNLOADS = 4  # at once
EVERY_STACK = ["deepspeed", "trainer", "accelerate"]

# What every run with the Trainer and DeepSpeed imports and calls.
TRAINER = ("transformers.trainer", "transformers.training_args", "transformers.modeling_utils",
           "transformers.integrations.deepspeed", "transformers.deepspeed")  # fmt: skip
TRAINER_CALLS = [
    *(("transformers.trainer", f"Trainer.{name}") for name in (
        "__init__", "create_accelerator_and_postprocess", "_build_accelerator_args", "train", "_inner_training_loop",
        "get_train_dataloader", "_wrap_model", "training_step")),
    *(("transformers.training_args", f"TrainingArguments.{name}") for name in ("__post_init__", "_setup_devices")),
]  # fmt: skip
ACCELERATE = ("accelerate",)
ACCELERATE_CALLS = [
    ("accelerate.accelerator", f"Accelerator.{name}") for name in ("__init__", "prepare", "_prepare_deepspeed")
]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0 done, 1 the store differs (``--check``)."""
    parser = argparse.ArgumentParser(prog="python -m tools.pairs", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--cache", type=Path, required=True, metavar="DIR", help="where the releases are kept")
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 if the store would change")
    options = parser.parse_args(arguments)
    text = json.dumps(store(options.cache), indent=1) + "\n"
    if STORE.exists() and text == STORE.read_text(encoding="utf-8"):
        return 0
    if options.check:
        sys.stderr.write(f"{STORE.name} differs\n")
        return 1
    STORE.write_text(text, encoding="utf-8", newline="\n")
    sys.stderr.write(f"wrote {STORE.name}\n")
    return 0


def store(cache: Path) -> dict[str, Any]:
    """What the releases and the measurements say."""
    companions = {name: [one for one in available(name) if number(one) >= number(OLDEST[name])] for name in COMPANIONS}
    releases = {name: _known(name) for name in ("deepspeed", "transformers", "accelerate")}
    _download(releases, cache)
    conflicts = [
        *_trainer(releases, cache),
        *_accelerate(releases, cache),
        *_torch(releases["deepspeed"], companions["torch"], cache),
        *(_bounded(one, companions) for one in json.loads(MEASURED.read_text(encoding="utf-8"))),
    ]
    compared = {name: known[-1] for name, known in releases.items()}
    return {"compared": compared, "releases": companions, "conflicts": conflicts}


def _download(releases: dict[str, list[str]], cache: Path) -> None:
    """Fill the cache: pip waits for the package index most of the time."""
    cache.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(_DOWNLOADS) as pool:
        for name, known in releases.items():
            list(pool.map(partial(tree, name, cache=cache), known))


def _bounded(measured: dict[str, Any], companions: dict[str, list[str]]) -> dict[str, Any]:
    """What was measured, with the last release below a bound in place of the bound."""
    found = dict(measured)
    if (bound := found.pop("other_below", None)) is not None:
        found["other_until"] = [one for one in companions[found["other"]] if number(one) < number(bound)][-1]
    return found


def _trainer(releases: dict[str, list[str]], cache: Path) -> Iterator[dict[str, Any]]:
    """The Trainer with Accelerate, and with DeepSpeed."""
    reasons = _compared("transformers", TRAINER, TRAINER_CALLS, "accelerate", releases, cache)
    found = rectangles(reasons, releases["transformers"], releases["accelerate"])
    yield from _conflicts("transformers", "accelerate", ["trainer"], found, releases)
    reasons = _minima("transformers", "deepspeed", releases)
    found = rectangles(reasons, releases["transformers"], releases["deepspeed"])
    yield from _conflicts("transformers", "deepspeed", ["trainer"], found, releases)


def _accelerate(releases: dict[str, list[str]], cache: Path) -> Iterator[dict[str, Any]]:
    """Accelerate with DeepSpeed."""
    reasons = _compared("accelerate", ACCELERATE, ACCELERATE_CALLS, "deepspeed", releases, cache)
    found = rectangles(reasons, releases["accelerate"], releases["deepspeed"])
    yield from _conflicts("accelerate", "deepspeed", ["accelerate"], found, releases)


def _compared(
    library: str,
    modules: Sequence[str],
    functions: Sequence[tuple[str, str]],
    other: str,
    releases: dict[str, list[str]],
    cache: Path,
) -> Reasons:
    """Why releases of a library do not work with those of another: what these modules import and functions call."""
    others = {one: _package(other, one, cache) for one in releases[other]}
    reasons: Reasons = {}
    for release in releases[library]:
        package = _package(library, release, cache)
        demands = {*imported(package, modules, other), *called(package, functions, other)}
        for one, code in others.items():
            failures = set(_failures(demands, code, one, _minimum(library, release, other)))
            if failures:
                reasons[release, one] = failures
    return reasons


def _torch(deepspeed: list[str], torch: list[str], cache: Path) -> Iterator[dict[str, Any]]:
    """DeepSpeed with torch: the names of torch that ``import deepspeed`` needs."""
    reasons: Reasons = {}
    minors = {one.rpartition(".")[0]: one for one in reversed(torch)}  # the first release of each minor line
    others = {line: _package("torch", release, cache) for line, release in minors.items()}
    for release in deepspeed:
        demands = set(imported(_package("deepspeed", release, cache), ("deepspeed",), "torch"))
        for line, code in others.items():
            failures = {Failure(one.words, "missing", "import") for one in demands if one.fails(code, minors[line])}
            if failures:
                reasons |= {(release, one): failures for one in torch if one.rpartition(".")[0] == line}
    found = rectangles(reasons, deepspeed, torch)
    yield from _conflicts("deepspeed", "torch", EVERY_STACK, found, {"deepspeed": deepspeed, "torch": torch})


def _failures(demands: set[Demand], code: Package, release: str, minimum: str | None) -> Iterator[Failure]:
    if minimum is not None and not Bound(code.name, ">=", minimum).holds(release):
        yield Failure(minimum, "minimum", "arguments")
        return
    for demand in demands:
        if demand.fails(code, release):
            yield Failure(demand.words, "missing" if demand.keyword is None else "keyword", demand.when)


def _minima(library: str, other: str, releases: dict[str, list[str]]) -> dict[tuple[str, str], set[Failure]]:
    """The pairs that the oldest release which is demanded rules out."""
    return {
        (release, one): {Failure(minimum, "minimum", "arguments")}
        for release in releases[library]
        if (minimum := _minimum(library, release, other)) is not None
        for one in releases[other]
        if not Bound(other, ">=", minimum).holds(one)
    }


def _conflicts(
    library: str, other: str, stacks: list[str], found: list[dict[str, Any]], releases: dict[str, list[str]]
) -> Iterator[dict[str, Any]]:
    """The ranges as the store has them, without a bound at the end of what was looked at."""
    known, others = releases[library], releases[other]
    for one in found:
        yield {
            "library": library,
            "other": other,
            **({"since": one["since"]} if one["since"] != known[0] else {}),
            **({"until": one["until"]} if one["until"] != known[-1] else {}),
            **({"other_since": one["since_other"]} if one["since_other"] != others[0] else {}),
            **({"other_until": one["until_other"]} if one["until_other"] != others[-1] else {}),
            "kind": one["kind"],
            "what": one["what"],
            "when": one["when"],
            "stacks": stacks,
        }


def _known(library: str) -> list[str]:
    found: list[str] = json.loads((SCHEMAS / f"{library}.json").read_text(encoding="utf-8"))["releases"]
    return found


def _minimum(library: str, release: str, other: str) -> str | None:
    """The oldest release of another library that a release demands as it sees a DeepSpeed config."""
    content = json.loads((SCHEMAS / f"{library}.json").read_text(encoding="utf-8")) if library not in _read else None
    _read.setdefault(library, content)
    found: str | None = at(_read[library], release)["requires"].get(other, {}).get("minimum")
    return found


_read: dict[str, Any] = {}


def _package(library: str, release: str, cache: Path) -> Package:
    return Package(tree(library, release, cache), library)


if __name__ == "__main__":
    sys.exit(main())
