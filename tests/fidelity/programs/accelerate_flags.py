"""The namespace that ``accelerate launch`` makes of flags and a YAML. Runs in a process of its own.

Standard input has JSON arrays of words, one array a line, each of a command behind ``accelerate launch``. Standard
output is one JSON object a line, behind a null character: the namespace, and the launcher that is called.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

from accelerate.commands import launch
from accelerate.commands.config import config_args


class Started(Exception):  # noqa: N818 - nothing is wrong
    """A launcher is called."""


def launched(words: list[str]) -> dict[str, Any]:
    """The namespace that a launcher is called with, and its name, or the error."""

    def called(name: str) -> Any:
        def launcher(*arguments: Any) -> None:
            found["launcher"], found["namespace"] = name.removesuffix("_launcher"), vars(arguments[-1])
            raise Started

        return launcher

    found: dict[str, Any] = {"error": None}
    for name in [name for name in vars(launch) if name.endswith("_launcher")]:
        setattr(launch, name, called(name))
    try:
        launch.launch_command(launch.launch_command_parser().parse_args(words))
    except Started:
        pass
    except BaseException as error:
        found["error"] = f"{type(error).__name__}: {error}"[:300]
    if "namespace" in found:
        found["namespace"] = {name: str(value) for name, value in found["namespace"].items()}
    return found


def main() -> None:
    logging.disable()
    config_args.default_config_file = launch.default_config_file = "/nonexistent"
    for words in (json.loads(line) for line in sys.stdin):
        sys.__stdout__.write("\0" + json.dumps(launched(words)) + "\n")
        sys.__stdout__.flush()


if __name__ == "__main__":
    main()
