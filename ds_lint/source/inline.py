"""DeepSpeed configs that are mappings inside of other files: of YAML, JSON or TOML, at any depth.

What a mapping holds decides: sections of DeepSpeed with keys that such a section has. The name of the mapping, such as
``deepspeed``, shows nothing by itself, because many tools have settings of their own under it. The file does not show
who reads it, so a config is a fragment that may have keys of its reader.

Instances that Hydra and Lightning's command line make count as calls: ``_target_: ...DeepSpeedStrategy`` with keywords.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ds_lint.source.document import Document
from ds_lint.source.recognition import LONGEST_RECIPE, is_zero, known_keys
from ds_lint.source.tree import Member, Node

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.source.document import Kind
    from ds_lint.source.tree import KeyPath, Span

# What other programs replace before they hand the config on: OmegaConf, Jinja, shells, and people.
INTERPOLATION = re.compile(r"\$\{|\{\{|\$\w|<[A-Za-z_]+>|^\?\?\?$|^@\w")
# What OmegaConf and YAML 1.2 read as a number, and PyYAML as a string.
_NUMBER = re.compile(r"[-+]?(?:\d[\d_]*\.?[\d_]*|\.[\d_]+)[eE][-+]?\d+")
_NAMED = re.compile(r"deepspeed|(?:^|_)ds_?(?:config|cfg|params|args)?$|ds_config", re.IGNORECASE)
OF_HYDRA = frozenset({"_args_", "_convert_", "_partial_", "_recursive_", "_target_", "defaults", "hydra"})
MOST_MEMBERS = 60  # of a mapping that is a config; the arguments of GPT-NeoX are more

# Keys of sections by which these are known, beside ``stage``: of any section ``enabled``.
_OF_ZERO = re.compile(
    r"stage\Z|stage3_|offload_(?:opti|param)|overlap_comm|contiguous_gradients|reduce_(?:scatter|bucket)|allgather_"
    r"|round_robin_gradients|sub_group_size|cpu_offload|zero_(?:hpz|quant)|ignore_unused_param|elastic_checkpoint"
)
_SWITCHED = ("fp16", "bf16", "bfloat16", "flops_profiler", "comms_logger", "tensorboard")


class _Maker(NamedTuple):
    """A class that makes a config of its keywords, or takes one as ``given``, and the stack that loads it."""

    kind: Kind | None
    given: str
    stack: str
    fills_in: bool = False


_MAKERS: tuple[tuple[re.Pattern[str], _Maker], ...] = (
    (
        re.compile(r"(?:(?:lightning\.pytorch|pytorch_lightning)\.strategies\.(?:deepspeed\.)?)?DeepSpeedStrategy"),
        _Maker("DeepSpeedStrategy", "config", "deepspeed", fills_in=True),
    ),
    (
        re.compile(r"accelerate\.(?:utils\.(?:dataclasses\.)?)?DeepSpeedPlugin"),
        _Maker("DeepSpeedPlugin", "hf_ds_config", "accelerate"),
    ),
    (re.compile(r"(?:transformers|trl)\.[\w.]*(?:Arguments|Config)"), _Maker(None, "deepspeed", "trainer")),
    (re.compile(r"deepspeed\.(?:runtime\.engine\.)?initialize"), _Maker(None, "config", "deepspeed")),
)
_CLASS, _KEYWORDS = "class_path", "init_args"  # of Lightning's command line


class _Mapping(NamedTuple):
    path: KeyPath
    node: Node


def configs(file: Document, comments: list[Span] | None = None) -> list[Document]:
    """The configs inside of a file that is none itself, in its order."""
    found = list(_found(file)) if file.root is not None and not file.issues else []
    for index, document in enumerate(found):
        document.index, document.comments = index, comments
    return found


def _found(file: Document) -> Iterator[Document]:
    assert file.root is not None  # noqa: S101 - see ``configs``
    pending = [_Mapping((), file.root)]
    seen: set[int] = set()  # a YAML may have the same mapping at several places
    while pending:
        place = pending.pop()
        path, node = place
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node.kind == "array":
            pending += [_Mapping((*path, str(at)), item) for at, item in reversed([*enumerate(node.items)])]
            continue
        if node.kind != "object":
            continue
        made = _made(file, place)
        if made is not None:
            yield made
            continue
        if is_config(node, path[-1] if path else ""):
            yield _document(file, place)
            continue
        pending += [_Mapping((*path, one.key), one.value) for one in reversed(node.members)]


def is_config(node: Node, name: str = "") -> bool:
    """Whether a mapping of this name is a DeepSpeed config by what it holds."""
    members = [one for one in node.members if one.key not in OF_HYDRA and not one.key.startswith("_")]
    if not members or len(members) > MOST_MEMBERS:
        return False
    has_zero = any(is_zero(one.key) and _is_zero_section(one.value) for one in members)
    known = set(known_keys(node))
    known.update(one.key for one in members if is_zero(one.key) and one.value.kind == "object")
    is_named = _NAMED.search(name) is not None
    if len(known) * (4 if is_named else 2) < len(members):
        return False
    if has_zero:
        return True
    return is_named and len(known) > 1 and any(one.key in _SWITCHED and _is_switched(one.value) for one in members)


def _is_zero_section(node: Node) -> bool:
    """Whether a mapping is the settings of ZeRO, and not a table of their types or of values to choose from."""
    if node.kind != "object":
        return False
    telling = [one for one in node.members if _OF_ZERO.match(one.key)]
    is_list = any(one.value.kind == "array" and one.key in ("stage", *_BUCKETS) for one in node.members)
    stage = node.get("stage")
    is_table = stage is not None and stage.kind not in ("integer", "string", "float", "null")
    return bool(telling) and not is_list and not is_table


_BUCKETS = ("allgather_bucket_size", "reduce_bucket_size")


def _is_switched(node: Node) -> bool:
    enabled = node.get("enabled") if node.kind == "object" else None
    return enabled is not None and enabled.kind in ("boolean", "string")


def _made(file: Document, place: _Mapping) -> Document | None:
    """What a mapping that stands for an instance makes: by ``_target_``, or by ``class_path``."""
    path, node = place
    for name, keywords in (("_target_", node), (_CLASS, node.get(_KEYWORDS))):
        target = node.get(name)
        if target is None or target.kind != "string" or keywords is None or keywords.kind != "object":
            continue
        maker = next((one for pattern, one in _MAKERS if pattern.fullmatch(str(target.value))), None)
        if maker is None:
            continue
        inside = (*path, _KEYWORDS) if name == _CLASS else path
        given = keywords.get(maker.given)
        if given is not None and given.kind == "object":
            document = _document(file, _Mapping((*inside, maker.given), given))
            document.stack, document.is_fragment = maker.stack, maker.fills_in or maker.kind is None
            document.may_have_own_keys = False
            return document if is_config(given, "deepspeed") else None
        if maker.kind is None or (given is not None and given.kind != "null"):
            return None
        document = _document(file, _Mapping(inside, keywords), kind=maker.kind)
        document.stack, document.is_fragment, document.may_have_own_keys = maker.stack, False, False
        return document
    return None


def _document(file: Document, place: _Mapping, kind: Kind = "deepspeed") -> Document:
    document = Document(file.path, file.text, as_handed_on(place.node), [])
    document.language = file.language
    document.kind = kind
    document.keys_above = place.path
    document.is_dict = document.is_fragment = document.may_have_own_keys = True
    return document


def as_handed_on(node: Node) -> Node:
    """A mapping with what its reader may make of it: interpolations are not known, and ``1e-5`` is a number."""
    if node.kind == "object":
        members = [
            Member(one.key, one.key_span, as_handed_on(one.value)) for one in node.members if one.key not in OF_HYDRA
        ]
        return Node("object", node.span, None, members)
    if node.kind == "array":
        return Node("array", node.span, None, None, [as_handed_on(one) for one in node.items])
    if node.kind != "string" or not isinstance(node.value, str):
        return node
    if INTERPOLATION.search(node.value):
        return Node("template", node.span, node.value)
    if _NUMBER.fullmatch(node.value):
        return Node("float", node.span, float(node.value.replace("_", "")))
    return node


def is_meant_as_part(found: list[Document]) -> bool:
    """Whether these configs of a file that is named are parts of it, or of a config that Hydra composes.

    Else the file as a whole is a config in YAML, which no library reads.
    """
    first = found[0]
    if first.keys_above:
        return True
    return "@package" in first.text or _is_in_group(first.path)


def _is_in_group(path: str) -> bool:
    """Whether the folder of a file is a group of configs of Hydra: one of the files above has a list of defaults."""
    import os

    folder = os.path.dirname(os.path.abspath(path))
    for _ in range(2):
        folder = os.path.dirname(folder)
        try:
            names = sorted(one for one in os.listdir(folder) if one.endswith((".yaml", ".yml")))[:50]
        except OSError:
            return False
        for name in names:
            try:
                with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                    text = file.read(LONGEST_RECIPE)
            except OSError:
                continue
            if re.search(r"^defaults[ \t]*:[ \t]*(?:#.*)?$", text, re.MULTILINE):
                return True
    return False
