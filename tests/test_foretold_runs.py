"""A risk that a rule reads in the text, and a run that shows it: one finding, with one severity."""

from __future__ import annotations

import pytest
from linted import lint_dict

from ds_lint.diagnostics.finding import Finding
from ds_lint.session.verdicts import add_findings

NVME = {"device": "nvme", "nvme_path": "/local_nvme"}


class Report:
    """What a report of a file has of findings."""

    def __init__(self, findings):
        self.findings = findings

    def add(self, found):
        self.findings = [*self.findings, *found]


def linted(**offload):
    config = {
        "train_micro_batch_size_per_gpu": 4,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
        "zero_optimization": {"stage": 3, "offload_optimizer": {**NVME, **offload}},
    }
    return Report(lint_dict(config, stack="deepspeed").findings)


def of_run(like, name, message, help=""):
    """A finding of a run, at the place of another one."""
    return Finding(
        **{
            **{one: getattr(like, one) for one in ("key", "path", "span")},
            "code": "DS900",
            "name": name,
            "severity": "error",
            "effect": "rejected" if name == "run-is-refused" else "wrong-result",
            "effects": None,
            "stage": "train" if name == "run-is-refused" else None,
            "message": message,
            "help": help,
            "kind": "run",
        }
    )


def told(report):
    return {one.code: (one.severity, one.confirmed) for one in report.findings}


@pytest.mark.parametrize("is_of_script", [False, True])
def test_states_that_are_lost_on_resuming_are_one_finding(is_of_script):
    report = linted()
    (lost,) = (one for one in report.findings if one.code == "DS702")
    assert lost.severity == "info"
    names = {"checkpoint-does-not-resume": "50 of 56 tensors", "weights-are-not-recovered": "0 of 21 tensors"}
    for name, message in names.items():
        add_findings(report, [of_run(lost, name, message)], is_of_script=is_of_script)
    assert told(report)["DS702"] == ("error", "50 of 56 tensors; 0 of 21 tensors")
    assert "DS900" not in told(report)


def test_too_few_buffers_and_the_exception_of_swapping_are_one_finding():
    where = "The exception comes from deepspeed/runtime/swap_tensor/partitioned_optimizer_swapper.py:84."
    report = linted(buffer_count=3)
    (few,) = (one for one in report.findings if one.code == "DS361")
    add_findings(report, [of_run(few, "run-is-refused", "the run stops: AssertionError", where)])
    assert told(report)["DS361"] == ("error", "the run stops: AssertionError")
    assert "DS900" not in told(report)


def test_another_exception_is_a_finding_of_its_own():
    report = linted(buffer_count=3)
    (few,) = (one for one in report.findings if one.code == "DS361")
    add_findings(report, [of_run(few, "run-is-refused", "the run stops: KeyError", "It comes from torch/nn/x.py:1.")])
    assert told(report)["DS361"] == ("error", None)
    assert "DS900" in told(report)
