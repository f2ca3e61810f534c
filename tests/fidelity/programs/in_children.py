"""Many jobs in one start of a program: each in a child that has everything imported, and that leaves nothing behind."""

import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any


def each_in_a_child(measure: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Print a line of JSON for each job of the command line: what is measured, or the error."""
    for job in json.loads(sys.argv[1]):
        sys.stdout.flush()
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            continue
        try:
            print(json.dumps(measure(job)))
        except BaseException:
            traceback.print_exc()
            print(json.dumps({"error": traceback.format_exc()[-2500:]}))
        sys.stdout.flush()
        os._exit(0)
