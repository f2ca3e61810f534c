"""Python as ds_lint finds it on Windows: it asks for names of the standard library that are not there, and gets none.

Only what asks from ``ds_lint`` is told so: the standard library itself goes on as it is. Reading a text without saying
its encoding is an error, because that is another one there.
"""

from __future__ import annotations

import builtins
import os
import sys
import types
import warnings

ABSENT = {  # filled by the test: names by module, and whole modules
    name: set(filter(None, names.split(",")))
    for name, _, names in (line.partition(" ") for line in os.environ["DS_TEST_ABSENT"].split("\n"))
}
MODULES = ABSENT.pop("modules")
SAYS = {("os", "name"): "nt", ("sys", "platform"): "win32"}


def _is_of_ds_lint(frame):
    return frame.f_globals.get("__name__", "").startswith("ds_lint")


class Without(types.ModuleType):
    """A module without names that are not there on Windows."""

    def __getattribute__(self, name):
        get = types.ModuleType.__getattribute__
        module = get(self, "__name__")
        if name in ABSENT.get(module, ()) and _is_of_ds_lint(sys._getframe(1)):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        if (module, name) in SAYS and _is_of_ds_lint(sys._getframe(1)):
            return SAYS[module, name]
        return get(self, name)


def _import(name, globals=None, *others, real=builtins.__import__, **named):
    own = (globals or {}).get("__name__", "")
    if name.partition(".")[0] in MODULES and own.startswith("ds_lint"):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    module = real(name, globals, *others, **named)
    if name in ABSENT:
        sys.modules[name].__class__ = Without
    return module


builtins.__import__ = _import
sys.__class__ = os.__class__ = Without
for stream in (sys.stdout, sys.stderr):  # as a pipe is there
    stream.reconfigure(encoding="cp1252", newline="\r\n")
warnings.filterwarnings("error", category=EncodingWarning, module=r"ds_lint\.")
