"""The site as readers get it: every link leads somewhere, every page is found, nothing comes from elsewhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest

from ds_lint.diagnostics.report import DOCUMENTATION, page_url
from ds_lint.knowledge import resources
from ds_lint.linter.engine import every_rule
from ds_lint.rule_pages import translations
from ds_lint.rule_pages.languages import LANGUAGES

pytest.importorskip("material", reason="requirements/docs.txt is not installed")

ROOT = Path(__file__).parent.parent
VOID = {"area", "base", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"}
LOADED = {"script": "src", "img": "src", "source": "src", "iframe": "src", "use": "href"}
SOURCES = "https://github.com/ds-lint/ds-lint/blob/main/"


class Document(HTMLParser):
    """The links, the anchors, what is loaded, and the tags that do not close one another, of a page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors, self.loaded, self.unbalanced, self.navigation = [], [], [], [], []
        self._open = []
        self.feed(text)
        self.close()
        self.unbalanced += self._open

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if "id" in given:
            self.anchors.append(given["id"])
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
            if "md-nav__link" in (given.get("class") or ""):
                self.navigation.append(given["href"])
        if tag in LOADED and given.get(LOADED[tag]):
            self.loaded.append(given[LOADED[tag]])
        if tag == "link" and given.get("rel") in ("stylesheet", "icon", "preload", "preconnect"):
            self.loaded.append(given["href"])
        if tag not in VOID and not self._in_svg():
            self._open.append(tag)

    def handle_endtag(self, tag):
        if tag == "svg" or not self._in_svg():
            if self._open and self._open[-1] == tag:
                self._open.pop()
            elif tag not in VOID:
                self.unbalanced.append(f"/{tag}")

    def _in_svg(self):
        return "svg" in self._open


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return folder


@pytest.fixture(scope="module")
def html(site):
    """Every page by its address on the site."""
    return {
        f"{path.relative_to(site).as_posix()}".removesuffix("index.html"): Document(path.read_text(encoding="utf-8"))
        for path in sorted(site.rglob("*.html"))
        if path.name != "404.html"
    }


def test_links_lead_to_pages_and_anchors(site, html):
    dead = []
    for address, document in html.items():
        for link in document.links:
            target = urlsplit(urljoin(DOCUMENTATION + address, link))
            where = unquote(f"{target.scheme}://{target.netloc}{target.path}")
            if not where.startswith(DOCUMENTATION):
                continue
            place = where.removeprefix(DOCUMENTATION)
            if place in html:
                found = not target.fragment or unquote(target.fragment) in ("__skip", *html[place].anchors)
            else:
                found = (site / place).is_file()
            if not found:
                dead.append((address, link))
    assert dead == []


def test_links_into_the_repository_lead_to_files(html):
    linked = {
        link.partition("#")[0] for document in html.values() for link in document.links if link.startswith(SOURCES)
    }
    assert [link for link in linked if not (ROOT / link.removeprefix(SOURCES)).exists()] == []


def test_every_page_is_reached_by_the_navigation(html):
    reached, pending = set(), [""]
    while pending:
        address = pending.pop()
        if address in reached or address not in html:
            continue
        reached.add(address)
        for link in html[address].navigation:
            where = urljoin(DOCUMENTATION + address, link).partition("#")[0]
            pending.append(where.removeprefix(DOCUMENTATION))
    redirects = {address for address in html if not html[address].anchors}
    assert set(html) - reached - redirects == set()


def test_nothing_is_loaded_from_elsewhere(site, html):
    assert {source for document in html.values() for source in document.loaded if "//" in source} == set()
    for style in site.rglob("*.css"):
        assert "url(http" not in style.read_text(encoding="utf-8").replace('"', "")


def test_pages_are_well_formed(html):
    assert {address: document.unbalanced for address, document in html.items() if document.unbalanced} == {}
    doubled = {
        address: sorted({anchor for anchor in document.anchors if document.anchors.count(anchor) > 1})
        for address, document in html.items()
    }
    assert {address: found for address, found in doubled.items() if found} == {}


@pytest.mark.parametrize("rule", every_rule(), ids=lambda rule: rule.code)
def test_the_address_in_a_finding_is_the_page_of_its_rule(rule, html):
    assert page_url(rule).removeprefix(DOCUMENTATION) in html
    for short in (rule.code, rule.name):
        (address,) = html[f"rules/{short}/"].links
        assert urljoin(f"{DOCUMENTATION}rules/{short}/", address) == page_url(rule)


def test_translated_pages_say_their_language_and_lead_to_one_another(site, html):
    for rule in every_rule():
        page = page_url(rule).removeprefix(DOCUMENTATION)
        for language in LANGUAGES:
            if translations.page(rule, language) is not None:
                text = (site / language / page / "index.html").read_text(encoding="utf-8")
                assert f'<html lang="{language}"' in text
                leading = [urljoin(f"/{language}/{page}", link) for link in html[f"{language}/{page}"].links]
                assert f"/{page}" in leading
                assert f"/{language}/{page}" in [urljoin(f"/{page}", link) for link in html[page].links]


def test_short_addresses_lead_to_the_translated_page_or_else_the_english_one(site):
    for rule in every_rule():
        page = page_url(rule).removeprefix(DOCUMENTATION)
        for language in LANGUAGES:
            redirect = (site / language / "rules" / rule.code / "index.html").read_text(encoding="utf-8")
            (address,) = re.findall('rel="canonical" href="([^"]*)"', redirect)
            is_translated = translations.page(rule, language) is not None
            expected = f"/{language}/{page}" if is_translated else f"/{page}"
            assert urljoin(f"/{language}/rules/{rule.code}/", address) == expected


def test_the_menu_of_languages_leads_to_the_same_rule(site):
    page = "rules/DS101-unknown-key/"
    for language, here in {"en": page, "zh": f"zh/{page}", "ko": f"ko/{page}"}.items():
        text = (site / here / "index.html").read_text(encoding="utf-8")
        menu = dict(re.findall('<a href="([^"]*)" hreflang="([^"]*)" class="md-select__link">', text))
        leads = {other: urljoin(f"/{here}", address) for address, other in menu.items()}
        assert leads == {"en": f"/{page}", "zh": f"/zh/{page}", "ko": f"/ko/{page}"}, language


def test_names_and_options_are_whole(site):
    keys = (site / "keys" / "index.html").read_text(encoding="utf-8")
    assert "<code>engine.save_checkpoint()</code>" in keys
    options = (site / "command-line" / "index.html").read_text(encoding="utf-8")
    assert "<code>--bf16 True</code>" in options


@pytest.mark.parametrize("left", ["```", "{: ", "bad stack="])
def test_no_markup_is_left_for_the_reader(site, left):
    assert [path for path in site.rglob("*.html") if left in path.read_text(encoding="utf-8")] == []


def test_every_key_has_an_anchor_of_its_path(html):
    keys = json.loads(Path(resources.path("schemas", "documentation.json")).read_text(encoding="utf-8"))["keys"]
    anchors = {anchor for address, page in html.items() if address.startswith("keys/") for anchor in page.anchors}
    sections = {address.removeprefix("keys/").strip("/") for address in html if address.startswith("keys/")}
    assert [key for key in keys if key not in anchors and key not in sections] == []


def test_every_schema_is_where_its_identity_says(site):
    for path in (ROOT / "schemas").rglob("*.schema.json"):
        identity = json.loads(path.read_text(encoding="utf-8")).get("$id", "")
        if identity.startswith(DOCUMENTATION):
            assert (site / identity.removeprefix(DOCUMENTATION)).read_bytes() == path.read_bytes()
