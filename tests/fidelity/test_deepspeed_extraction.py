"""The store holds what the installed DeepSpeed reads, by its source."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("deepspeed")

import deepspeed

from tools.extract import deepspeed as extractor

pytestmark = pytest.mark.fidelity


def test_the_installed_release_is_extracted_as_it_is_stored():
    store = json.loads(extractor.STORE.read_text(encoding="utf-8"))
    extracted = extractor.extract(Path(deepspeed.__file__).parent.parent)
    known = extractor.at(store, deepspeed.__version__.split("+")[0])
    assert extractor.changes(known, extracted) == []
    assert known == json.loads(json.dumps(extracted))
