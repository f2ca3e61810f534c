"""Links into the playground: the files and the options of an example, in the part of the address that is never sent."""

from __future__ import annotations

import base64
import json
import posixpath
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.facts import Sources
from ds_lint.rule_pages import pages
from ds_lint.targets.pin import LIBRARIES
from tools import rule_pages

if TYPE_CHECKING:
    from ds_lint.diagnostics.rule import Rule
    from ds_lint.rule_pages.pages import Example

VERSION = 1  # of what a link carries; page/link.js reads it
_NAMES = {
    "json": rule_pages.NAME,
    "yaml": rule_pages.YAML_NAME,
    "python": rule_pages.PYTHON_NAME,
    "bash": rule_pages.SHELL_NAME,
}
MODEL = "model"  # the folder of the model
_DEEP = "[" * 1000  # for which browsers have no stack


class Shown(NamedTuple):
    """What the playground shows: texts by the names of their files, and values of options by their names."""

    files: dict[str, str]
    options: dict[str, str]


def of_page(text: str, rule: Rule, page: str) -> dict[int, str]:
    """What leads to the playground from each example on a page of the site, by the line of the example."""
    up = "../" * (page.count("/") + 1)  # from the address of the page, which ends with a slash
    shown = {example.line: of_example(example, rule) for example in pages.examples(text)}
    return {
        line: f'<p class="playground"><a href="{up}playground/#{fragment(one)}">Open in the playground</a></p>\n'
        for line, one in shown.items()
        if one is not None
    }


def of_example(example: Example, rule: Rule) -> Shown | None:
    """An example of the page of a rule; None if the playground cannot show it: it has neither torch nor checkpoints."""
    is_beyond = example.is_run or example.policy or example.checkpoint or example.before or _DEEP in example.config
    if is_beyond or example.encoding != "utf-8" or example.facts.async_io is False:
        return None
    files = {_name(example): example.config, **example.files}
    options: dict[str, str] = {}
    if example.stack is not None:
        options["stack"] = example.stack
    for library in LIBRARIES:
        if (release := getattr(example.target, library)) is not None:
            options[f"{library}-version"] = release
    for fact in Sources.options():
        if (value := getattr(example.facts, fact.name)) is not None:
            options[fact.dashed] = str(value)
    if "model" in options:
        beside = sorted(Path(options["model"]).iterdir())
        if any(one.suffix != ".json" for one in beside):  # weights, which are not text
            return None
        files |= {f"{MODEL}/{one.name}": one.read_text(encoding="utf-8") for one in beside}
        options["model"] = MODEL
    if not rule.is_on:
        options["extend-select"] = rule.code
        if rule.preview:
            options["preview"] = "true"
    return Shown(files, options)


def fragment(shown: Shown) -> str:
    """What follows the ``#`` of the playground's address."""
    content = json.dumps({"files": shown.files, "options": shown.options}, ensure_ascii=False, separators=(",", ":"))
    compress = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)
    packed = compress.compress(content.encode()) + compress.flush()
    return f"{VERSION}.{base64.urlsafe_b64encode(packed).decode().rstrip('=')}"


def _name(example: Example) -> str:
    """The name of the config: the one that the launch beside it gives it, if there is one."""
    if example.language == "yaml" and any("hydra" in text for text in example.files.values()):
        return posixpath.basename(rule_pages.HYDRA_NAME)
    launch = rule_pages.launch_of(example)
    named: list[str] = []
    if launch is not None and example.language == "json":
        named = launch.named_configs
    elif launch is not None and example.language == "yaml":
        named = [launch.launch.accelerate_config or ""]
    return next((name for name in named if name and name not in example.files), _NAMES[example.language])
