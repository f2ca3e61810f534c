"""What a run of the user's own script takes, in the terminal, in the JSON report and on the page."""

from __future__ import annotations

import json

import pytest
import smoke_runs as runs
from jsonschema import Draft7Validator

from ds_lint.diagnostics.verdict import CPU, Communication
from ds_lint.knowledge import resources
from ds_lint.output import measurements, smoke
from ds_lint.output.html_page import MadeBy
from ds_lint.output.json import render as as_json
from ds_lint.output.quantities import duration
from ds_lint.output.terminal import Terminal
from ds_lint.smoke.html.page import render as page


def told(verdict):
    lines = smoke.lines([verdict], Terminal())
    return [line.strip() for line in lines if line.strip().startswith(("measured", "projected", "estimated"))]


def test_a_run_on_gpus():
    assert told(runs.of_script()) == [
        (
            "measured: GPU memory up to 60.0 GiB (rank 0, backward of step 2), and 50.0 GiB on the rank with the "
            "least; torch reserves up to 66.0 GiB"
        ),
        "measured: host memory of a process up to 9.0 GiB (rank 0, saving the checkpoint after step 3)",
        "measured: 12.0 GiB on NVMe",
        "measured: 0.52 s per step (median of steps 2, 3, 5), 15.4 samples/s, 7,877 tokens/s",
        "measured: initialize 12.0 s, saving the checkpoint 1 min 15 s, load 31.3 s, ds-lint itself 4.0 s",
        "measured: checkpoint 7.0 GiB (model states 1.0 GiB, optimizer states 6.0 GiB), saved model 1.0 GiB",
        "projected: 1,000 steps take about 8 min 40 s, without evaluation and saving",
        "projected: an epoch of 250 steps takes about 2 min 10 s",
        "projected: 2 checkpoints take about 16.0 GiB; the disk of output_dir has 10.0 GiB free",
        "estimated: parameters 1.0 GiB on the fullest rank; the run holds 1.0 GiB",
        "estimated: peak GPU memory 50.0 GiB to 80.0 GiB on the fullest rank; the run holds 60.0 GiB",
    ]


def test_the_share_of_communication_is_that_of_the_slowest_rank():
    quick = Communication(0, 5, 0.08, 0.25, {"all_gather": 0.08})
    slow = Communication(1, 5, 0.125, 0.25, {"all_gather": 0.1, "all_reduce": 0.025})
    verdict = runs.of_script(communication=[quick, slow])
    assert (
        "measured: communication takes 0.08 s to 0.12 s of the 0.25 s of step 5 (50%): all_gather 0.1 s, all_reduce "
        "0.025 s"
    ) in told(verdict)
    assert smoke.verdict_of(json.loads(json.dumps(smoke.as_object(verdict)))) == verdict


def test_the_time_of_cpu_ranks_is_said_to_be_theirs():
    projected = [line for line in told(runs.of_script(CPU)) if line.startswith("projected: 1,000 steps")]
    assert projected == [
        "projected: 1,000 steps take about 8 min 40 s on these CPU ranks, without evaluation and saving"
    ]


def test_what_is_not_known_is_left_out():
    verdict = runs.of_script(
        CPU, step_seconds=None, timed_steps=[], samples=None, tokens=None, files={}, nvme_bytes=0, projection=None,
        estimated=[], is_host_sampled=True,
    )  # fmt: skip
    assert told(verdict) == [
        (
            "measured: host memory of a process up to 9.0 GiB (rank 0, saving the checkpoint after step 3), "
            "sampled between phases"
        ),
        "measured: initialize 12.0 s, saving the checkpoint 1 min 15 s, load 31.3 s, ds-lint itself 4.0 s",
    ]


@pytest.mark.parametrize("verdict", [runs.of_script(), runs.of_script(projection=None), runs.verdict()])
def test_the_json_report(verdict, report, file):
    config = file("{}")
    config.smoke = [verdict]
    written = json.loads(as_json(report(config), Terminal()))
    with open(resources.path("schemas", "report.schema.json"), encoding="utf-8") as schema:
        Draft7Validator(json.load(schema)).validate(written)
    (run,) = written["smoke"]

    assert ("measured" in run) is (verdict.measured is not None)
    assert smoke.verdict_of(run).measured == verdict.measured


def test_the_page_has_the_sentences_and_the_peaks_of_each_rank():
    html = page([runs.of_script()], MadeBy("0.1.0", "ds-lint smoke"))
    assert "an epoch of 250 steps takes about 2 min 10 s" in html
    assert "Peaks by rank" in html
    assert "backward of step 2" in html


def test_a_small_run_has_nothing_of_it():
    assert told(runs.verdict()) == []
    assert "Time, memory and files" not in page([runs.verdict()], MadeBy("0.1.0", "ds-lint smoke"))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0123, "0.012 s"),
        (59.9, "59.9 s"),
        (520, "8 min 40 s"),
        (3600 * 3 + 60 * 12, "3 h 12 min"),
        (86400 * 2 + 3600 * 4, "2 days 4 h"),
        (86400, "1 day 0 h"),
    ],
)
def test_durations(seconds, words):
    assert duration(seconds) == words


def test_the_place_of_a_peak():
    peak = runs.of_script().measured.host_peaks[1]
    assert measurements.when(peak) == "the script between passes before step 1"
    assert measurements.when(peak._replace(phase="initialize", step=0)) == "initialize"
