"""Bring ``schemas/environment.json``, the environment variables that libraries read, up to their releases.

    python -m tools.extract.environment torch 2.15.0
    python -m tools.extract.environment --cache DIR [--check]

Of Python the names are the constants of the sources, put together where a prefix is a constant as well; of what is
compiled they are the strings of the libraries and the headers in the wheel. So a name in the store is one that a
library knows, which is more than those that it reads: ds-lint reports a name only if it is not there. Without a
library, the newest release of each is read. Standard output is the change log.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import tempfile
import warnings
import zipfile
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.extract import history
from tools.extract.reading import ExtractionError, Parser, earlier_than, entry, refuse_losses, status, verify_releases
from tools.extract.releases import UnavailableError, available, downloaded, fetch

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence
    from typing import TypeGuard

    from tools.extract.history import Facts

STORE = Path(__file__).parents[2] / "schemas" / "environment.json"

# By the name in the store: the packages that have the library, the newest first.
LIBRARIES: dict[str, tuple[str, ...]] = {
    "torch": ("torch",),
    "nccl": ("nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11"),
    "deepspeed": ("deepspeed",),
    "accelerate": ("accelerate",),
    "transformers": ("transformers",),
    "huggingface_hub": ("huggingface_hub",),
    "datasets": ("datasets",),
    "peft": ("peft",),
    "trl": ("trl",),
}
_COMPILED = ("torch", "nccl")  # of which the wheel for Linux is read
_LINUX = (*(f"manylinux_2_{minor}_x86_64" for minor in range(34, 4, -1)), "manylinux2014_x86_64", "manylinux1_x86_64")
_PREFIXES = (
    "ACCELERATE", "CUDA", "DEEPSPEED", "DS", "FSDP", "GLOO", "HF", "NCCL", "PYTORCH", "TORCH", "TORCHELASTIC",
    "TRANSFORMERS",
)  # fmt: skip
_NAME = re.compile(rf"(?:{'|'.join(_PREFIXES)})(?:_[A-Z0-9]+)+")
_BEGINNING = re.compile(rf"(?:{'|'.join(_PREFIXES)})_(?:[A-Z0-9]+_)+")  # of names that are put together
_ANY_NAME = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
_STRING = re.compile(rb"(?<=\0)[A-Z][A-Z0-9]+_[A-Z0-9_]{2,60}(?=\0)")
_LITERAL = re.compile(r'"([A-Z][A-Z0-9]+_[A-Z0-9_]{2,60})"')
_READERS = ("environ.get", "environ.pop", "environ.setdefault", "os.getenv", "getenv", "os.putenv")
_ACCELERATORS = "SUPPORTED_ACCELERATOR_LIST"  # the values of DS_ACCELERATOR
_LONGEST = 100
_MOST_TEXTS = 8  # of a name that is a prefix; others are parts of code that is generated
_CHUNK = 1 << 26


def extract(tree: Path) -> Facts:
    """The names in the Python files of a folder, and the beginnings of those that are put together at run time."""
    found = _Found()
    for path in tree.rglob("*.py"):
        found.read(path.read_bytes())
    return found.facts()


def extract_wheel(wheel: zipfile.ZipFile) -> Facts:
    """The same of a wheel with compiled libraries."""
    found = _Found()
    for name in wheel.namelist():
        if name.endswith(".py"):
            found.read(wheel.read(name))
        elif name.endswith((".h", ".hpp")):
            literals = _LITERAL.findall(wheel.read(name).decode(errors="replace"))
            found.names.update(filter(_NAME.fullmatch, literals))
        elif re.search(r"/lib(?:torch|c10|nccl)\w*\.so[\d.]*$", name):
            found.names.update(filter(_NAME.fullmatch, _strings(wheel, name)))
    return found.facts()


class _Found:
    """What the files of a release show."""

    def __init__(self) -> None:
        self.names = set[str]()
        self.beginnings = set[str]()
        self.accelerators = set[str]()

    def read(self, source: bytes) -> None:
        """Read a module; a template is not Python, and shows nothing."""
        with warnings.catch_warnings(action="ignore"):
            try:
                module = ast.parse(source)
            except (SyntaxError, ValueError):
                return
        _of_module(module, self)

    def facts(self) -> Facts:
        """The tables of the release."""
        begun = self.beginnings
        kept = {one for one in begun if not any(one != other and one.startswith(other) for other in begun)}
        tables = {"names": self.names, "beginnings": kept, "accelerators": self.accelerators}
        return {
            table: {one: {} for one in sorted(found)} for table, found in tables.items() if found or table == "names"
        }


def _strings(wheel: zipfile.ZipFile, name: str) -> Iterator[str]:
    """The strings of a library that may be names."""
    rest = b"\0"
    with wheel.open(name) as library:
        while chunk := library.read(_CHUNK):
            data = rest + chunk
            yield from (found.decode() for found in _STRING.findall(data))
            rest = data[-128:]


def _of_module(module: ast.Module, found: _Found) -> None:
    constants = _constants(module)
    for node in ast.walk(module):
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str) and _NAME.fullmatch(node.value):
                found.names.add(node.value)
        elif _is_put_together(node):
            for text, is_whole in _texts(node, constants):
                if is_whole and _NAME.fullmatch(text):
                    found.names.add(text)
                elif not is_whole and _BEGINNING.fullmatch(text):
                    found.beginnings.add(text)
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == _ACCELERATORS:
            found.accelerators.update(ast.literal_eval(node.value))
        elif (name := _read_name(node)) is not None and _ANY_NAME.fullmatch(name):
            found.names.add(name)


def _read_name(node: ast.AST) -> str | None:
    """The name of the variable that a node reads or sets."""
    if isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("environ"):
        return _text(node.slice)
    if isinstance(node, ast.Compare) and ast.unparse(node.comparators[0]).endswith("environ"):
        return _text(node.left)
    if isinstance(node, ast.Call) and node.args and ast.unparse(node.func).endswith(_READERS):
        return _text(node.args[0])
    return None


def _text(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _constants(module: ast.Module) -> dict[str, set[str]]:
    """The texts that the names of a module are given, wherever that is."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Assign) and (text := _text(node.value)) is not None:
            for target in node.targets:
                if isinstance(target, ast.Name):
                    found.setdefault(target.id, set()).add(text)
    return found


