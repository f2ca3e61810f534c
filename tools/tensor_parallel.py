"""Write ``schemas/tensor_parallel.json``: which parameters of a model type AutoTP of DeepSpeed divides, and how.

    python -m tools.tensor_parallel llama bloom        # these model types, beside those that the file has
    python -m tools.tensor_parallel                    # all that shapes.json has, again

Run it in an environment that has torch, transformers and deepspeed, on the CPU. For each model type small models with
sizes by chance are given to ``deepspeed.initialize`` as rank 0 of a group whose other ranks are not there, with two and
three ranks of tensor parallelism. A parameter that has another shape behind it is divided: by the heads of keys and
values, of which the first ranks have one more if they do not divide, or evenly. A rule has to hold in every trial; a
model type for which none does, or whose sizes are not known, is ``unmeasured``, and one that DeepSpeed does not divide
is ``refused``, each with the reason.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import io
import json
import logging
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.activations.models import defaults, probes
from tools.model_shapes import CASES_OF, Family

if TYPE_CHECKING:
    from collections.abc import Sequence

STORE = Path(__file__).parent.parent / "schemas" / "tensor_parallel.json"
SHAPES = STORE.parent / "shapes.json"
RANKS = 12
DEGREES = (2, 3)
TRIALS = 3
_INDEX = re.compile(r"(?<=\.)\d+(?=\.)")
_LONGEST = 160  # of a reason

Shapes = dict[str, tuple[int, ...]]


def describe(model_type: str) -> dict[str, Any]:
    """What the store says of a model type: the head may share the weight of the embedding, or have one of its own."""
    found: dict[str, Any] = {}
    for name, is_tied in (("divided", False), ("tied", True)):
        of_case = _of_case(model_type, is_tied=is_tied)
        if "divided" not in of_case:
            return of_case
        found[name] = of_case["divided"]
    return found


def _of_case(model_type: str, *, is_tied: bool) -> dict[str, Any]:
    from ds_lint.footprint.quantities import sizes

    rules: dict[str, set[tuple[int, str]]] = {}
    whole: set[str] = set()
    try:
        family = Family(model_type, next(iter(CASES_OF.get(model_type, ())), None))
        usual = defaults(family)
        for probe in probes(family, TRIALS):
            known = sizes(probe.config, usual)
            if known is None:
                return {"unmeasured": "the sizes of the model are not known"}
            for degree in DEGREES:
                before, after = _divided(family, {**probe.config, "tie_word_embeddings": is_tied}, degree)
                if set(before) != set(after):
                    return {"unmeasured": "the names of the parameters change"}
                for name, shape in after.items():
                    kind = _INDEX.sub("#", name)
                    if shape == before[name]:
                        whole.add(kind)
                    else:
                        found = _ways(before[name], shape, known["key_value_heads"], degree)
                        rules[kind] = rules.get(kind, found) & found
    except Exception as reason:  # noqa: BLE001 - whatever deepspeed raises over a model that it does not divide
        return {"refused": f"{type(reason).__name__}: {reason}"[:_LONGEST]}
    unclear = sorted(name for name, ways in rules.items() if not ways or name in whole)
    if unclear:
        return {"unmeasured": f"no rule for {', '.join(unclear)}"[:_LONGEST]}
    best = {name: max(ways) for name, ways in rules.items()}  # heads where both hold
    return {"divided": {name: {"dimension": place, "by": way} for name, (place, way) in best.items()}}


def _ways(whole: tuple[int, ...], part: tuple[int, ...], heads: int, degree: int) -> set[tuple[int, str]]:
    """The dimension that is divided, and the rules that give what the first rank has of it."""
    (place,) = (index for index, (one, other) in enumerate(zip(whole, part, strict=True)) if one != other)
    by_heads = whole[place] * -(-heads // degree) / heads
    found = {"even": -(-whole[place] // degree), "heads": by_heads}
    return {(place, name) for name, size in found.items() if size == part[place]}


def _divided(family: Family, given: dict[str, Any], degree: int) -> tuple[Shapes, Shapes]:
    """The shapes of a small model without and with so many ranks of tensor parallelism."""
    import deepspeed
    from deepspeed.utils import groups

    for name in ("_TENSOR_MODEL_PARALLEL_GROUP", "_DATA_PARALLEL_GROUP", "_MODEL_PARALLEL_GROUP"):
        setattr(groups, name, None)
    model = family.model_class(family.config(given))
    before = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    config = {
        "train_micro_batch_size_per_gpu": 1,
        "optimizer": {"type": "SGD", "params": {"lr": 0.1}},
        "zero_allow_untested_optimizer": True,
        "tensor_parallel": {"autotp_size": degree},
    }
    with contextlib.redirect_stdout(io.StringIO()):
        engine = deepspeed.initialize(model=model, model_parameters=list(model.parameters()), config=config)[0]
    return before, {name: tuple(parameter.shape) for name, parameter in engine.module.named_parameters()}


def _be_one_of_many() -> None:
    """Join a group whose other ranks do not exist."""
    os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE=str(RANKS), DS_ACCELERATOR="cpu")
    import deepspeed
    import torch
    from torch.testing._internal.distributed.fake_pg import FakeStore

    from ds_lint.smoke.standins import ops

    ops.install(builds=False)
    logging.disable(logging.WARNING)
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=RANKS)
    deepspeed.init_distributed(verbose=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Describe the model types, and write the file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("models", nargs="*", help="model types; all that shapes.json has if there are none")
    wanted = parser.parse_args(arguments).models
    _be_one_of_many()
    import deepspeed
    import transformers

    store: dict[str, Any] = json.loads(STORE.read_text(encoding="utf-8")) if STORE.exists() else {"models": {}}
    known = sorted(json.loads(SHAPES.read_text(encoding="utf-8"))["models"])
    for model_type in wanted or known:
        store["models"][model_type] = describe(model_type)
        found = store["models"][model_type]
        sys.stderr.write(f"{model_type}: {found.get('refused') or found.get('unmeasured') or 'divided'}\n")
    found = {
        "deepspeed": deepspeed.__version__,
        "transformers": transformers.__version__,
        "measured": dt.datetime.now(tz=dt.timezone.utc).date().isoformat(),
        "models": dict(sorted(store["models"].items())),
    }
    STORE.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
