"""Write everything that follows from the rules, the settings and ``schemas/``, and say what changed.

    python -m tools.derived

That is the findings of rule pages, the schemas for editors, what documents show of commands, and the picture of a
finding. Read the changes before they are committed: where one surprises, ds-lint may be what is wrong.
"""

from __future__ import annotations

import subprocess
import sys

from tools.refreshing.steps import PAGES, ROOT


def main() -> int:
    """Run each step, also after one that failed; 1 if any did."""
    commands = [[sys.executable, "-m", *step.command] for step in PAGES]
    return max([subprocess.run(command, cwd=ROOT, check=False).returncode for command in commands])


if __name__ == "__main__":
    sys.exit(main())
