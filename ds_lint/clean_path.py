"""What each clean check loads, without the searches of Python's import, which take a sixth of its time.

For each module, Python asks every finder, lists folders, and opens what it has compiled in a dozen system calls. Here
the modules are known, in an order in which each finds what it imports, so that a look at the source and one read are
enough. A module is what an import would make of it, and compiled files count by Python's own rules. Whatever is unusual
is left to the import: an archive, compiled files elsewhere, modules that are not compiled yet.
"""

from __future__ import annotations

import os
import sys
from _frozen_importlib import ModuleSpec  # importlib has the same names, and takes longer than twenty modules
from _frozen_importlib_external import MAGIC_NUMBER, SourceFileLoader
from marshal import loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import CodeType

# A module comes after those that it imports, and after its package.
FOR_ANY_FILE = (
    "record", "option", "commands", "diagnostics", "diagnostics.finding", "diagnostics.report", "facts",
    "facts.unreadable", "knowledge", "knowledge.tables", "knowledge.coercion", "knowledge.stacks", "knowledge.keys",
    "targets", "targets.pin", "targets.text", "targets.directories", "targets.files", "targets.project", "linter",
    "linter.choice", "output", "output.terminal", "settings", "settings.record", "commands.failures", "source",
    "source.languages", "source.document", "source.limits", "source.tree", "source.json", "source.documents",
    "source.files", "commands.documents", "commands.report", "semantics", "semantics.basis", "checks",
    "diagnostics.rule", "linter.engine", "source.dialect", "source.spelling", "semantics.config", "semantics.configs",
    "linter.lint", "session", "session.context", "settings.nearest", "session.session", "commands.check",
    "session.options", "output.summary", "output.full",
)  # fmt: skip
FOR_CONFIGS = (
    "targets.distributions", "diagnostics.problem", "fixes", "fixes.edits", "semantics.batch", "semantics.features",
    "semantics.constructors", "semantics.related", "semantics.swapping", "semantics.schedules", "checks.batch",
    "checks.keys", "checks.saving", "checks.values", "checks.trainer", "checks.zero", "checks.offload",
    "checks.optimizer", "checks.schedule", "checks.zeropp",
)  # fmt: skip
_PACKAGES = {
    "checks", "commands", "diagnostics", "facts", "fixes", "knowledge", "linter", "output", "semantics", "session",
    "settings", "source", "targets",
}  # fmt: skip

_MODULE = type(sys)
_HEADER = MAGIC_NUMBER + bytes(4)  # of a file compiled by this Python, which the time and size of its source follow
_MOST = 1 << 16  # bytes that are read of one; a larger one is left to the import
_READ = os.O_RDONLY | getattr(os, "O_BINARY", 0)  # the latter on Windows


def load(names: Iterable[str]) -> None:
    """Import those that are not imported yet, up to the first that is not compiled."""
    modules, between, spec = sys.modules, os.sep, sys.modules[__name__].__spec__
    root = os.path.dirname(__file__)
    beside = f"{root}{between}__pycache__{between}clean_path"
    if spec is None or type(spec.loader) is not SourceFileLoader or not (spec.cached or "").startswith(beside):
        return
    ending = (spec.cached or "")[len(beside) :]
    for short in names:
        name = f"ds_lint.{short}"
        if name in modules:
            continue
        is_package = short in _PACKAGES
        folder, last = f"{root}{between}{short.replace('.', between)}", "__init__"
        if not is_package:
            folder, _, last = folder.rpartition(between)
        source = f"{folder}{between}{last}.py"
        compiled = f"{folder}{between}__pycache__{between}{last}{ending}"
        code = _code(source, compiled)
        if code is None:
            return
        module = _MODULE(name)
        module.__loader__ = loader = SourceFileLoader(name, source)
        module.__spec__ = spec = ModuleSpec(name, loader, origin=source, is_package=is_package)
        spec.has_location = True
        module.__file__, module.__package__ = source, spec.parent
        module.__cached__ = spec.cached = compiled  # type: ignore[attr-defined]  # which Python sets, too
        if spec.submodule_search_locations is not None:
            spec.submodule_search_locations.append(folder)
            module.__path__ = spec.submodule_search_locations
        modules[name] = module
        try:
            exec(code, module.__dict__)  # noqa: S102 - as an import does
        except BaseException:
            del modules[name]
            raise
        package, _, last = name.rpartition(".")
        setattr(modules[package], last, module)


def _code(source: str, compiled: str) -> CodeType | None:
    """The code of a module, if it is compiled, and from this source."""
    try:
        stat = os.stat(source)
        file = os.open(compiled, _READ)
    except OSError:
        return None
    content = os.read(file, _MOST)
    os.close(file)
    time, size = int(stat.st_mtime) & 0xFFFFFFFF, stat.st_size & 0xFFFFFFFF
    if content[:16] != _HEADER + time.to_bytes(4, "little") + size.to_bytes(4, "little") or len(content) == _MOST:
        return None
    code: CodeType = loads(memoryview(content)[16:])  # noqa: S302 - what Python has written for itself
    return code if code.co_filename == source else None  # else the installation was moved, and import corrects it
