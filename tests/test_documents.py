"""Every config of the documents gets its verdict: in guides for the Trainer, and in scripts that do without it."""

from __future__ import annotations

from collections import Counter

import pytest
from linted import lint_bytes, lint_dict

from ds_lint.facts import Facts

KOREAN, NOTES, SHARDING, CHINESE = (
    "000_8645e854557dac38.txt",
    "001_39ba3ebe7280fbac.txt",
    "002_f5ac6800cd82e852.txt",
    "003_f8888a79a76dd87d.txt",
)
NO_BATCH = "an excerpt: no batch size"
NO_ZERO = "an excerpt: no batch size, and no zero_optimization, which Accelerate needs"
BUCKET = "0.9 * 2048 * 2048 is not a whole number, and the script brings no optimizer"
NO_OPTIMIZER = "ZeRO, and neither the config nor the script has an optimizer"

# Document, which of its configs, who loads it, the codes of its findings, and why it has them.
VERDICTS = (
    (KOREAN, 0, "trainer", ["DS511"], NO_BATCH),
    (KOREAN, 1, "trainer", ["DS102", "DS702"], "NVMe: aio stands inside zero_optimization, which refuses it"),
    (KOREAN, 2, "trainer", ["DS511", "DS601"], NO_ZERO),
    (KOREAN, 3, "trainer", ["DS511", "DS601"], NO_ZERO),
    (KOREAN, 4, "trainer", ["DS511", "DS601"], NO_ZERO),
    (KOREAN, 5, "trainer", ["DS511", "DS601"], NO_ZERO),
    (KOREAN, 6, "trainer", ["DS601"], "an excerpt: batch sizes and no zero_optimization, which Accelerate needs"),
    (KOREAN, 7, "trainer", ["DS511", "DS601"], NO_ZERO),
    (KOREAN, 8, "trainer", ["DS511", "DS601"], NO_ZERO),
    (KOREAN, 9, "trainer", ["DS511", "DS601"], NO_ZERO),
    (KOREAN, 10, "trainer", ["DS511", "DS601"], NO_ZERO),
    (KOREAN, 11, "trainer", [], ""),
    (KOREAN, 12, "trainer", ["DS511", "DS708"], NO_BATCH),
    (KOREAN, 13, "deepspeed", ["DS201", "DS302"], BUCKET),
    (KOREAN, 14, "trainer", ["DS511", "DS601"], NO_ZERO),
    (NOTES, 0, "trainer", ["DS002"], "a comma after the last member, which json refuses"),
    (NOTES, 1, "trainer", ["DS511"], NO_BATCH),
    (NOTES, 2, "trainer", ["DS511"], NO_BATCH),
    (NOTES, 3, "trainer", ["DS511", "DS601"], NO_ZERO),
    (NOTES, 4, "trainer", ["DS511", "DS601"], NO_ZERO),
    (NOTES, 5, "trainer", ["DS511", "DS601"], NO_ZERO),
    (NOTES, 6, "trainer", ["DS511", "DS601"], NO_ZERO),
    (SHARDING, 0, "deepspeed", ["DS302"], NO_OPTIMIZER),
    (SHARDING, 1, "deepspeed", ["DS302"], NO_OPTIMIZER),
    (SHARDING, 2, "deepspeed", ["DS302"], NO_OPTIMIZER),
    (CHINESE, 0, "deepspeed", ["DS201", "DS302"], BUCKET),
)


def report(config, stack=None):
    """A JSON text is linted as a file, a dict as a dict."""
    if isinstance(config, dict):
        return lint_dict(config, stack=stack, facts=Facts(world_size=1))
    return lint_bytes(config.encode(), "ds_config.json", stack=stack, facts=Facts(world_size=1))


def findings(config, stack):
    """What is found on any number of ranks."""
    return [finding for finding in report(config, stack).findings if finding.code != "DS803"]


def verdict(config, stack):
    return [(finding.code, finding.key, finding.effect) for finding in findings(config, stack)]


@pytest.mark.parametrize(
    ("document", "place", "stack", "codes", "reason"),
    VERDICTS,
    ids=[f"{document[:3]}-{place}" for document, place, *_ in VERDICTS],
)
def test_every_config_gets_its_verdict(documents, document, place, stack, codes, reason):
    found = findings(documents[document][place], stack)
    assert sorted(finding.code for finding in found) == codes, reason


def test_every_config_stands_in_the_table(documents):
    assert {name: len(configs) for name, configs in documents.items()} == Counter(name for name, *_ in VERDICTS)
    assert all(reason for *_, codes, reason in VERDICTS if codes)


def test_a_trailing_comma_stops_the_trainer_and_not_deepspeed(documents):
    config = documents[NOTES][0]
    assert verdict(config, "trainer") == [("DS002", None, "rejected")]
    assert "load" not in [finding.stage for finding in report(config, "deepspeed").findings]
    commas = [finding for finding in report(config).findings if finding.code == "DS002"]
    assert [config[finding.span.start : finding.span.end] for finding in commas] == [","]


@pytest.mark.parametrize(("document", "place"), [(KOREAN, 13), (CHINESE, 0)])
def test_a_fractional_prefetch_bucket_is_rejected(documents, document, place):
    config = documents[document][place]
    assert config["zero_optimization"]["stage3_prefetch_bucket_size"] == 3774873.6
    assert verdict(config, "deepspeed") == [
        ("DS302", "zero_optimization", "risk"),
        ("DS201", "zero_optimization.stage3_prefetch_bucket_size", "rejected"),
    ]


@pytest.mark.parametrize(("document", "place"), [(KOREAN, 1), (KOREAN, 11), (KOREAN, 14), (NOTES, 0)])
def test_auto_for_fp16_does_nothing_without_the_trainer(documents, document, place):
    (found,) = [one for one in report(documents[document][place], "deepspeed").findings if one.code == "DS204"]
    text = documents[document][place]
    assert any(
        text[: span.start].endswith('"enabled": ') for span in [found.span, *(one.span for one in found.related)]
    )


@pytest.mark.parametrize("place", [0, 1, 2])
def test_zero_without_an_optimizer_is_a_risk(documents, place):
    assert verdict(documents[SHARDING][place], "deepspeed") == [("DS302", "zero_optimization", "risk")]


@pytest.mark.parametrize(("document", "place"), [(KOREAN, 1), (KOREAN, 2), (KOREAN, 11), (NOTES, 0), (NOTES, 3)])
def test_auto_betas_tell_that_the_trainer_loads_a_template(documents, document, place):
    assert report(documents[document][place]).stack == "trainer"
