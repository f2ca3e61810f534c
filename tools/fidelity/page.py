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

Random configs, with the slips that people make (`tests/generate.py`), are judged by ds-lint for a release of
DeepSpeed, and trained for two optimizer steps by that release. Both agree on a config if they agree on three things:
whether it starts, at which stage it is refused, and which unknown keys nothing reads.

{table}

| kind of disagreement | meaning |
|---|---|
| false alarm | ds-lint says that DeepSpeed refuses the config, and it trains |
| silent | DeepSpeed refuses the config, and ds-lint does not say so |
| stage | both refuse it, at different stages |
| ignored | they differ on the keys that nothing reads |

The share is that of the judged configs. A run does not judge a config that asks for an optimizer, a model or a machine
which the run does not have. `other tests` are those of `tests/fidelity` that hold fields, defaults, bounds, refused
values, rule pages and the Trainer's code against what is installed.

Measured on {day} with {versions}:

```sh not-run="trains for half an hour"
{command}
```

## What was not tried

* No GPU: one process on a CPU, with gloo. In place of compiled ops stand torch operations that take the same
  arguments and compute the same; the machine is said to support fp16 and bf16.
* No second process: nothing that only several ranks show.
* One model of two linear layers, with the optimizer that the config names. No pipeline, no mixture of experts, no
  saving, no resuming.
* One release each of the other libraries, also with a DeepSpeed that is older than they are.
* Values that no generator thought of. The configs have the shapes that guides hand out, with up to a few slips each.
* Many seeds. Rules were mended after runs with the default one (20261121) and a few others; the command above says
  with which this table was made.
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
