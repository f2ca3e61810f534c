"""``python -m ds_lint.smoke.worker CONFIG [options of check]``: one rank of a run that a launcher started.

Rank 0 is ``ds-lint check CONFIG --smoke`` with the ranks of the launcher in place of ranks of its own; the others serve
it, and need neither the config nor the options.
"""

from __future__ import annotations

import os
import sys

from ds_lint.smoke.records.rendezvous import NoRendezvous, find

_TIMEOUT, _FOLDER = "--smoke-timeout", "--smoke-folder"


def main(arguments: list[str]) -> int:
    """Run as the rank that the launcher assigned; the exit status, on rank 0 that of ``ds-lint check``."""
    try:
        place = find(os.environ)
    except NoRendezvous as error:
        sys.stderr.write(f"ds-lint: {error}\n")
        return 2
    if place.rank > 0:
        from ds_lint.smoke.small_run.ranks import serve

        return serve(place, timeout_in(arguments), value_in(arguments, _FOLDER))
    command = [sys.executable, "-m", "ds_lint", *as_check(arguments)]
    return os.execv(sys.executable, command)  # noqa: S606 - ourselves


def timeout_in(arguments: list[str]) -> float | None:
    """The seconds of ``--smoke-timeout``, for ranks that read no other options."""
    seconds = value_in(arguments, _TIMEOUT) or ""
    return float(seconds) if seconds.isdecimal() else None


def value_in(arguments: list[str], option: str) -> str | None:
    """The value of an option; None if it is not given."""
    for word, following in zip(arguments, [*arguments[1:], ""], strict=True):
        name, sign, value = word.partition("=")
        if name == option and (sign or following):
            return value if sign else following
    return None


def as_check(arguments: list[str]) -> list[str]:
    """The command line of rank 0, without what the deepspeed launcher adds to that of every rank."""
    kept = [argument for argument in arguments if not argument.startswith(("--local_rank=", "--local-rank="))]
    return ["check", *kept, "--smoke", "--smoke-join"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
