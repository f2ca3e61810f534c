"""The words around the pages of a language, by the English ones: of the navigation, and of mkdocs.yml."""

from __future__ import annotations

import json
from pathlib import Path

WORDS: dict[str, dict[str, str]] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
