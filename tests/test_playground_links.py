"""What the links from the examples of rule pages carry: ds-lint says of it what the page says of its rule."""

from __future__ import annotations

import base64
import json
import re
import zlib

import pytest

from ds_lint.linter.engine import every_rule
from ds_lint.rule_pages import pages
from tools.site.playground import links
from tools.site.playground.browser import answers


def examples(rule):
    return pages.examples(pages.page(rule))


def carried(fragment):
    version, _, text = fragment.partition(".")
    assert int(version) == links.VERSION
    packed = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    return json.loads(zlib.decompress(packed, wbits=-zlib.MAX_WBITS))


def own(given, rule):
    """The findings of a rule in an answer: lines and messages, in which ds-lint leads to ``./train.py``."""
    found = [one for one in json.loads(given["output"])["findings"] if one["code"] == rule.code]
    return sorted((one["span"]["start"]["line"], one["message"].replace(" ./", " ")) for one in found)


def expected(example, rule):
    """The findings of its rule that a page lists for an example."""
    pattern = re.compile(rf"(?:.*:)?(\d+):\d+: {rule.code} \[\w+\] (.*) \([^()]*\)")
    matches = (pattern.fullmatch(line) for line in example.findings)
    return sorted((int(match[1]), match[2]) for match in matches if match)


def same(example, rule):
    shown = links.of_example(example, rule)
    if shown is None:
        return True
    given = answers.answer(json.dumps({"command": "check", **carried(links.fragment(shown))}))
    return own(json.loads(given), rule) == expected(example, rule)


FEW = {
    "DS101": "JSON",
    "DS208": "Python",
    "DS351": "the config.json of a model",
    "DS652": "the YAML of Accelerate",
    "DS671": "a recipe",
    "DS673": "a launch with a recipe",
    "DS676": "Hydra",
    "DS681": "a launch alone",
}


@pytest.mark.parametrize("code", FEW, ids=FEW.values())
def test_what_a_link_carries_has_the_findings_of_the_page(code):
    rule = next(one for one in every_rule() if one.code == code)
    assert [example.line for example in examples(rule) if not same(example, rule)] == []


@pytest.mark.long
@pytest.mark.parametrize("rule", every_rule(), ids=lambda rule: rule.code)
def test_what_every_link_carries_has_the_findings_of_its_page(rule):
    assert [example.line for example in examples(rule) if not same(example, rule)] == []


def test_rules_that_are_off_are_selected():
    off = [rule for rule in every_rule() if not rule.is_on]
    assert off
    for rule in off:
        shown = [links.of_example(example, rule) for example in examples(rule)]
        assert {one.options["extend-select"] for one in shown if one is not None} <= {rule.code}


def test_few_examples_have_no_link():
    without = [
        (rule.code, example.line)
        for rule in every_rule()
        for example in examples(rule)
        if links.of_example(example, rule) is None
    ]
    assert len(without) < 70


def test_links_of_a_page_lead_from_its_address():
    rule = next(one for one in every_rule() if one.code == "DS101")
    leading = links.of_page(pages.page(rule), rule, "zh/rules/DS101-unknown-key.md")
    assert leading.keys() == {example.line for example in examples(rule)}
    assert all('href="../../../playground/#1.' in text for text in leading.values())
