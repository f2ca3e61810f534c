"""Which files of a project may launch training, and the launches in each."""

from __future__ import annotations

import posixpath
import re
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ds_lint.launches.scripts import Launches
    from ds_lint.launches.start import ReadFile

DOCUMENTATION = (".md", ".markdown", ".rst")
FILES_OF_TASKS = ("package.json", "pyproject.toml", "pixi.toml", ".justfile")
ENDINGS = (".sh", ".bash", ".sbatch", ".slurm", ".job", ".mk", ".py", ".ipynb", ".yml", ".yaml", ".dockerfile")
SHELL = (".sh", ".bash", ".sbatch", ".slurm", ".job")
_MAKEFILES = ("makefile", "gnumakefile")
_TASKS = (*FILES_OF_TASKS, "justfile", "procfile")
_DOCKERFILES = ("dockerfile", "containerfile")
_STARTING = (b"subprocess", b"os.system", b"os.popen", b"os.exec")  # what a module starts programs with
# YAML that holds commands: of GitLab, Task and DVC by name, of Kubernetes, Compose, Azure ML and SkyPilot by keys.
_MANIFESTS = (".gitlab-ci.yml", "taskfile.yml", "taskfile.yaml", "dvc.yaml")
_KEYS_OF_MANIFESTS = re.compile(rb"^(?:apiVersion|services)[ \t]*:|^\$schema[ \t]*:.*azureml", re.MULTILINE)
_KEYS_OF_SKYPILOT = tuple(
    re.compile(rb"^(?:" + keys + rb")[ \t]*:", re.MULTILINE) for keys in (b"run", b"resources|num_nodes|setup")
)
_SHEBANG = re.compile(rb"#!.*\b(?:bash|sh|zsh)\b")


def kind_of(path: str, data: bytes) -> str | None:
    """What a file is that can launch something: by its name, or by the first line of a script without an ending."""
    name = posixpath.basename(path.replace("\\", "/")).lower()
    stem, ending = posixpath.splitext(name)
    if ending in SHELL or (not ending and _SHEBANG.match(data)):
        return "shell"
    if name in _TASKS:
        return "tasks" if b"tasks" in data or not name.endswith(".toml") else None
    if name in _MAKEFILES or ending == ".mk":
        return "makefile"
    if stem in _DOCKERFILES or ending == ".dockerfile":
        return "dockerfile"
    if ending == ".py":
        return "python" if any(one in data for one in _STARTING) else None
    if ending in (".yml", ".yaml"):
        if b"jobs" in data and re.search(rb"^jobs[ \t]*:", data, re.MULTILINE):
            return "workflow"
        is_task = all(key.search(data) for key in _KEYS_OF_SKYPILOT)
        return "manifest" if is_task or name.endswith(_MANIFESTS) or _KEYS_OF_MANIFESTS.search(data) else None
    if ending in DOCUMENTATION:
        return "markdown"
    return "notebook" if ending == ".ipynb" else None


def launches(text: str, path: str, kind: str, read: ReadFile) -> Launches:
    """The launches of a file of this kind: by ``launches`` of the module with its name."""
    if kind == "shell":
        from ds_lint.launches.scripts import launches_in

        return launches_in(text, path, read)
    found: Launches = import_module(f"ds_lint.launches.{kind}").launches(text, path, read)
    return found
