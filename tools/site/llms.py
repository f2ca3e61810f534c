"""The list of pages that programs read: https://llmstxt.org/."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ds_lint.addresses import DISTRIBUTION
from tools.site import front_matter

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "llms.txt"
_ABOVE = f"""\
# {{site_name}}

> {{site_description}}

One command checks the configs of a repository, and prints one JSON object with the findings and their fixes:
`ds-lint check --output-format json`. Without an installation: `uvx {DISTRIBUTION} check --output-format json`.
`ds-lint explain` explains a rule, a key or the text of an exception; `ds-lint doctor` names what failed in a log.
"""
_BY_INDEX = ("Advisories", "Keys")  # hundreds of pages, which the first one lists


def text(settings: dict[str, Any], nav: list[Any], pages: dict[str, str]) -> str:
    """A section for each tab of the site, with a line for each of its pages."""
    names = ("site_name", "site_description")
    parts = [_ABOVE.format(**{name: settings[name] for name in names})]
    for item in nav:
        ((title, below),) = item.items()
        listed = list(_pages(below))[: 1 if title in _BY_INDEX else None]
        lines = "".join(_line(page, pages[page], settings["site_url"]) for page in listed)
        parts.append(f"\n## {title}\n\n{lines}")
    return "".join(parts)


def _pages(below: Any) -> Iterator[str]:
    if isinstance(below, str):
        yield below
        return
    for item in below:
        yield from _pages(next(iter(item.values())) if isinstance(item, dict) else item)


def _line(page: str, text: str, site: str) -> str:
    above, text = front_matter.parted(text)
    title = next(line.removeprefix("# ") for line in text.splitlines() if line.startswith("# "))
    about = above.get("description") or front_matter.description(text)
    address = page.removesuffix(".md").removesuffix("index")
    return f"- [{title}]({site}{address.rstrip('/') + '/' if address else ''}){f': {about}' if about else ''}\n"
