"""The table of all trials, and the page in ``docs/`` around it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from tools.fidelity.trial import Trial

PATH = Path(__file__).parent.parent.parent / "docs" / "agreement.md"
PAGE = """\
# How often ds-lint and DeepSpeed agree

ds-lint checks random configs with typical mistakes (`tests/generate.py`) for a release of DeepSpeed, and that
release trains with them for two optimizer steps. Both agree on a config if they agree on three things: whether the
run starts, at which stage it is rejected, and which unknown keys nothing reads.

{table}

| kind of disagreement | meaning |
|---|---|
| false alarm | ds-lint says that DeepSpeed rejects the config, but it trains |
| silent | DeepSpeed rejects the config, but ds-lint does not report it |
| stage | both reject it, at different stages |
| ignored | they differ on the keys that nothing reads |

The share is that of the decided configs. A config is undecided if it needs an optimizer, a model or a machine that
the run does not have. `other tests` are those in `tests/fidelity` that compare fields, defaults, bounds, rejected
values, rule pages and the Trainer's code with the installed libraries.

Measured on {day} with {versions}:

```sh not-run="trains for half an hour"
{command}
```

## What was not tried

* GPUs: each run is one process on a CPU, with gloo. Torch operations with the same arguments and results replace
  compiled ops, and the machine claims to support fp16 and bf16.
* Several processes: nothing that only several ranks show.
* Other models: the model has two linear layers, with the optimizer of the config. No pipeline, no mixture of experts,
  no saving, no resuming.
* Other releases of the other libraries: there is one of each, even with an older DeepSpeed.
* Values that the generator does not produce. The configs look like those of guides, with a few mistakes each.
* Many seeds. Rules were fixed after runs with the default seed (20261121) and a few others; the command above has the
  seed of this table.
"""


def table(trials: Sequence[Trial]) -> str:
    """One row for each release, in Markdown."""
    kinds = list(trials[0].kinds)
    titles = ["release", "configs", "undecided", "agree", "share", *kinds, "other tests", "seconds"]
    return "\n".join([_row(titles), _row(["---"] + ["--:"] * (len(titles) - 1)), *map(_of_trial, trials)])


def page(trials: Sequence[Trial], command: str, day: date) -> str:
    """The whole page."""
    return PAGE.format(table=table(trials), day=day, versions=_versions(trials), command=command)


def _of_trial(trial: Trial) -> str:
    counts = [trial.configs, trial.undecided, trial.agreed, f"{trial.share:.2%}", *trial.kinds.values()]
    passed, failed, _ = trial.tests
    return _row([trial.release, *counts, f"{failed} failed" if failed else f"{passed} passed", round(trial.seconds)])


def _row(cells: Sequence[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _versions(trials: Sequence[Trial]) -> str:
    """What is installed beside DeepSpeed, every release of it that occurs."""
    found = {
        library: sorted({trial.versions[library] for trial in trials})
        for library in trials[0].versions
        if library != "deepspeed"
    }
    return ", ".join(f"{library} {' and '.join(releases)}" for library, releases in found.items())