def _texts(node: ast.JoinedStr | ast.BinOp, constants: dict[str, set[str]]) -> Iterator[tuple[str, bool]]:
    """What an expression may begin with, and whether that is all of it."""
    if isinstance(node, ast.JoinedStr):
        parts = [one.value if isinstance(one, ast.FormattedValue) else one for one in node.values]
    else:
        assert isinstance(node, ast.BinOp)  # noqa: S101 - as the callers make sure
        parts = [node.left, node.right]
    begun = [("", True)]
    for part in parts:
        ended = [one for one in begun if not one[1]]
        going_on = [(text, more) for text, is_whole in begun if is_whole for more in _part(part, constants)]
        begun = [*ended, *((text + more, is_whole) for text, (more, is_whole) in going_on)]
        begun = [one for one in begun if _may_begin(one[0])]
    yield from begun


def _may_begin(text: str) -> bool:
    """Whether a name may begin so: anything else is text of another kind."""
    return len(text) < _LONGEST and text.replace("_", "").isalnum() and text.isupper() if text else True


def _part(node: ast.expr, constants: dict[str, set[str]]) -> Iterator[tuple[str, bool]]:
    if (text := _text(node)) is not None:
        yield text, True
    elif isinstance(node, ast.Name) and len(constants.get(node.id, ())) in range(1, _MOST_TEXTS):
        yield from ((text, True) for text in sorted(constants[node.id]))
    elif _is_put_together(node):
        yield from _texts(node, constants)
    else:
        yield "", False


