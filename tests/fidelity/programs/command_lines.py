"""What scripts do with command lines: read cases from standard input, run the scripts, write what happens.

A case is the text of a script and its words. An outcome is "accepted", "stopped" with what argparse writes, "left" with
the words that no option takes, or "broken" if the script raises whatever the words are.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import types
from typing import Any


def outcome(script: str, words: list[str]) -> dict[str, Any]:
    sys.argv = ["train.py", *words]
    written = io.StringIO()
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    try:
        with contextlib.redirect_stderr(written), contextlib.redirect_stdout(io.StringIO()):
            exec(compile(script, "train.py", "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - what a test generates
    except SystemExit:
        return {"what": "stopped", "message": written.getvalue().strip().rpartition("\n")[2]}
    except ValueError as error:
        return {"what": "left", "message": str(error)}
    except Exception as error:
        return {"what": "broken", "message": repr(error)}
    return {"what": "accepted", "message": ""}


def main() -> None:
    from transformers import TrainingArguments

    TrainingArguments.__post_init__ = lambda _: None  # which looks for devices
    cases = json.load(sys.stdin)
    sys.stdout.write(json.dumps([outcome(*case) for case in cases]))


if __name__ == "__main__":
    main()
