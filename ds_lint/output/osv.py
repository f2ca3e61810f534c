"""Advisories in the form of OSV, the Open Source Vulnerability format, for tools that read it."""

from __future__ import annotations

from ds_lint.addresses import SITE
from ds_lint.knowledge.advisory_words import help_of, title

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.knowledge.records import AdvisoryRecord, AffectedReleases

    Json = dict[str, object]

SCHEMA = "1.7.0"  # the release of the format that the fields follow


def as_object(record: AdvisoryRecord) -> Json:
    """One advisory. A defect of several libraries together names the first of them as the affected package.

    The others, and the condition under which a config reaches the defect, are in ``database_specific``: OSV has no
    words for either.
    """
    (library, stretches), *others = record["libraries"].items()
    dated = f"{record['dated']}T00:00:00Z"
    return {
        "schema_version": SCHEMA,
        "id": record["id"],
        "published": dated,
        "modified": dated,
        "summary": title(record),
        "details": help_of(record),
        "affected": [
            {
                "package": {"ecosystem": "PyPI", "name": library, "purl": f"pkg:pypi/{library}"},
                "ranges": [{"type": "ECOSYSTEM", "events": _events(stretches)}],
            }
        ],
        "references": [
            {"type": "ADVISORY", "url": f"{SITE}advisories/{record['id']}/"},
            *({"type": _type(url), "url": url} for url in record["references"]),
        ],
        "database_specific": {
            "kind": record["kind"],
            "effect": record["effect"],
            "severity": record["severity"],
            "when": record["when"],
            "proof": record["proof"]["kind"],
            **({"stacks": record["stacks"]} if "stacks" in record else {}),
            **({"together_with": {name: _events(found) for name, found in others}} if others else {}),
        },
    }


def _events(stretches: list[AffectedReleases]) -> list[dict[str, str]]:
    """The releases between which the defect is there; "0" stands for the first of all."""
    events = []
    for one in stretches:
        events.append({"introduced": one["introduced"] or "0"})
        if one["fixed"] is not None:
            events.append({"fixed": one["fixed"]})
    return events


def _type(url: str) -> str:
    return "FIX" if "/pull/" in url or "/commit/" in url else "REPORT" if "/issues/" in url else "WEB"
