"""The sources of the site, complete: what a generator builds without running any code of this repository.

Each language is a site of its own, so that its navigation, its search and the words around its pages are in it::

    mkdocs.yml     docs/     overrides/     English
    zh/mkdocs.yml  zh/docs/  zh/overrides/  Chinese
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from ds_lint.knowledge.keys import Knowledge
from ds_lint.linter.engine import every_rule
from ds_lint.rule_pages.languages import LANGUAGES
from tools import documents
from tools.documents import ROOT
from tools.site import (
    addresses,
    advisories,
    benchmarks,
    command_line,
    front_matter,
    keys,
    llms,
    navigation,
    raised,
    rules,
    schemas,
    symptoms,
    translated,
)
from tools.site.words import WORDS

if TYPE_CHECKING:
    from collections.abc import Iterator

SETTINGS = "mkdocs.yml"
DOCS, BUILT = "docs", "site"  # in the folder of the sources
OVERRIDES = Path(__file__).parent / "overrides"  # templates of the theme
APPENDED = {"command-line.md": command_line.options, "settings.md": schemas.settings}  # to pages in docs/
# What a search shows first; there are many advisories, and each has the words of many symptoms.
BOOSTS = {"symptoms/": 4, "symptoms.md": 2, "keys/": 2.5, "advisories/": 0.25, "raises/": 0.25, "dev/": 0.25}
REDIRECT = """\
<!doctype html>
<title>{address}</title>
<meta http-equiv="refresh" content="0; url={address}">
<link rel="canonical" href="{address}">
<a href="{address}">{address}</a>
"""


def write(folder: Path) -> None:
    """Write the sources of every language; files that are the same already are not touched, others are removed."""
    pages = dict(_pages())
    settings = yaml.safe_load((ROOT / SETTINGS).read_text(encoding="utf-8"))
    nav = navigation.filled(settings["nav"])
    files: dict[Path, bytes] = {}
    for language in translated.NAMES:
        place = Path() if language == "en" else Path(language)
        own = nav if language == "en" else navigation.of_language(nav, language, pages)
        files[place / SETTINGS] = _settings(settings, language, own).encode()
        for name, data in _files(language, pages):
            files[place / DOCS / name] = data
        if language == "en":
            files[place / DOCS / llms.NAME] = llms.text(settings, nav, pages).encode()
        for path in OVERRIDES.rglob("*.html"):
            files[place / "overrides" / path.relative_to(OVERRIDES)] = path.read_bytes()
    for path, data in files.items():
        _write(folder / path, data)
    for place in (folder, *(folder / language for language in LANGUAGES)):
        for path in (place / DOCS).rglob("*"):
            if path.is_file() and path.relative_to(folder) not in files:
                path.unlink()


def _write(path: Path, data: bytes) -> None:
    if not path.is_file() or path.read_bytes() != data:  # a generator that watches sees only what changed
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def _files(language: str, pages: dict[str, str]) -> Iterator[tuple[str, bytes]]:
    """What the site of a language is built from: pages, pictures, and what is served as it is."""
    for page, text in pages.items():
        if addresses.language_of(page) == language:
            yield addresses.within(page), _complete(page, text, pages).encode()
    for name, text in _served(pages):
        if addresses.language_of(name) == language:
            yield addresses.within(name), text.encode()
    for shared in addresses.SHARED:
        for path in (ROOT / DOCS / shared).iterdir():
            yield f"{shared}{path.name}", path.read_bytes()


def _complete(page: str, text: str, pages: dict[str, str]) -> str:
    """A page with what it says of itself."""
    above, text = front_matter.parted(text)
    above.setdefault("description", front_matter.description(text))
    others = translated.counterparts(page, pages)
    above["languages"] = {code: addresses.leading(page, other) for code, other in others.items()}
    if boost := next((boost for folder, boost in BOOSTS.items() if page.startswith(folder)), None):
        above["search"] = {"boost": boost}
    is_rule = addresses.within(page).startswith("rules/")
    if is_rule:
        text = rules.with_languages(text, translated.elsewhere(page, pages))
    return front_matter.joined(above, text)


def _pages() -> Iterator[tuple[str, str]]:
    """Every page, with its text."""
    for path in sorted((ROOT / DOCS).rglob("*.md")):
        page = path.relative_to(ROOT / DOCS).as_posix()
        if addresses.language_of(page) == "en":
            yield page, _document(page, path.read_text(encoding="utf-8"))
    yield rules.INDEX, rules.index()
    for rule in every_rule():
        text = addresses.relinked(rules.page(rule), rules.path(rule), rules.path(rule))
        yield rules.path(rule), text + raised.section(rule)
    for language in LANGUAGES:
        yield from translated.every_page(language, every_rule())
    yield from advisories.every_page()
    knowledge = Knowledge()
    yield keys.INDEX, keys.index(knowledge)
    for section in keys.sections():
        yield f"keys/{section}.md", keys.page(section, knowledge)
    yield f"keys/{keys.REMOVED}.md", keys.removed(knowledge)
    yield symptoms.PAGE, symptoms.text()
    yield "report.md", schemas.report()
    yield "benchmarks.md", benchmarks.page()
    for source in ("CHANGELOG.md", "CONTRIBUTING.md"):
        page = addresses.place(source) or source
        yield page, addresses.relinked((ROOT / source).read_text(encoding="utf-8"), source, page)


def _served(pages: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Every file that is not a page, with its text."""
    for name, address in (rules.redirects(every_rule()) | translated.redirects(every_rule(), pages)).items():
        yield name, REDIRECT.format(address=address)
    yield from advisories.every_export()
    for schema in schemas.published():
        yield schema, (ROOT / schema).read_text(encoding="utf-8")


def _document(page: str, text: str) -> str:
    """What lies in docs/ is read in the repository too: its links lead there, and its blocks say how they are run."""
    text = addresses.relinked(documents.without_words(text), f"{DOCS}/{page}", page)
    return f"{text}\n{APPENDED[page]()}" if page in APPENDED else text


def _settings(settings: dict[str, Any], language: str, nav: list[Any]) -> str:
    """The settings file of a language."""
    own = {**settings, "docs_dir": DOCS, "site_dir": BUILT, "nav": nav}
    own["theme"] = {**settings["theme"], "custom_dir": "overrides"}
    if language != "en":
        own = _in_words(own, WORDS[language])
        own["site_url"] = f"{settings['site_url']}{language}/"
        own["theme"]["language"] = language
        alternate = own["extra"]["alternate"]
        own["extra"]["alternate"] = [each | {"link": f"../{each['link']}"} for each in alternate]
    for plugin in own["plugins"]:
        plugin["search"]["lang"] = list(dict.fromkeys(("en", language)))
    return yaml.safe_dump(own, allow_unicode=True, sort_keys=False)


def _in_words(value: Any, words: dict[str, str]) -> Any:
    """The settings, with the texts that a reader sees in another language."""
    if isinstance(value, dict):
        return {key: _in_words(below, words) if key not in _NAMES else below for key, below in value.items()}
    if isinstance(value, list):
        return [_in_words(below, words) for below in value]
    return words.get(value, value) if isinstance(value, str) else value


_NAMES = ("nav", "site_name")
