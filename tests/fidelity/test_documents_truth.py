"""The real DeepSpeed does with the configs of the documents what ds-lint says it does."""

from __future__ import annotations

import pytest
from linted import lint_bytes, lint_dict

pytest.importorskip("deepspeed")

from agreement import LINTED_FOR, compare
from oracle import Job, Oracle

pytestmark = pytest.mark.fidelity


def test_deepspeed_agrees_on_every_config_of_the_documents(documents):
    configs = [config for found in documents.values() for config in found]
    with Oracle() as oracle:
        verdicts = oracle.run([Job(config, as_file=isinstance(config, str)) for config in configs])
    assert [verdict.undecided for verdict in verdicts] == [None] * len(configs)
    for config, verdict in zip(configs, verdicts, strict=True):
        difference = compare(config, findings(config), verdict)
        assert difference is None, str(difference)


def findings(config):
    if isinstance(config, dict):
        return lint_dict(config, **LINTED_FOR).findings
    return lint_bytes(config.encode(), "ds_config.json", **LINTED_FOR).findings
