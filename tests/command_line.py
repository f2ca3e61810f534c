"""The environment in which tests start ds-lint as people do."""

from __future__ import annotations

import os

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def clean_environment():
    unwanted = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "PYTHONIOENCODING")
    kept = {name: value for name, value in os.environ.items() if name not in unwanted}
    return kept | {"PYTHONPATH": ROOT, "PYTHONIOENCODING": "utf-8", "TERM": "xterm"}
