"""The benchmarks measure what they say, on projects of the size that they say; their page shows what was recorded."""

from __future__ import annotations

import ast
import json
import subprocess
import sys

import pytest
import yaml
from command_line import clean_environment

from tools.bench import BENCHES, RESULTS
from tools.bench.cost import Cost, cost, in_turns
from tools.bench.growth import exponent
from tools.bench.peers import texts
from tools.bench.size_texts import CLEAN, GROWING, own_config
from tools.site import benchmarks

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@pytest.mark.parametrize("power", [1, 2])
def test_the_exponent_is_the_power_of_the_size(power):
    assert exponent({size: 1e-3 * size**power for size in (50, 100, 200, 400)}) == pytest.approx(power)


def test_what_costs_nothing_has_no_exponent():
    assert exponent({50: 0.001, 100: -0.002, 200: 0.004, 400: 0.03}) is None


def shown(folder, what):
    command = [sys.executable, "-m", "ds_lint", "check", f"--show-{what}", "--output-format", "json"]
    done = subprocess.run(command, cwd=folder, env=clean_environment(), capture_output=True, check=True)
    return json.loads(done.stdout)[what]


@pytest.mark.parametrize("case", GROWING, ids=[case.name for case in GROWING])
def test_a_project_of_a_size_has_as_many(case, tmp_path):
    case.write(tmp_path, 16)
    configs, launches = shown(tmp_path, "files"), shown(tmp_path, "launches")
    kind = case.name.partition(",")[0].partition(" ")[0]
    sizes = {"configs": (16, 0), "launches": (1, 16), "releases": (1, 20), "scripts": (2, 16)}
    assert (len(configs), len(launches)) == sizes[kind]
    named = {launch["deepspeed_config"] for launch in launches}
    assert len(named) == len(configs) or not launches


def test_the_memory_is_that_of_the_process_and_not_of_the_benchmark(tmp_path):
    held = bytearray(b"1") * 200_000_000
    assert cost([sys.executable, "-c", "pass"], tmp_path).memory < len(held) / 1e6
    assert cost([sys.executable, "-c", "bytearray(b'1') * 200_000_000"], tmp_path).memory > len(held) / 1e6


def test_a_command_that_fails_is_not_measured(tmp_path):
    with pytest.raises(SystemExit, match="exit status 3"):
        cost([sys.executable, "-c", "raise SystemExit(3)"], tmp_path)


def test_runs_are_in_turns_and_the_first_of_each_only_warms_up():
    taken = iter([Cost(100.0, 0, 0), Cost(100.0, 0, 0), *(Cost(float(n), 0, 0) for n in (1, 2, 3, 4, 8, 6))])
    costs = in_turns({"a": lambda: next(taken), "b": lambda: next(taken)}, 3)
    assert {name: one.cpu for name, one in costs.items()} == {"a": 3.0, "b": 4.0}


def test_other_linters_read_the_same_config():
    files, config = texts(7), own_config(7)
    assert json.loads(files["7.json"]) == yaml.safe_load(files["7.yaml"]) == tomllib.loads(files["7.toml"]) == config
    assert ast.literal_eval(ast.parse(files["7.py"]).body[1].value) == config
    assert config == {**CLEAN, "steps_per_print": 8} != own_config(8)


def test_the_page_shows_what_was_recorded():
    results, page = json.loads(RESULTS.read_text(encoding="utf-8")), benchmarks.page()
    for bench, result in results.items():
        section = page.partition(f"## {BENCHES[bench]}\n")[2].partition("\n## ")[0]
        assert "\n".join(result["printed"]) in section
        assert f"Measured on {result['day']}: {result['machine']}." in section
        assert f"python -m tools.bench.{bench}" in section
