"""Functions that run right after a module is imported, before whoever imports it uses it."""

from __future__ import annotations

import importlib
import sys

import pytest

from ds_lint.smoke.probe import imports


@pytest.fixture
def library(tmp_path, monkeypatch):
    """Writes a module of the user; what it leaves behind goes after the test."""
    finders, before = list(sys.meta_path), set(sys.modules)
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(name, text="value = 1\n"):
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        importlib.invalidate_caches()

    yield write
    sys.meta_path[:] = finders
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_it_runs_once_when_the_module_is_whole_and_before_the_importer_uses_it(library):
    library("made_up_library")
    library("made_up_user", "import made_up_library\nseen = made_up_library.value\n")
    calls = []

    def double(module):
        calls.append(module.__name__)
        module.value *= 2

    imports.after("made_up_library", double)
    assert calls == []
    assert importlib.import_module("made_up_user").seen == 2
    importlib.import_module("made_up_library")
    assert calls == ["made_up_library"]


def test_a_module_that_is_there_is_changed_at_once(library):
    library("made_up_present")
    module = importlib.import_module("made_up_present")
    calls = []
    imports.after("made_up_present", calls.append)
    assert calls == [module]


def test_several_functions_run_in_their_order(library):
    library("made_up_several")
    calls = []
    for number in range(3):
        imports.after("made_up_several", lambda _module, number=number: calls.append(number))
    importlib.import_module("made_up_several")
    assert calls == [0, 1, 2]


def test_the_module_keeps_its_own_loader(library):
    library("made_up_loader")
    imports.after("made_up_loader", lambda _module: None)
    module = importlib.import_module("made_up_loader")
    assert type(module.__loader__).__name__ == type(module.__spec__.loader).__name__ == "SourceFileLoader"


def test_what_a_module_puts_into_its_place_is_what_is_changed(library):
    """The lazy modules of transformers do so."""
    library("made_up_lazy", "import sys, types\nsys.modules[__name__] = types.SimpleNamespace(value=7)\n")
    seen = []
    imports.after("made_up_lazy", lambda module: seen.append(module.value))
    importlib.import_module("made_up_lazy")
    assert seen == [7]


def test_a_module_that_is_not_there_raises_as_without_ds_lint(library):
    library("made_up_other")
    imports.after("made_up_missing", lambda _module: None)
    with pytest.raises(ModuleNotFoundError, match="No module named 'made_up_missing'"):
        importlib.import_module("made_up_missing")


def test_a_module_that_raises_is_imported_again_and_changed_then(library):
    library("made_up_failing", "raise RuntimeError('no CUDA')\n")
    calls = []
    imports.after("made_up_failing", calls.append)
    with pytest.raises(RuntimeError, match="no CUDA"):
        importlib.import_module("made_up_failing")
    assert calls == []
    library("made_up_failing", "value = 12345\n")
    assert importlib.import_module("made_up_failing").value == 12345
    assert len(calls) == 1
