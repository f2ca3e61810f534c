"""Fixing leaves less to say and nothing new, changes nothing else, and a second time changes nothing at all."""

from __future__ import annotations

import json
import os
import random
import re
from collections import Counter
from pathlib import Path

import pytest
from generate import configs
from handwriting import HANDS, written
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from linted import lint_document

from ds_lint.diagnostics.finding import STACKS
from ds_lint.fixes.application import ALL, SAFE, edited, fix
from ds_lint.fixes.together import try_all
from ds_lint.knowledge import keys
from ds_lint.knowledge.keys import Target
from ds_lint.source import documents
from ds_lint.source.tree import walk

CORPUS = Path(os.environ.get("DS_LINT_CORPUS", Path(__file__).parent.parent.parent / "shared" / "corpus"))


def linter_for(stack=None, target=None):
    return lambda document: lint_document(document, stack=stack, target=target)


def fixed(text, safeties=SAFE, *, stack=None, codes=None, target=None):
    return fix(documents.from_bytes(text.encode(), "config.json"), linter_for(stack, target), safeties, codes=codes)


def problems(findings):
    return Counter((finding.code, finding.key) for finding in findings)


def test_a_fix_keeps_the_rest():
    before = '\ufeff{ // mine\r\n\t"gradient_cliping" :\t1.0 ,\r\n\r\n   "train_batch_size":8}'
    report = fixed(before, stack="deepspeed")
    assert report.document.text == before.replace("cliping", "clipping")
    assert [finding.code for finding in report.fixed] == ["DS101"]


def test_what_cannot_be_fixed_is_left():
    report = fixed('{"train_batch_size": 8, "gradient_cliping": 1.0, "fp8": {}}', stack="deepspeed")
    assert [finding.key for finding in report.findings] == ["fp8"]


def test_unsafe_fixes_are_for_those_who_ask():
    text = '{"train_batch_size": 8, "fp8": {}}'
    assert fixed(text, stack="deepspeed").document.text == text
    assert fixed(text, ALL, stack="deepspeed").document.text == '{"train_batch_size": 8}'


def test_a_fix_does_not_lead_to_an_optimizer_that_raises_in_its_first_step():
    def allowed(section):
        config = {"optimizer": {"type": "Lamb"}, "zero_optimization": {"stage": 2, **section}}
        return "zero_allow_untested_optimizer" in fixed(json.dumps(config), ALL, stack="deepspeed").document.text

    assert allowed({})
    assert not allowed({"offload_optimizer": {"device": "cpu"}})
    assert not allowed({"cpu_offload": True})


def test_fixes_that_touch_take_turns():
    report = fixed('{"train_batch_size": 8, "sparse_gradients": false, "amp": {"enabled": false}}', stack="deepspeed")
    assert report.document.text == '{"train_batch_size": 8}'
    assert len(report.fixed) == 2


def test_what_a_fix_brings_to_light_is_fixed_with_it():
    text = '{"train_batch_size": 8, "zero-optimization": {"stage": "Two", "overlap_com": true}}'
    assert fixed(text.replace('"Two"', "0"), stack="deepspeed").document.text == (
        '{"train_batch_size": 8, "zero_optimization": {"stage": 0, "overlap_comm": true}}'
    )
    assert fixed(text, stack="deepspeed").document.text == text  # the stage would be a finding of its own


def test_a_misspelled_section_is_not_added_once_more():
    text = '{"train_micro_batch_size_per_gpu": "auto", "zero-optimization": {"stage": 2}}'
    report = fixed(text, ALL, stack="trainer")
    assert report.document.text == text.replace("-", "_")
    assert report.findings == []


def test_only_the_rules_that_were_chosen_are_fixed():
    text = '{"train_batch_size": 8, "gradient_cliping": 1.0, "amp": {"enabled": false}}'
    report = fixed(text, stack="deepspeed", codes={"DS103"})
    assert report.document.text == '{"train_batch_size": 8, "gradient_cliping": 1.0}'
    assert report.findings == []


def test_a_fix_is_held_against_all_rules():
    text = '{"train_batch_size": 8, "gradient_cliping": "a"}'
    report = fixed(text, stack="deepspeed", codes={"DS101"})
    assert report.document.text == text
    assert [finding.fix for finding in report.findings] == [None]


def test_bytes_that_are_no_text_are_left_alone():
    data = b'{"train_batch_size": 8, "gradient_cliping": 1.0, "_note": "\xfc"}'
    report = fix(documents.from_bytes(data, "config.json"), linter_for("deepspeed"))
    assert report.fixed == []


def test_the_release_decides():
    text = '{"train_batch_size": 8, "sparse_gradients": false}'
    assert fixed(text, target=Target("0.18.9")).fixed == []
    assert fixed(text).document.text == '{"train_batch_size": 8}'


def test_many_fixes_are_applied_together():
    comments = "".join(f'"_{number}": 1, ' for number in range(30))
    text = f'{{"train_batch_size": 8, "zero_optimization": {{{comments}"stage": 1}}}}'
    report = fixed(text, stack="deepspeed", codes={"DS107"})
    assert len(report.fixed) == 30
    assert '"zero_optimization": {"stage": 1}' in report.document.text


