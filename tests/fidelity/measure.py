"""Print, as JSON, how often ds-lint and the installed DeepSpeed agree: what ``tools/fidelity`` asks each release.

python tests/fidelity/measure.py --configs 2000 --seed 20261121
"""

from __future__ import annotations

import argparse
import contextlib
import json
import platform
import sys
from importlib.metadata import version
from pathlib import Path

TESTS = Path(__file__).parent.parent
LIBRARIES = ("deepspeed", "torch", "transformers", "accelerate", "pydantic")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--configs", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    options = parser.parse_args()
    sys.path[:0] = [str(TESTS.parent), str(TESTS)]  # the checkout's ds_lint, and what tests share
    with contextlib.redirect_stdout(sys.stderr):  # DeepSpeed logs to standard output, from its import on
        from agreement import measure

        agreement = measure(options.seed, options.configs)
    answer = {
        "versions": {
            "python": platform.python_version(),
            **{library: version(library).partition("+")[0] for library in LIBRARIES},
        },
        "configs": agreement.count,
        "undecided": agreement.undecided,
        "agreed": agreement.agreed,
        "is_enough": agreement.is_enough,
        "kinds": agreement.kinds,
        "disagreements": [str(disagreement) for disagreement in agreement.disagreements],
    }
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
