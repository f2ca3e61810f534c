"""Run benchmarks, and record what they print for the page of the documentation.

    python -m tools.bench start edit                    these
    python -m tools.bench --projects FOLDER ...         all of them: minutes
    python -m tools.bench                               all but that of public projects, which are these folders

On a machine that does nothing else, with the interpreter of the environment that ds-lint is installed in.
``results.json`` has, for each, what was printed, when, and on which machine.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tools.bench import BENCHES, RESULTS

ROOT = Path(__file__).parent.parent.parent
LIBRARIES = ("deepspeed", "transformers", "accelerate", "torch")


def main() -> None:
    """Run, print and record."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("benches", nargs="*", metavar="BENCH", help=", ".join(BENCHES))
    options.add_argument("--projects", nargs="+", metavar="FOLDER", default=[], help="the folders that projects checks")
    chosen = options.parse_args()
    folders = [str(Path(folder).resolve()) for folder in chosen.projects]
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    for bench in chosen.benches or [bench for bench in BENCHES if folders or bench != "projects"]:
        command = [sys.executable, "-m", f"tools.bench.{bench}", *(folders if bench == "projects" else ())]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
        sys.stdout.write(done.stdout)
        results[bench] = {
            "day": datetime.now(tz=timezone.utc).date().isoformat(),
            "machine": _machine(),
            "printed": done.stdout.splitlines(),
        }
        RESULTS.write_text(json.dumps({name: results[name] for name in BENCHES if name in results}, indent=2) + "\n")


def _machine() -> str:
    """What a reader has to know of it to compare."""
    words = [f"{_processor()}, {os.cpu_count()} cores", f"Python {platform.python_version()}"]
    return ", ".join([*words, *filter(None, map(_installed, LIBRARIES))])


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.machine())


def _installed(library: str) -> str | None:
    try:
        return f"{library} {version(library)}"
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    main()
