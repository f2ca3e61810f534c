"""DeepSpeed's ops as ``ds_report`` lists them, read from its files: which are installed, which can be compiled here.

Sources: ``op_report`` in ``deepspeed/env_report.py``, the builders in ``deepspeed/ops/op_builder``. A builder without
an ``is_compatible`` of its own can be compiled anywhere; what the others ask is recognized by their code. What would
take an import of torch to answer, or a builder that asks something else, is not known.
"""

from __future__ import annotations

import ast
import glob
import os
import re
import sys
import sysconfig
from typing import NamedTuple

from ds_lint.facts.machine.assignments import assignments, constants, module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ds_lint.facts.machine.driver import GpuDriver
    from ds_lint.facts.machine.toolkit import BuildTools, Toolkit
    from ds_lint.facts.machine.torch_build import TorchBuild

_BUILDERS = os.path.join("ops", "op_builder")
_WRITTEN = "git_version_info_installed.py"  # by setup.py
_ABOVE = "deepspeed.ops.op_builder."
_MODULE = re.compile(r"deepspeed\.ops\.|deepspeed\.inference\.")
_LEAST_CUDA = 11  # of Ampere and newer, in every builder that asks
_LINKED = {"'io_submit'": "aio", "'cuFileDriverOpen'": "cufile"}  # functions that a builder links, and their libraries
_SYSTEM = ("/usr/local/lib", "/usr/local/lib64", "/usr/lib64", "/usr/lib", "/lib64", "/lib")


class Op(NamedTuple):
    """An op; None is not known, and ``why`` says it, or what is in the way."""

    name: str
    is_installed: bool | None
    is_compatible: bool | None
    why: str = ""


class Ops(NamedTuple):
    """The ops of the installed DeepSpeed; ``compilation`` is what becomes of one that is compiled at run time."""

    accelerator: str | None
    ops: tuple[Op, ...]
    built_with: dict[str, str]  # the releases that the installed ops were compiled with
    compilation: str | None
    problem: str | None = None  # why nothing is known


class Surrounding(NamedTuple):
    """What the answers depend on."""

    toolkit: Toolkit | None
    tools: BuildTools
    driver: GpuDriver
    torch: TorchBuild | None


class _Builder(NamedTuple):
    """What a class of a builder says; ``question`` is the code of its ``is_compatible``, empty without one."""

    name: str
    bases: tuple[str, ...]
    op: str | None
    built_as: str | None
    question: str


def ops(paths: Sequence[str], around: Surrounding) -> Ops:
    """The ops of the DeepSpeed on an import path."""
    package = next((one for path in paths if os.path.isdir(one := os.path.join(path, "deepspeed"))), None)
    if package is None or not os.path.isdir(os.path.join(package, _BUILDERS)):
        return Ops(None, (), {}, None, "DeepSpeed is not installed here" if package is None else "DeepSpeed has no ops")
    written = assignments(os.path.join(package, _WRITTEN))
    accelerator = _accelerator(around)
    builders = _builders(os.path.join(package, _BUILDERS), accelerator)
    # Ops that were installed for another accelerator are not loaded.
    is_for_this = None if accelerator is None else written.get("accelerator_name", accelerator) in (accelerator, "")
    listed = written.get("installed_ops")
    installed = listed if isinstance(listed, dict) else {}
    found = tuple(
        Op(
            one.op,
            _is_installed(one, installed, package, is_for_this),
            *_compatible(one, builders, around, accelerator),
        )
        for one in builders.values()
        if one.op is not None
    )
    stated = written.get("torch_info")
    info = {str(name): str(value) for name, value in stated.items()} if isinstance(stated, dict) else {}
    built_with = {name: value for name, value in info.items() if value not in ("0.0", "None") and "version" in name}
    return Ops(accelerator, found, built_with, _compilation(package, around, accelerator))


# -------------------------------------------------------------------------------------------------------- what there is


def _accelerator(around: Surrounding) -> str | None:
    """What ``get_accelerator`` takes; None if torch would have to tell."""
    if named := os.environ.get("DS_ACCELERATOR"):
        return named
    if around.torch is None:
        return None
    if around.torch.cuda is None and around.torch.rocm is None:
        return "cpu" if sys.platform == "linux" and "cpu" in around.torch.release else None
    return "cuda" if around.driver.number and around.driver.visible not in ("", "-1") else None


