"""Findings of a run with FSDP: at the keys of the YAML, and joined with those of the rules."""

from __future__ import annotations

from ds_lint.diagnostics.verdict import CPU, Check, Verdict
from ds_lint.facts import Facts
from ds_lint.knowledge.keys import knowledge
from ds_lint.linter.lint import lint
from ds_lint.semantics.basis import Basis
from ds_lint.source import yaml

FILE = """\
distributed_type: FSDP
num_processes: 2
fsdp_config:
  fsdp_version: 2
  fsdp_reshard_after_forward: true
"""


def findings(*checks):
    verdict = Verdict("fsdp.yaml", "accelerate", CPU, 2, "fail", [], list(checks), [], 1.0, strategy="fsdp2")
    facts = Facts()
    facts.smoke = [verdict]
    (document,) = yaml.read(FILE, "fsdp.yaml")
    report = lint(document, Basis(knowledge(), "accelerate", facts))
    return {one.code: one for one in report.findings if one.kind == "run"}


def check_of(name, key):
    return Check(name, "fail", key, None, None, None, "it is otherwise", "Do it.")


def test_a_check_is_at_its_setting():
    found = findings(check_of("units", "fsdp_config.fsdp_reshard_after_forward"))["DS903"]
    assert (found.key, found.span.start) == ("fsdp_config.fsdp_reshard_after_forward", FILE.index("true"))
    assert found.help == "Do it."


def test_a_check_of_a_setting_that_is_not_written_is_at_the_section():
    found = findings(check_of("resume", "fsdp_config"))["DS912"]
    assert (found.key, found.span.start) == ("fsdp_config", FILE.index("fsdp_config"))
