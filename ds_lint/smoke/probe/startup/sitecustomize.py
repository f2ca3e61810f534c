"""Runs when a Python of the user's command starts, because its folder is the first on ``PYTHONPATH``.

It runs in every process of the command, with the user's interpreter, and before any library: it imports what the start
of Python has imported anyway, runs the user's own ``sitecustomize``, and loads the probe when the first of the training
libraries is about to be imported.
"""

import os
import sys

_VARIABLE = "DS_LINT_PROBE"  # ``ds_lint.smoke.probe.plan.VARIABLE``; no module of ds-lint is imported here
_LIBRARIES = ("deepspeed", "transformers", "accelerate")
_HERE = os.path.dirname(os.path.abspath(__file__))
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(_HERE)))  # ds_lint


class _FirstImport:
    """The first import of a training library loads the probe, whose own finder then finds the library."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name not in _LIBRARIES:
            return None
        sys.meta_path.remove(cls)
        _load_probe()
        # Python goes on at the place after this one, and would leave out the finder that is now the first.
        specs = (finder.find_spec(name, path, target) for finder in sys.meta_path)
        return next((spec for spec in specs if spec is not None), None)


def _load_probe():
    """Import the probe from where it lies: no folder of ds-lint is added to ``sys.path`` of the user."""
    import importlib.util

    if "ds_lint" not in sys.modules:
        spec = importlib.util.spec_from_file_location("ds_lint", os.path.join(_PACKAGE, "__init__.py"))
        module = importlib.util.module_from_spec(spec)
        sys.modules["ds_lint"] = module
        spec.loader.exec_module(module)
    import ds_lint.smoke.probe  # noqa: F401 - importing it starts it


def _run_own():
    """Run the ``sitecustomize`` that this one hides."""
    import importlib.machinery
    import importlib.util

    others = [path for path in sys.path if os.path.abspath(path or os.curdir) != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if os.environ.get(_VARIABLE):
    sys.meta_path.insert(0, _FirstImport)
_run_own()
