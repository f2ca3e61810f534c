"""What people see of every command in a terminal of 80 columns, and what of it is left where there are no colours."""

from __future__ import annotations

import json
import re

import pytest
from command_line import write_into
from newest import FLAGS

from ds_lint.output.text import width_of

COLOUR = re.compile(r"\x1b\[[\d;]*m")
LINK = re.compile(r"\x1b\]8;;([^\x1b]*)\x1b\\")
# What a bare xterm shows in a colour that can be read on black and on white alike.
LEGIBLE = {"0", "1", "2", "1;31", "1;35", "1;94", "91", "94"}

BROKEN = {
    "train_micro_batch_size_per_gpu": 4,
    "描述": "中文說明 🚀",
    "gradient_cliping": 0.5,
    "zero_optimization": {
        "stage": 2,
        "überlap": "日本語",
        "offload_optimizer": {"device": "CPU"},
        "reduce_bucket_size": 5e8,
    },
    "optimizer": {"type": "AdamW", "params": {"lr": "3e-5", "betas": [0.9, 0.999]}},
    "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 0, "a very long name of a parameter " * 9: 1}},
}
CLEAN = {"train_batch_size": 8, "zero_optimization": {"stage": 3, "stage3_prefetch_bucket_size": 50000000}}
MODEL = {"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "vocab_size": 128256}
COMMANDS = [
    "check",
    "check broken.json",
    "check clean.json -v",
    "check --statistics",
    f"check --show-settings {' '.join(FLAGS)}",
    "upgrade --from 0.14.4 broken.json",
    "effective clean.json --stack trainer --world-size 8",
    "effective clean.json --against broken.json",
    "memory clean.json --model model --world-size 8 --gpu T4 --host-memory 64GB --sweep --stack deepspeed",
    "memory clean.json --model model --world-size 8 --gpu A100 --host-memory 64GB --stack deepspeed --plot -",
    "explain DS101",
    "explain zero_optimization.stage3_param_persistence_threshold",
    "rules",
    "init --output-file -",
]


@pytest.fixture(autouse=True)
def files(tmp_path):
    one_line = json.dumps(BROKEN, ensure_ascii=False)
    tabs = json.dumps(BROKEN, ensure_ascii=False, indent="\t")
    deep = {"zero_optimization": {"stage": 3, "a": {"b": {"c": {"d": {"e": [[[{}]]]}}}}}}
    files = {"broken.json": one_line, "tabs.json": tabs, "deep.json": deep, "clean.json": CLEAN}
    write_into(tmp_path)({**files, "model/config.json": MODEL})


def shown(run, command, **environment):
    result = run(*command.split(), **environment)
    assert result.returncode in (0, 1), result.stderr
    return result.stdout


def is_whole(line):
    """Whether a line is one that nothing can break: a word alone, a value with nothing beside it, or an address."""
    words = line.split()
    is_value = " = " in line and not re.search(r" = .*\S {2,}\S", line)
    return len(words) == 1 or is_value or "://" in line


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("columns", [80, 200])
def test_lines_fit(run, command, columns):
    lines = shown(run, command, COLUMNS=str(columns)).splitlines()
    too_long = [line for line in lines if width_of(line) > columns and not is_whole(line)]
    if command.startswith("explain"):  # an example is code
        too_long = [line for line in too_long if not line.startswith("    ")]
    assert too_long == []


@pytest.mark.parametrize("command", COMMANDS)
def test_colours_can_be_read_on_black_and_on_white_and_say_nothing_alone(run, command):
    plain = shown(run, command, COLUMNS="80")
    coloured = shown(run, command, COLUMNS="80", FORCE_COLOR="1")
    assert {code[2:-1] for code in COLOUR.findall(coloured)} <= LEGIBLE
    if command != "explain DS101":  # where colours take the place of backticks
        assert COLOUR.sub("", coloured) == plain


@pytest.mark.parametrize("command", COMMANDS)
def test_ascii_is_enough(run, command):
    assert shown(run, command, COLUMNS="80", PYTHONIOENCODING="ascii").isascii()


def test_carets_stand_below_wide_characters(run):
    lines = shown(run, "check tabs.json --select DS101", COLUMNS="80").splitlines()
    for number, line in enumerate(lines):
        if "描述" in line and '"' in line and "|" in line:
            marks = lines[number + 1]
            assert marks.index("^") == width_of(line[: line.index('"')])
            assert marks.count("^") == width_of('"描述"')
            break
    else:
        pytest.fail("the line is not shown")


def test_a_difference_is_painted_for_people_and_a_patch_for_programs(run):
    plain = run("check", "tabs.json", "--diff").stdout
    painted = run("check", "tabs.json", "--diff", FORCE_COLOR="1").stdout
    assert COLOUR.sub("", painted) == plain
    assert '\x1b[91m-\t"gradient_cliping": 0.5,\x1b[0m\n\x1b[94m+\t"gradient_clipping": 0.5,\x1b[0m' in painted


@pytest.mark.parametrize("output_format", ["full", "concise", "grouped"])
def test_links_take_no_columns(run, output_format):
    command = f"check broken.json --output-format {output_format}"
    colours = {"COLUMNS": "80", "FORCE_COLOR": "1"}
    linked = shown(run, command, **colours, FORCE_HYPERLINK="1")
    assert LINK.sub("", linked) == shown(run, command, **colours)
    pages = [url for url in LINK.findall(linked) if url]
    assert "https://ds-lint.readthedocs.io/en/latest/rules/DS101-unknown-key/" in pages
    assert len(LINK.findall(linked)) == 2 * len(pages)  # each ends
    assert shown(run, f"{command} --color never", **colours, FORCE_HYPERLINK="1") == shown(run, command, COLUMNS="80")