# ------------------------------------------------------------------------------------------------------- any config

CASES = given(
    seed=st.integers(0, 2**32),
    hand=st.sampled_from(list(HANDS)),
    stack=st.sampled_from((None, *STACKS)),
    release=st.sampled_from((None, "0.18.9", "0.16.4", "0.14.4")),
)


def text_of(seed, hand):
    (config,) = configs(seed, 1, keys.knowledge())
    # In Hjson NaN and Infinity are texts that swallow the rest of the line, brackets too, and DS005 stays.
    assume(not {"NaN", "Infinity"} & set(re.findall(r"\w+", json.dumps(config))))
    return written(config, HANDS[hand], random.Random(seed))


@pytest.mark.parametrize("safeties", [SAFE, ALL], ids=["safe", "all"])
@CASES
@settings(max_examples=300, deadline=None)
def test_fixing_leaves_less_and_nothing_new(safeties, seed, hand, stack, release):
    text = text_of(seed, hand)
    target = Target(release)
    before = problems(linter_for(stack, target)(documents.from_bytes(text.encode(), "config.json")).findings)
    report = fixed(text, safeties, stack=stack, target=target)
    left = problems(report.findings)
    assert left - before == Counter()
    assert sum(left.values()) <= sum(before.values()) - len(report.fixed)
    assert all(finding.fix is None or finding.fix.safety not in safeties for finding in report.findings)
    again = fixed(report.document.text, safeties, stack=stack, target=target)
    assert (again.document.text, again.fixed) == (report.document.text, [])


@CASES
@settings(max_examples=300, deadline=None)
def test_a_fix_changes_no_more_than_its_edits(seed, hand, stack, release):
    text = text_of(seed, hand)
    before = linter_for(stack, Target(release))(documents.from_bytes(text.encode(), "config.json"))
    for finding in before.findings:
        if finding.fix is not None:
            after = documents.from_bytes(edited(text, finding.fix.edits).encode(), "config.json")
            kept = members(before.document, finding.fix.edits)
            assert kept.items() <= members(after).items(), finding.fix.title
            assert set(breaks(after.text)) <= set(breaks(text)), finding.fix.title
            assert after.text.startswith("\ufeff") == text.startswith("\ufeff")


def members(document, edits=()):
    """What is written under each key path, without the keys that the edits touch or that stand below a touched one."""
    found, touched = {}, []
    if document.root is None:
        return found
    for path, member in walk(document.root):
        span = member.key_span
        if any(edit.span.start < span.end and span.start < edit.span.end for edit in edits):
            touched.append(path)
        if any(path[: len(one)] == one for one in touched):
            continue
        value = member.value.span
        if not any(edit.span.start <= value.end and value.start <= edit.span.end for edit in edits):
            found[path] = document.text[value.start : value.end]
    return found


def breaks(text):
    return ("\r\n",) * ("\r\n" in text) + tuple(set(text.replace("\r\n", "")) & {"\r", "\n"})


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here")
@pytest.mark.long
@pytest.mark.parametrize("safeties", [SAFE, ALL], ids=["safe", "all"])
@pytest.mark.parametrize("stack", [None, *STACKS])
def test_fixing_real_configs(safeties, stack):
    for path in sorted((CORPUS / "configs").glob("*.json")):
        document = documents.from_bytes(path.read_bytes(), path.name)
        before = problems(linter_for(stack)(document).findings)
        report = fix(document, linter_for(stack), safeties)
        assert problems(report.findings) - before == Counter(), path
        again = fixed(report.document.text, safeties, stack=stack)
        assert report.document.text in (again.document.text, document.text), path


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here")
def test_what_is_promised_of_real_configs_is_done():
    for path in sorted((CORPUS / "configs").glob("*.json"))[::7]:
        document = documents.from_bytes(path.read_bytes(), path.name)
        report = linter_for()(document)
        try_all([report], linter_for())
        ways = [finding.fix.applied_with for finding in report.findings if finding.fix]
        assert ways.count("safe") == len(fix(document, linter_for()).fixed), path
        assert len(ways) - ways.count(None) == len(fix(document, linter_for(), ALL).fixed), path


@pytest.mark.parametrize(
    ("written", "left"),
    [
        ("true", {"stage": 2, "offload_optimizer": {"device": "cpu"}}),
        ('"true"', {"stage": 2, "cpu_offload": "true"}),  # which is on, too: the help says what to write
        ("false", {"stage": 2}),
        ('"false"', {"stage": 2}),  # which pydantic reads as false, although Python takes it for true
    ],
)
def test_a_deprecated_switch_becomes_what_pydantic_reads_it_as(written, left):
    text = f'{{"train_batch_size": 8, "zero_optimization": {{"stage": 2, "cpu_offload": {written}}}}}'
    report = fixed(text, ALL, stack="deepspeed", codes={"DS104"})
    assert json.loads(report.document.text)["zero_optimization"] == left
