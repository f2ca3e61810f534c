"""The knowledge that a wheel carries says what ``schemas/`` says of the newest release."""

from __future__ import annotations

from types import ModuleType

import pytest

from ds_lint import knowledge, resources
from ds_lint.knowledge import Key, Knowledge

pytest.importorskip("hatchling")

from pathlib import Path

from tools.compact import source


@pytest.fixture
def compact(monkeypatch) -> Knowledge:
    module = ModuleType("compact")
    exec(source(Path(resources.path("schemas"))), vars(module))  # noqa: S102 - the module that the build would write
    monkeypatch.setattr(knowledge, "_compact", lambda: module)
    return Knowledge()


def test_every_key_has_the_same_facts(compact):
    full = Knowledge(Knowledge().releases[-1])
    assert described(compact.root) == described(full.root)


def test_every_constructor_is_the_same(compact):
    full = Knowledge(Knowledge().releases[-1])
    for section in ("optimizer.params", "scheduler.params"):
        assert compact.types(section) == full.types(section)
        for kind in compact.types(section):
            assert compact.constructors(section, kind) == full.constructors(section, kind)


def test_the_history_is_still_at_hand(compact):
    assert len(compact.releases) > 100
    assert compact.last_release_of(("aio", "thread_count")) == "0.16.3"
    assert compact.last_release_of_type("optimizer.params", "onebitadam") == "0.19.6"


def described(key: Key) -> dict:
    """What rules ask of a key and of everything below it."""
    below = {name: described(child) for name in key.names() if (child := key.child(name)) is not None}
    item = key.item()
    facts = {
        name: fact for name, fact in key.facts.items() if name not in ("keys", "runs", "since", "any_key", "items_are")
    }
    return {
        "facts": facts,
        "strict": key.strict,
        "section": key.is_section,
        "keys": below,
        "item": described(item) if item else None,
    }
