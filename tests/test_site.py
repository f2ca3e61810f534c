"""The site as readers get it: every link leads somewhere, every page is found, nothing comes from elsewhere.

Both generators build it, each where it is installed.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest

from ds_lint.addresses import REPOSITORY, SITE
from ds_lint.diagnostics.report import page_url
from ds_lint.knowledge import resources
from ds_lint.linter.engine import every_rule
from ds_lint.rule_pages import translations
from ds_lint.rule_pages.languages import LANGUAGES
from tools import translatable

GENERATORS = {"mkdocs": "material", "zensical": "zensical"}  # with the module that it needs
ROOT = Path(__file__).parent.parent
VOID = {"area", "base", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"}
LOADED = {"script": "src", "img": "src", "source": "src", "iframe": "src", "use": "href"}
SOURCES = f"{REPOSITORY}/blob/main/"


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


@pytest.fixture(scope="module", params=GENERATORS)
def site(request, tmp_path_factory):
    pytest.importorskip(GENERATORS[request.param], reason="requirements/docs.txt is not installed")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "tools.site", folder, "--build", "--with", request.param],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "site"


@pytest.fixture(scope="module")
def html(site):
    """Every page by its address on the site."""
    return {
        f"{path.relative_to(site).as_posix()}".removesuffix("index.html"): Document(path.read_text(encoding="utf-8"))
        for path in sorted(site.rglob("*.html"))
        if path.name != "404.html"
    }


def test_programs_find_every_guide_and_rule(site, html):
    listed = re.findall(r"^- \[.+?\]\((\S+?)\)", (site / "llms.txt").read_text(encoding="utf-8"), re.MULTILINE)
    places = [address.removeprefix(SITE) for address in listed]
    assert [place for place in places if place not in html] == []
    assert {"doctor/", "agents/", "guides/trainer/", "rules/DS101-unknown-key/"} <= set(places)


def test_links_lead_to_pages_and_anchors(site, html):
    dead = []
    for address, document in html.items():
        for link in document.links:
            target = urlsplit(urljoin(SITE + address, link))
            where = unquote(f"{target.scheme}://{target.netloc}{target.path}")
            if not where.startswith(SITE):
                continue
            place = where.removeprefix(SITE)
            if place == "playground/":
                found = place in html  # the fragment is a text, which tests/test_playground_links.py follows
            elif place in html:
                found = not target.fragment or unquote(target.fragment) in ("__skip", *html[place].anchors)
            else:
                found = (site / place).is_file()
            if not found:
                dead.append((address, link))
    assert dead == []


def test_every_page_has_a_description_of_its_own(site, html):
    found = {}
    for address, document in html.items():
        if document.anchors:  # no redirect
            text = (site / address / "index.html").read_text(encoding="utf-8")
            (description,) = re.findall('<meta name="description" content="([^"]*)">', text)
            assert 0 < len(unescape(description)) <= 160, address
            found.setdefault(description, []).append(address)
    assert [pages for pages in found.values() if len(pages) > 1] == []


def test_pages_of_a_language_have_its_words_around_them(site):
    text = (site / "zh/rules/DS101-unknown-key/index.html").read_text(encoding="utf-8")
    around = text[text.index("<header") : text.index("<article")] + text[text.index("</article>") :]
    shown = re.sub("<script.*?</script>|<svg.*?</svg>|<[^>]*>", "\n", around, flags=re.DOTALL)
    names = re.compile(r"[A-Z]{2,}\d+( [a-z0-9-]+)?|ds-lint|English|한국어|(?:[A-Z]\w+[, ]*)+")
    lines = {line.strip() for line in shown.splitlines() if re.search("[A-Za-z]", line)}
    english = {line for line in lines if not re.search("[一-鿿]", line)}
    assert {line for line in english if not names.fullmatch(line)} == set()


def test_links_into_the_repository_lead_to_files(html):
    linked = {
        link.partition("#")[0] for document in html.values() for link in document.links if link.startswith(SOURCES)
    }
    assert [link for link in linked if not (ROOT / link.removeprefix(SOURCES)).exists()] == []


def language_of(address):
    first = address.partition("/")[0]
    return first if first in LANGUAGES else "en"


def test_every_page_is_reached_by_the_navigation_of_its_language(html):
    reached, pending = set(), ["", *(f"{language}/" for language in LANGUAGES)]
    while pending:
        address = pending.pop()
        if address in reached or address not in html:
            continue
        reached.add(address)
        for link in html[address].navigation:
            where = urljoin(SITE + address, link).partition("#")[0].removeprefix(SITE)
            assert language_of(where) == language_of(address), address
            pending.append(where)
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


def test_the_address_in_a_finding_is_the_page_of_its_rule(html):
    for rule in every_rule():
        assert page_url(rule).removeprefix(SITE) in html
        for short in (rule.code, rule.name):
            (address,) = html[f"rules/{short}/"].links
            assert urljoin(f"{SITE}rules/{short}/", address) == page_url(rule)


def test_translated_pages_say_their_language_and_lead_to_one_another(site, html):
    for rule in every_rule():
        page = page_url(rule).removeprefix(SITE)
        for language in LANGUAGES:
            if translations.page(rule, language) is not None:
                text = (site / language / page / "index.html").read_text(encoding="utf-8")
                assert f'<html lang="{language}"' in text
                leading = [urljoin(f"/{language}/{page}", link) for link in html[f"{language}/{page}"].links]
                assert f"/{page}" in leading
                assert f"/{language}/{page}" in [urljoin(f"/{page}", link) for link in html[page].links]


def test_short_addresses_lead_to_the_translated_page_or_else_the_english_one(site):
    for rule in every_rule():
        page = page_url(rule).removeprefix(SITE)
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


@pytest.mark.parametrize("document", translatable.documents(), ids=lambda document: document.name)
def test_translated_documents_have_the_blocks_and_lead_to_the_english_one(document, site):
    for language in LANGUAGES:
        if document.is_translated(language):
            text = (site / language / document.name / "index.html").read_text(encoding="utf-8")
            english = (site / document.name / "index.html").read_text(encoding="utf-8")
            blocks = re.findall("<pre>.*?</pre>", text, re.DOTALL)
            assert blocks == re.findall("<pre>.*?</pre>", english, re.DOTALL) != []
            menu = dict(re.findall('<a href="([^"]*)" hreflang="([^"]*)" class="md-select__link">', text))
            leads = {other: urljoin(f"/{language}/{document.name}/", address) for address, other in menu.items()}
            assert leads["en"] == f"/{document.name}/"


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
        if identity.startswith(SITE):
            assert (site / identity.removeprefix(SITE)).read_bytes() == path.read_bytes()