def _is_put_together(node: ast.AST) -> TypeGuard[ast.JoinedStr | ast.BinOp]:
    """Whether a node is a text that consists of others."""
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; 0 done, 1 the store differs (``--check``), 2 it cannot be done."""
    parser = Parser("python -m tools.extract.environment", __doc__.split("\n\n")[0] if __doc__ else None)
    parser.add_argument("library", nargs="?", help=", ".join(LIBRARIES))
    parser.add_argument("releases", nargs="*", metavar="release")
    return status(_run, parser.parse_args(arguments))


def _run(options: argparse.Namespace) -> int:
    verify_releases(options.releases, options)
    store = read()
    libraries = dict(store["libraries"])
    if options.library is not None and options.library not in LIBRARIES:
        raise ExtractionError(f"{options.library} is none of the libraries: {', '.join(LIBRARIES)}")
    for name in LIBRARIES if options.library is None else (options.library,):
        known = libraries.get(name) or {"library": name, "releases": []}
        for release in options.releases or [_newest(name)]:
            known = _with(known, name, release, options)
        libraries[name] = known
    if libraries == store["libraries"]:
        return 0
    if options.check:
        sys.stderr.write(f"{STORE.name} differs\n")
        return 1
    today = datetime.now(timezone.utc).date().isoformat()
    write({**store, "read_on": today, "libraries": libraries})
    sys.stderr.write(f"wrote {STORE.name}\n")
    return 0


def _with(known: Facts, name: str, release: str, options: argparse.Namespace) -> Facts:
    """The record of a library with the names of one more release."""
    facts = _extracted(name, release, options)
    if not facts["names"]:
        raise ExtractionError(f"no names are found in {name} {release}")
    earlier = earlier_than(release, known["releases"])
    before = history.at(known, earlier) if earlier else {}
    if earlier and release not in known["releases"]:
        refuse_losses(f"{name} {release}", facts, earlier, before, options.allow_loss)
    sys.stdout.write(entry(f"{name} {release}", earlier, history.changes(before, facts) if earlier else []))
    return history.merged(known, release, facts)


def _extracted(name: str, release: str, options: argparse.Namespace) -> Facts:
    if options.tree:
        return extract(options.tree)
    with tempfile.TemporaryDirectory() as folder:
        into = options.cache or Path(folder)
        if name not in _COMPILED:
            return extract(fetch(LIBRARIES[name][0], release, into))
        with zipfile.ZipFile(_wheel(name, release, into / f"{name}-{release}-linux")) as wheel:
            return extract_wheel(wheel)


def _wheel(name: str, release: str, folder: Path) -> Path:
    """The wheel for Linux, with what is compiled for CUDA."""
    if (found := next(folder.glob("*.whl"), None)) is not None:
        return found
    folder.mkdir(parents=True, exist_ok=True)
    options = ["--only-binary", ":all:", *(word for one in _LINUX for word in ("--platform", one))]
    for package in LIBRARIES[name]:
        for python in ("311", "313"):
            with suppress(UnavailableError):
                return downloaded(package, release, folder, *options, "--python-version", python)
    raise ExtractionError(f"there is no wheel of {name} {release} for Linux")


def _newest(name: str) -> str:
    return available(LIBRARIES[name][0])[-1]


def read() -> Any:
    """The store as it lies in the checkout."""
    if not STORE.exists():
        return {"read_on": "", "sources": {}, "documented": {}, "allocator": {}, "libraries": {}}
    return json.loads(STORE.read_text(encoding="utf-8"))


def write(store: Facts) -> None:
    """Write the store with a name on each line."""
    text = json.dumps(store, indent=1, ensure_ascii=False)
    text = re.sub(r"\{\s*\"runs\": \[[^]]*\]\s*\}", lambda found: " ".join(found[0].split()), text)
    STORE.write_text(f"{text}\n", encoding="utf-8", newline="\n")


if __name__ == "__main__":
    sys.exit(main())
