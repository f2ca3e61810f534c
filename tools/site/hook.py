"""What mkdocs calls while it builds the site: the pages that are made, the navigation to them, the links between files.

mkdocs.yml names this file. Nothing that a rule, a store or the command line says is written a second time in docs/.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).parent.parent.parent
if str(ROOT) not in sys.path:  # the console script of mkdocs has not the directory that it runs in
    sys.path.insert(0, str(ROOT))

from mkdocs.structure.files import File  # noqa: E402 - behind the path of what is imported below

from ds_lint.knowledge.keys import Knowledge  # noqa: E402
from ds_lint.linter.engine import every_rule  # noqa: E402
from tools import documents, rule_ranges  # noqa: E402
from tools.site import addresses, advisories, benchmarks, command_line, keys, rules, schemas, symptoms, translated  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

SITEMAP = """\
<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">
{}</urlset>
"""
REDIRECT = """\
<!doctype html>
<title>{address}</title>
<meta http-equiv="refresh" content="0; url={address}">
<link rel="canonical" href="{address}">
<a href="{address}">{address}</a>
"""


APPENDED = {"command-line.md": command_line.options, "settings.md": schemas.settings}  # to pages in docs/


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fill the navigation with the rules by their families and with the sections of the key reference."""
    keys.read_again()
    config.nav = _with_generated(config.nav)
    return config


def _with_generated(nav: list[Any]) -> list[Any]:
    filled: list[Any] = []
    for item in nav:
        title, below = next(iter(item.items())) if isinstance(item, dict) else (None, item)
        if isinstance(below, list):
            filled.append({title: _with_generated(below)})
            continue
        filled.append(item)
        if below == rules.INDEX:
            filled += [
                {
                    about.title: [
                        {f"{rule.code} {rule.name}": rules.path(rule)}
                        for rule in every_rule()
                        if rule_ranges.digit_of(rule) == digit
                    ]
                }
                for digit, about in rule_ranges.RANGES.items()
            ]
        elif below in [f"{language}/index.md" for language in translated.languages()]:
            language = translated.language_of(below)
            filled += [
                {f"{rule.code} {rule.name}": page}
                for rule in every_rule()
                if (page := translated.path(rule, language)) is not None
            ]
        elif below == advisories.INDEX:
            filled += advisories.navigation()
        elif below == keys.INDEX:
            filled += [{"top level": f"keys/{keys.TOP}.md"}]
            filled += [{section: f"keys/{section}.md"} for section in keys.sections() if section != keys.TOP]
            filled += [{"older releases": f"keys/{keys.REMOVED}.md"}]
    return filled


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is made, and what lies elsewhere in the repository."""
    for name, text in _made():
        files.append(File.generated(config, name, content=text))
    for language in translated.languages():
        files.append(File.generated(config, f"{language}/sitemap.xml", content=_sitemap(language, files, config)))
    return files


def _sitemap(language: str, files: Files, config: MkDocsConfig) -> str:
    """The pages of a language: the selector of languages looks there for the one that the reader is on."""
    pages = [file.url for file in files.documentation_pages() if file.src_uri.startswith(f"{language}/")]
    return SITEMAP.format("".join(f"<url><loc>{config.site_url}{page}</loc></url>\n" for page in pages))


def _made() -> Iterator[tuple[str, str]]:
    """Every file that the site has beside those in docs/, with its text."""
    yield rules.INDEX, rules.index()
    for rule in every_rule():
        text = addresses.relinked(rules.page(rule), rules.path(rule), rules.path(rule))
        yield rules.path(rule), rules.with_languages(text, translated.elsewhere(rule, "en"))
    yield from translated.every_page(every_rule())
    for name, address in (rules.redirects(every_rule()) | translated.redirects(every_rule())).items():
        yield name, REDIRECT.format(address=address)
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
        page = addresses.place(source)
        assert page is not None  # noqa: S101 - both are on the site
        yield page, addresses.relinked((ROOT / source).read_text(encoding="utf-8"), source, page)
    for schema in schemas.published():
        yield schema, (ROOT / schema).read_text(encoding="utf-8")


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """What lies in docs/ is read in the repository too: its links lead there, and its blocks say how they are run."""
    if page.file.generated_by is not None:
        return markdown
    name = page.file.src_uri
    text = addresses.relinked(_without_words(markdown), f"docs/{name}", name)
    return f"{text}\n{APPENDED[name]()}" if name in APPENDED else text


def _without_words(markdown: str) -> str:
    """The text with fences that name for readers of the site the language, and the name of a file."""
    for block in reversed(documents.blocks(markdown)):
        title = f' title="{block.options["title"]}"' if "title" in block.options else ""
        markdown = f"{markdown[: block.fence]}```{block.language}{title}\n{markdown[block.span.start :]}"
    return markdown


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """A page in another language declares it for browsers and search engines; the menu leads to its own."""
    language = translated.language_of(page.file.src_uri)
    for other, address in translated.counterparts(page.file.src_uri, every_rule()).items():
        output = re.sub(rf'href="[^"]*" hreflang="{other}"', f'href="{address}" hreflang="{other}"', output)
    return output.replace('<html lang="en"', f'<html lang="{language}"', 1)