def _builders(folder: str, accelerator: str | None) -> dict[str, _Builder]:
    """The classes of the builders by name; those of other accelerators are in a folder of their own."""
    own = os.path.join(folder, accelerator or "")
    here = own if accelerator not in (None, "cuda") and os.path.isdir(own) else folder
    found = {}
    for path in sorted({*glob.glob(os.path.join(glob.escape(here), "*.py")), os.path.join(folder, "builder.py")}):
        for node in _classes(module(path), folder):
            found[node.name] = _builder(node)
    return found


def _classes(tree: ast.Module, folder: str) -> Iterator[ast.ClassDef]:
    """The classes of a module, and those that it takes from the folder above it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield node
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(_ABOVE):
            names = {one.name for one in node.names if one.name.endswith("Builder")}
            above = module(os.path.join(folder, f"{(node.module or '').removeprefix(_ABOVE)}.py"))
            yield from (one for one in above.body if isinstance(one, ast.ClassDef) and one.name in names)


def _builder(node: ast.ClassDef) -> _Builder:
    methods = {one.name: one for one in node.body if isinstance(one, ast.FunctionDef)}
    name = constants(node).get("NAME")
    built_as = ast.unparse(methods["absolute_name"]) if "absolute_name" in methods else ""
    shown = re.search(r"return f?['\"]([\w.{}]+)['\"]", built_as)
    question = ast.unparse(methods["is_compatible"]) if "is_compatible" in methods else ""
    return _Builder(
        node.name,
        tuple(base.id for base in node.bases if isinstance(base, ast.Name)),
        name if isinstance(name, str) else None,
        shown[1].replace("{self.NAME}", str(name)) if shown is not None else None,
        question,
    )


def _is_installed(one: _Builder, listed: dict[str, bool], package: str, is_for_this: bool | None) -> bool | None:
    """Whether setup.py compiled it, as it has written, and the library is still there."""
    if not listed.get(one.op or "", False):
        return False
    if is_for_this is not True:
        return is_for_this
    if one.built_as is None or _MODULE.match(one.built_as) is None:
        return True
    place = os.path.join(os.path.dirname(package), *one.built_as.split("."))
    return bool(glob.glob(f"{glob.escape(place)}*.so") + glob.glob(f"{glob.escape(place)}*.pyd"))


# ---------------------------------------------------------------------------------------------------- what can be built


def _compatible(
    one: _Builder, builders: dict[str, _Builder], around: Surrounding, accelerator: str | None
) -> tuple[bool | None, str]:
    """What ``is_compatible`` of a builder answers, and why it is not yes."""
    if around.torch is None:
        return None, "torch is not installed here, or not as a release"
    answers = [_answer(question, around, accelerator) for question in _questions(one, builders)]
    for wanted in (False, None):
        if why := next((why for answer, why in answers if answer is wanted), None):
            return wanted, why
    return True, ""


def _questions(one: _Builder, builders: dict[str, _Builder]) -> Iterator[str]:
    """The code of its ``is_compatible``, and of those that this one calls in its bases."""
    pending, seen = [one], set()
    while pending:
        builder = pending.pop()
        if builder.name in seen:
            continue
        seen.add(builder.name)
        if builder.question:
            yield builder.question
        pending += [builders[base] for base in builder.bases if base in builders]


def _answer(question: str, around: Surrounding, accelerator: str | None) -> tuple[bool | None, str]:
    rest = question.partition("\n")[2].strip()
    if re.fullmatch(
        r"(?:'''(?:.|\n)*?'''|\"\"\"(?:.|\n)*?\"\"\")?\s*return (?:True|super\(\)\.is_compatible\(verbose\))", rest
    ):
        return True, ""
    for function, library in _LINKED.items():
        if function in question:
            return _links(library, around)
    if "cutlass" in question:
        return None, "needs CUTLASS, which is not looked for"
    if "installed_cuda_version()" in question:
        return _runs_on(question, around, accelerator)
    if "sys.platform" in question:
        return (sys.platform == "linux", "needs Linux" if sys.platform != "linux" else "")
    return None, "asks what only an import of torch answers"


def _runs_on(question: str, around: Surrounding, accelerator: str | None) -> tuple[bool | None, str]:
    """Whether the toolkit and the weakest GPU are new enough, which is asked where torch sees a GPU."""
    if os.environ.get("DS_IGNORE_CUDA_DETECTION") or accelerator == "cpu":
        return True, ""
    if accelerator != "cuda" or around.torch is None or around.torch.rocm is not None:
        return None, "depends on whether torch sees a GPU"
    if around.toolkit is None or not around.toolkit.has_compiler:
        return False, "there is no CUDA toolkit with nvcc"
    least = re.search(r"cuda_capability\w* < (\d+)", question)
    capabilities = [kind.capability for kind in around.driver.kinds if kind.capability is not None]
    if not capabilities or len(capabilities) < len(around.driver.kinds):
        return None, "the compute capability of the GPUs is not known"
    weakest = min(capabilities)[0]
    if least is not None and weakest < int(least[1]):
        return False, f"needs compute capability {least[1]}.0"
    releases = [_numbers(around.toolkit.release), _numbers(around.torch.cuda)]
    if None in releases:
        return None, "the release of the CUDA toolkit is not known"
    is_new = all(release is not None and release[0] >= _LEAST_CUDA for release in releases)
    return (True, "") if is_new else (False, f"needs CUDA {_LEAST_CUDA}")


def _links(library: str, around: Surrounding) -> tuple[bool | None, str]:
    """Whether a program links with a library, by the folders in which a linker looks for it."""
    if library == "cufile" and around.torch is not None and around.torch.rocm is not None:
        return False, "not for ROCm"
    if library == "cufile" and around.toolkit is None:
        return False, "there is no CUDA toolkit"
    if around.tools.compiler is None:
        return False, "there is no C++ compiler"
    homes = [around.toolkit.home] if around.toolkit is not None and library == "cufile" else []
    folders = [*_library_folders(), *(os.path.join(home, part) for home in homes for part in ("", "lib64"))]
    if any(os.path.exists(os.path.join(folder, f"lib{library}{end}")) for folder in folders for end in (".so", ".a")):
        return True, ""
    is_of_system = os.path.dirname(around.tools.compiler) in ("/usr/bin", "/bin", "/usr/local/bin")
    why = f"lib{library}.so is not in a folder of the linker"
    return (False, why) if is_of_system else (None, f"{why} that is known")


def _library_folders() -> Iterator[str]:
    for variable in ("LDFLAGS", "CFLAGS"):
        yield from (flag[2:] for flag in os.environ.get(variable, "").split() if flag.startswith("-L"))
    yield from filter(None, os.environ.get("LIBRARY_PATH", "").split(os.pathsep))
    if prefix := os.environ.get("CONDA_PREFIX"):
        yield os.path.join(prefix, "lib")
    machine = sysconfig.get_config_var("MULTIARCH")
    yield from (os.path.join(folder, machine) for folder in ("/usr/lib", "/lib") if isinstance(machine, str))
    yield from _SYSTEM


def _compilation(package: str, around: Surrounding, accelerator: str | None) -> str | None:
    """What becomes of an op that is compiled when it is needed; None if nothing is known to be in the way."""
    if around.torch is None:
        return None
    if around.tools.compiler is None:
        return "no op can be compiled: there is no C++ compiler"
    if around.tools.ninja is None:
        return "no op can be compiled: there is no ninja on PATH"
    if accelerator != "cuda" or around.torch.cuda is None:
        return None
    toolkit = around.toolkit
    if toolkit is None or not toolkit.has_compiler:
        return "ops are compiled for the CPU: there is no CUDA toolkit with nvcc"
    ours, theirs = _numbers(toolkit.release), _numbers(around.torch.cuda)
    if ours is None or theirs is None or ours == theirs:
        return None
    beside = f"CUDA toolkit {_dotted(ours)} beside torch with CUDA {_dotted(theirs)}"
    allowed = assignments(os.path.join(package, _BUILDERS, "builder.py")).get("cuda_minor_mismatch_ok")
    joined = allowed.get(ours[0], ()) if isinstance(allowed, dict) else ()
    if _dotted(ours) in joined and _dotted(theirs) in joined:
        return f"{beside} is accepted"
    if os.environ.get("DS_SKIP_CUDA_CHECK", "0") == "1":
        return f"{beside} is accepted because of DS_SKIP_CUDA_CHECK=1"
    return f"DeepSpeed refuses to compile ops: {beside}"


def _numbers(release: str | None) -> tuple[int, int] | None:
    found = re.match(r"(\d+)\.(\d+)", release or "")
    return (int(found[1]), int(found[2])) if found is not None else None


def _dotted(numbers: tuple[int, int]) -> str:
    return ".".join(map(str, numbers))
