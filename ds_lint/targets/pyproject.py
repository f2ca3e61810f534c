"""``pyproject.toml``: the standard tables, and those of uv, Poetry, PDM and Hatch."""

from __future__ import annotations

from ds_lint.targets import requirement, toml
from ds_lint.targets.pin import PinPlace, Requirement, library_called
from ds_lint.targets.text import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ds_lint.targets.toml import Table


def requirements(text: str, path: str) -> Iterator[Requirement]:
    """The requirements of a project; those of extras and groups are conditional."""
    try:
        whole = toml.loads(text)
    except (ValueError, RecursionError):
        return
    path = shown(path)
    yield from _uv(_table(whole, "tool", "uv"), path)
    yield from _standard(whole, path)
    yield from _poetry(_table(whole, "tool", "poetry"), path)
    yield from _groups(_table(whole, "tool", "pdm", "dev-dependencies"), path, "[tool.pdm.dev-dependencies]")
    environments = _table(whole, "tool", "hatch", "envs")
    for name in environments:
        place = PinPlace(path, within=f"[tool.hatch.envs.{name}]")
        for key in ("dependencies", "extra-dependencies"):
            required = _table(environments, name).get(key)
            yield from _listed(required, place, is_conditional=True)


def _standard(whole: Table, path: str) -> Iterator[Requirement]:
    project = _table(whole, "project")
    yield from _listed(project.get("dependencies"), PinPlace(path, within="[project]"))
    yield from _groups(_table(project, "optional-dependencies"), path, "[project.optional-dependencies]")
    yield from _groups(_table(whole, "dependency-groups"), path, "[dependency-groups]")


def _uv(settings: Table, path: str) -> Iterator[Requirement]:
    """The settings of uv beside the requirements. Overrides come first: they replace any other."""
    place = PinPlace(path, within="[tool.uv]")
    yield from _listed(settings.get("override-dependencies"), place)
    yield from _listed(settings.get("constraint-dependencies"), place)
    for name, value in _table(settings, "sources").items():
        library = library_called(name)
        origins: list[Any] = value if isinstance(value, list) else [value]
        for origin in origins:
            if library and (tagged := _tagged(origin)):
                depends = any(key in origin for key in ("marker", "extra", "group"))
                at = PinPlace(path, within="[tool.uv.sources]")
                yield Requirement(library, tagged, at, is_conditional=depends)
    yield from _listed(settings.get("dev-dependencies"), place, is_conditional=True)


def _poetry(settings: Table, path: str) -> Iterator[Requirement]:
    place = PinPlace(path, within="[tool.poetry.dependencies]")
    yield from _by_name(_table(settings, "dependencies"), place, is_conditional=False)
    place = PinPlace(path, within="[tool.poetry.dev-dependencies]")
    yield from _by_name(_table(settings, "dev-dependencies"), place, is_conditional=True)
    groups = _table(settings, "group")
    for name in groups:
        place = PinPlace(path, within=f"[tool.poetry.group.{name}.dependencies]")
        yield from _by_name(_table(groups, name, "dependencies"), place, is_conditional=True)


def _by_name(dependencies: Table, place: PinPlace, *, is_conditional: bool) -> Iterator[Requirement]:
    """The requirements of a table of Poetry's, whose values are versions, tables, or lists of tables."""
    from ds_lint.targets import poetry

    for name, value in dependencies.items():
        library = library_called(name)
        if library is None:
            continue
        alternatives = value if isinstance(value, list) else [value]
        for each in alternatives:
            stated = each if isinstance(each, dict) else {"version": each}
            version = stated.get("version")
            found = _tagged(stated) or (poetry.specifier(version) if isinstance(version, str) else None)
            if found:
                depends = any(stated.get(key) for key in ("optional", "markers", "python", "platform"))
                yield Requirement(library, found, place, is_conditional=is_conditional or depends)


def _tagged(origin: object) -> str | None:
    """The specifier of the release whose tag is given; uv and Poetry also take a tag for a ``rev``."""
    if not isinstance(origin, dict) or not isinstance(origin.get("git"), str):
        return None
    release = requirement.release_of_tag(str(origin.get("tag") or origin.get("rev") or ""))
    return f"=={release}" if release else None


def _groups(groups: Table, path: str, within: str) -> Iterator[Requirement]:
    for name, requirements in groups.items():
        yield from _listed(requirements, PinPlace(path, within=f"{within} {name}"), is_conditional=True)


def _listed(requirements: object, place: PinPlace, *, is_conditional: bool = False) -> Iterator[Requirement]:
    """The requirements of a list of strings; dependency groups have tables in it, which include other groups."""
    for text in requirements if isinstance(requirements, list) else ():
        found = requirement.parse(text, place, is_conditional=is_conditional) if isinstance(text, str) else None
        if found:
            yield found


def _table(table: Table, *path: str) -> Table:
    """The table at a path, empty if there is something else."""
    for key in path:
        inner = table.get(key)
        table = inner if isinstance(inner, dict) else {}
    return table
