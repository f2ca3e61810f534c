"""What is offered where, and what is replaced: the place of ``|`` in each text is the cursor."""

from __future__ import annotations

import pytest
from lsprotocol import types
from newest import NEWEST

from ds_lint.lsp import completion as completions
from ds_lint.lsp.documents import OpenDocument
from ds_lint.session.options import Options
from ds_lint.session.session import Session


def completed(text, *, stack=None, version=NEWEST["deepspeed"]):
    """The items at the cursor, by label, and the text of each with its edit applied."""
    offset = text.index("|")
    text = text.replace("|", "", 1)
    opened = OpenDocument(
        types.TextDocumentItem("file:///ds_config.json", "json", 1, text), "/ds_config.json", "utf-16"
    )
    context = Session(Options([], isolated=True, stack=stack, deepspeed_version=version)).context(opened.path)
    found = {}
    for item in completions.completion(opened, context, opened.lines.position(offset)):
        start, end = opened.lines.span(item.text_edit.range)
        assert start <= offset <= end
        found[item.label] = text[:start] + item.text_edit.new_text + text[end:]
    return found


@pytest.mark.parametrize(
    ("text", "label", "becomes"),
    [
        ("|", "gradient_clipping", '"gradient_clipping"'),
        ("gr|", "gradient_clipping", '"gradient_clipping"'),
        ("{|}", "gradient_clipping", '{"gradient_clipping"}'),
        ('{"gr|"}', "gradient_clipping", '{"gradient_clipping"}'),
        ('{"gr|', "gradient_clipping", '{"gradient_clipping"'),
        ("{'gr|", "gradient_clipping", "{'gradient_clipping'"),
        ('{"optimizer": {"type": "Ad|', "AdamW", '{"optimizer": {"type": "AdamW"'),
        ('{"zero-optimization": {"st|"}}', "stage", '{"zero-optimization": {"stage"}}'),
        ('{"gr|ad": 1}', "gradient_clipping", '{"gradient_clipping": 1}'),
        ("{gr|}", "gradient_clipping", '{"gradient_clipping"}'),
        ('{"fp16": {}, "gr|"', "gradient_clipping", '{"fp16": {}, "gradient_clipping"'),
        ('{"fp16": {}, |}', "gradient_clipping", '{"fp16": {}, "gradient_clipping"}'),
        ('{\n"steps_per_print": 1\n"gr|"\n}', "gradient_clipping", '{\n"steps_per_print": 1\n"gradient_clipping"\n}'),
        ('{\n"gr|\n"fp16": {}}', "gradient_clipping", '{\n"gradient_clipping"\n"fp16": {}}'),
        ('{"gr|, "fp16": {}}', "gradient_clipping", '{"gradient_clipping, "fp16": {}}'),
        ('{"zero_optimization": {"st|"', "stage", '{"zero_optimization": {"stage"'),
        ('{"zero_optimization": {"offload_param": {"|"}}}', "device",
         '{"zero_optimization": {"offload_param": {"device"}}}'),
        ('{"zero_optimization": {"stage": |}}', "3", '{"zero_optimization": {"stage": 3}}'),
        ('{"zero_optimization": {"stage": 2|}}', "3", '{"zero_optimization": {"stage": 3}}'),
        ('{"zero_optimization": {"overlap_comm": t|', "true", '{"zero_optimization": {"overlap_comm": true'),
        ('{"zero_optimization": {"offload_param": {"device": "|"}}}', "nvme",
         '{"zero_optimization": {"offload_param": {"device": "nvme"}}}'),
        ('{"zero_optimization": {"offload_param": {"device": |}}}', "nvme",
         '{"zero_optimization": {"offload_param": {"device": "nvme"}}}'),
        ('{"bf16": {"enabled": |}}', "auto", '{"bf16": {"enabled": "auto"}}'),
        ('{"optimizer": {"type": "Ad|"}}', "AdamW", '{"optimizer": {"type": "AdamW"}}'),
        ('{"optimizer": {"type": "AdamW", "params": {"w|"}}}', "weight_decay",
         '{"optimizer": {"type": "AdamW", "params": {"weight_decay"}}}'),
        ('{"scheduler": {"type": "WarmupLR", "params": {"|"}}}', "warmup_num_steps",
         '{"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps"}}}'),
        ('{"a": "😋", "gr|"}', "gradient_clipping", '{"a": "😋", "gradient_clipping"}'),
        ("# why\n{'gr|'}", "gradient_clipping", "# why\n{'gradient_clipping'}"),
    ],
)  # fmt: skip
def test_what_is_being_typed_is_replaced_and_nothing_else(text, label, becomes):
    assert completed(text)[label] == becomes


@pytest.mark.parametrize(
    "text", ['{"gradient_clipping"|: 1}', '{"a": 1} |', "{ // gr|\n}", '{"betas": [1, |]}', '{"a": 1 |, "b": 2}']
)
def test_nothing_is_offered_where_nothing_can_stand(text):
    assert completed(text) == {}


def test_keys_that_are_there_are_not_offered_again():
    found = completed('{"zero_optimization": {"stage": 3, "|"}}')
    assert "stage" not in found
    assert "overlap_comm" in found


def test_the_key_under_the_cursor_is_offered():
    assert "gradient_clipping" in completed('{"gradient_clipping|": 1}')


def test_removed_keys_are_not_offered_and_new_ones_only_for_releases_that_have_them():
    assert "zeropp_loco_param" not in completed('{"zero_optimization": {"|"}}')
    assert "zenflow" in completed('{"zero_optimization": {"|"}}')
    assert "zenflow" not in completed('{"zero_optimization": {"|"}}', version="0.14.0")


def test_deprecated_keys_are_marked_and_come_last(client):
    client.open("ds_config.json", '{"zero_optimization": {""}}')
    items = client.at("textDocument/completion", "ds_config.json", 0, 24)["items"]
    by_label = {one["label"]: one for one in items}
    assert by_label["cpu_offload"]["tags"] == [1]
    assert "tags" not in by_label["stage"]
    assert max(items, key=lambda item: item["sortText"]).get("tags") == [1]


def test_auto_is_offered_where_the_stack_fills_it():
    assert "auto" in completed('{"gradient_clipping": |}', stack="trainer")
    assert "auto" not in completed('{"gradient_clipping": |}', stack="deepspeed")
    assert "auto" not in completed('{"wall_clock_breakdown": |}', stack="trainer")


def test_parameters_are_those_of_the_type():
    warmup = completed('{"scheduler": {"type": "WarmupLR", "params": {"|"}}}')
    cycle = completed('{"scheduler": {"type": "OneCycle", "params": {"|"}}}')
    assert "cycle_min_lr" in cycle
    assert "cycle_min_lr" not in warmup


def test_an_item_is_documented_when_it_is_resolved(client):
    client.open("ds_config.json", "{\n  \n}")
    items = client.at("textDocument/completion", "ds_config.json", 1, 2)["items"]
    (item,) = [one for one in items if one["label"] == "gradient_clipping"]
    assert "documentation" not in item
    assert "norm" in client.request("completionItem/resolve", **item)["documentation"]["value"]
