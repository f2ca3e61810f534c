"""An advisory in words, the same in findings, lists, pages and exports."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.knowledge.records import AdvisoryRecord, AffectedReleases

_NAMES = {"deepspeed": "DeepSpeed", "lightning": "Lightning", "torch": "PyTorch", "numpy": "NumPy"}  # in prose


def title(record: AdvisoryRecord) -> str:
    """What is wrong with which library, as a sentence without its full stop."""
    return f"{' with '.join(map(in_prose, record['libraries']))} {record['summary']}"


def affected(record: AdvisoryRecord) -> str:
    """The releases with the defect, in words."""
    each = (f"{in_prose(library)} {_stretches(found)}" for library, found in record["libraries"].items())
    return " with ".join(each)


def in_prose(library: str) -> str:
    """A library as one writes it in a sentence."""
    return _NAMES.get(library, library)


def help_of(record: AdvisoryRecord) -> str:
    """What to write instead, as a sentence, and what goes wrong."""
    return f"{ways(record)} {record['description']}".strip()


def ways(record: AdvisoryRecord) -> str:
    """What to write instead, as a sentence; empty if nothing helps."""
    text = ", or ".join(way for way in (_upgrade(record), record["advice"]) if way)
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _upgrade(record: AdvisoryRecord) -> str:
    """The first releases without the defect; empty if there is none."""
    found = [(library, stretches[-1]["fixed"]) for library, stretches in record["libraries"].items()]
    ways = [f"{in_prose(library)} {fixed}" for library, fixed in found if fixed is not None]
    return f"upgrade to {' or '.join(ways)}" if ways else ""


def _stretches(found: list[AffectedReleases]) -> str:
    joined: list[tuple[str | None, str | None]] = []  # stretches that a change of the code parts, and no release
    for one in found:
        follows = bool(joined) and joined[-1][1] is not None and joined[-1][1] == one["introduced"]
        joined.append((joined.pop()[0] if follows else one["introduced"], one["fixed"]))
    words = []
    for since, fixed in joined:
        if since is None:
            words.append("(every release)" if fixed is None else f"before {fixed}")
        else:
            words.append(f"{since} {'and newer' if fixed is None else f'to before {fixed}'}")
    return " and ".join(words)
