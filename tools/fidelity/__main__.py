"""Hold ds-lint against the real DeepSpeed of each named release, and print how often they agree.

    python -m tools.fidelity 0.15.4 0.16.9 0.19.8
    python -m tools.fidelity 0.16.9 --configs 500 --fresh

Each release gets an environment of its own, made with venv and pip and kept for the next time. Standard output is one
table; what differs, and which tests fail, goes to standard error.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from ds_lint.knowledge.keys import Knowledge
from tools.command_line import Parser, cannot, print_progress
from tools.extract.releases import UnavailableError
from tools.fidelity import environments, page
from tools.fidelity.trial import ROOT, TrialError, try_release

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.fidelity.trial import Trial

CONFIGS = 2000
SEED = 20261121


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0 all is well, 1 too few configs agree or a test fails, 2 it cannot be done."""
    options = _parser().parse_args(arguments)
    known = Knowledge().releases
    for release in options.releases:
        if release not in known:
            return cannot(f"ds-lint does not know DeepSpeed {release}; the newest that it knows is {known[-1]}")
    try:
        trials = [_tried(release, options) for release in options.releases]
    except TrialError as error:
        return cannot(str(error))
    sys.stdout.write(page.table(trials) + "\n")
    if options.write:
        page.PATH.parent.mkdir(exist_ok=True)
        text = page.page(trials, _command(options), datetime.now(timezone.utc).date())
        page.PATH.write_text(text, encoding="utf-8", newline="\n")
    return 0 if all(trial.is_good for trial in trials) else 1


def _tried(release: str, options: argparse.Namespace) -> Trial:
    try:
        print_progress(f"{release}: making the environment")
        python = environments.make(release, options.environments.absolute() / release, fresh=options.fresh)
        print_progress(f"{release}: {options.configs} configs, and the other tests")
        trial = try_release(python, options.configs, options.seed)
    except (UnavailableError, TrialError) as error:
        raise TrialError(f"{release}: {error}") from error
    for disagreement in trial.disagreements:
        print_progress(f"{release}: {disagreement}")
    print_progress(
        f"{release}: {trial.share:.2%} agree, {trial.tests.failed} other tests failed, {trial.seconds:.0f} s"
    )
    return trial


def _command(options: argparse.Namespace) -> str:
    """What to type for the same measurement; where the environments lie makes no difference to it."""
    words = ["python", "-m", "tools.fidelity", *options.releases]
    words += ["--configs", str(options.configs)] if options.configs != CONFIGS else []
    words += ["--seed", str(options.seed)] if options.seed != SEED else []
    return shlex.join(words)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="python -m tools.fidelity", description=__doc__.split("\n\n")[0] if __doc__ else None)
    parser.add_argument("releases", nargs="+", metavar="release", help="of DeepSpeed")
    parser.add_argument("--configs", type=_count, default=CONFIGS, metavar="N", help="random configs to try")
    parser.add_argument("--seed", type=int, default=SEED, help="other configs")
    parser.add_argument(
        "--environments", type=Path, default=ROOT / ".fidelity", metavar="DIR", help="where the environments lie"
    )
    parser.add_argument("--fresh", action="store_true", help="create the environments again")
    parser.add_argument("--write", action="store_true", help="write docs/agreement.md")
    return parser


def _count(text: str) -> int:
    count = int(text)
    if count < 1:
        raise argparse.ArgumentTypeError(f"{count} configs cannot be tried")
    return count


if __name__ == "__main__":
    sys.exit(main())
