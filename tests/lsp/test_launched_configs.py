"""The editor knows the launches of a config, and shows what they bring up in either file."""

from __future__ import annotations

import json

import pytest

BATCH = '{"train_batch_size": 10, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 2}'
GOOD = BATCH.replace("10", "8")
LAUNCH = "deepspeed --num_gpus {} train.py --deepspeed --deepspeed_config conf/ds.json\n"
TRAIN = """\
from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments
(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
model = AutoModelForCausalLM.from_pretrained("a/b", device_map="auto")
Trainer(model=model, args=args).train()
"""
AT_STAGE_3 = '{"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3}}'
RECIPE = """\
model_name_or_path: someone/qwen3
stage: sft
finetuning_type: lora
template: qwen3
deepspeed: conf/ds.json
gradient_accumulation_steps: 4
"""


@pytest.fixture
def write(tmp_path):
    def write(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    return write


def shown(client, name, codes, *, named=None):
    """The diagnostics of a text, once they have these codes, and the first of them names this file if one is given."""
    uri = client.uri(name)
    while True:
        for message in client.notifications:
            params = message["params"]
            if message["method"] == "textDocument/publishDiagnostics" and params["uri"] == uri:
                client.notifications.remove(message)
                found = params["diagnostics"]
                if sorted(one["code"] for one in found) == sorted(codes) and (
                    named is None or named in {file for file, _ in related(found[0])}
                ):
                    return found
                break
        else:
            client._next()


def related(diagnostic):
    places = diagnostic.get("relatedInformation") or []
    return [(one["location"]["uri"].rpartition("/")[2], one["location"]["range"]["start"]["line"]) for one in places]


def test_a_config_has_the_findings_of_its_launch(client, write, run):
    write({"conf/ds.json": BATCH, "run.sh": "set -e\n" + LAUNCH.format(4)})
    client.open("conf/ds.json", BATCH)
    (found,) = shown(client, "conf/ds.json", ["DS512"])
    assert ("run.sh", 1) in related(found)
    report = json.loads(run("check", "conf/ds.json", "--output-format", "json").stdout)
    assert [one["message"] for one in report["findings"]] == [found["message"].partition("\n")[0]]
    client.change("conf/ds.json", GOOD)
    assert client.diagnostics("conf/ds.json") == []
    client.change("conf/ds.json", BATCH)
    assert [one["code"] for one in client.diagnostics("conf/ds.json")] == ["DS512"]


def test_the_script_that_is_open_shows_the_findings_of_its_config(client, write):
    write({"conf/ds.json": BATCH, "run.sh": LAUNCH.format(4)})
    client.open("conf/ds.json", BATCH)
    client.open("run.sh", LAUNCH.format(4), language="shellscript")
    (found,) = shown(client, "run.sh", ["DS512"])
    assert found["range"]["start"] == {"line": 0, "character": 0}
    assert [name for name, _ in related(found)] == ["ds.json"]
    client.change("conf/ds.json", GOOD)
    shown(client, "run.sh", [])
    client.change("conf/ds.json", BATCH)
    shown(client, "run.sh", ["DS512"])
    client.close("run.sh")
    shown(client, "run.sh", [])


def test_a_script_alone_shows_the_findings_of_the_config_that_it_launches(client, write):
    write({"conf/ds.json": BATCH, "run.sh": LAUNCH.format(4)})
    client.open("run.sh", LAUNCH.format(4), language="shellscript")
    shown(client, "run.sh", ["DS512"])
    write({"conf/ds.json": GOOD})
    client.save("run.sh")
    shown(client, "run.sh", [])


def test_a_script_counts_with_its_text_that_is_not_saved(client, write):
    write({"conf/ds.json": BATCH, "run.sh": LAUNCH.format(5)})
    client.open("conf/ds.json", BATCH)
    client.open("run.sh", LAUNCH.format(5), language="shellscript")
    client.change("run.sh", "\n\n" + LAUNCH.format(4))
    (found,) = shown(client, "conf/ds.json", ["DS512"])
    assert ("run.sh", 2) in related(found)
    assert [one["range"]["start"]["line"] for one in shown(client, "run.sh", ["DS512"])] == [2]
    client.change("run.sh", LAUNCH.format(5))
    shown(client, "conf/ds.json", [])
    shown(client, "run.sh", [])


def test_a_new_script_that_is_saved_nowhere_counts(client, write):
    write({"conf/ds.json": BATCH})
    client.open("conf/ds.json", BATCH)
    assert client.diagnostics("conf/ds.json") == []
    client.open("new.sh", LAUNCH.format(4), language="shellscript")
    shown(client, "conf/ds.json", ["DS512"])
    client.close("new.sh")
    shown(client, "conf/ds.json", [])


def test_a_script_that_changes_on_the_disk_counts_as_it_is(client, write):
    write({"conf/ds.json": BATCH, "run.sh": LAUNCH.format(5)})
    client.open("conf/ds.json", BATCH)
    assert client.diagnostics("conf/ds.json") == []
    write({"run.sh": "# more ranks\n" + LAUNCH.format(4), "other.sh": LAUNCH.format(4)})
    client.notify("workspace/didChangeWatchedFiles", changes=[{"uri": client.uri("run.sh"), "type": 2}])
    shown(client, "conf/ds.json", ["DS512"], named="other.sh")  # the look before may have seen the new run.sh alone


def test_the_training_script_shows_what_it_does_to_the_config(client, write):
    launch = "deepspeed train.py --deepspeed conf/ds.json\n"
    write({"conf/ds.json": AT_STAGE_3, "run.sh": launch, "train.py": TRAIN})
    client.open("conf/ds.json", AT_STAGE_3)
    client.open("train.py", TRAIN, language="python")
    (found,) = shown(client, "train.py", ["DS820"])
    assert found["range"]["start"]["line"] == 2


def test_a_recipe_shows_the_findings_of_the_config_that_it_names(client, write):
    config = AT_STAGE_3.replace(": 1", ': "auto", "gradient_accumulation_steps": 8').replace("3", "2")
    write({"conf/ds.json": config, "a.yaml": RECIPE})
    client.open("conf/ds.json", config)
    (found,) = shown(client, "conf/ds.json", ["DS610"])
    assert related(found) == [("a.yaml", 5)]
    client.open("a.yaml", RECIPE, language="yaml")
    assert [one["range"]["start"]["line"] for one in shown(client, "a.yaml", ["DS610"])] == [5]
    client.change("a.yaml", RECIPE.replace("4", "8"))
    shown(client, "a.yaml", [])
    shown(client, "conf/ds.json", [])


def test_a_config_outside_of_a_repository_has_no_launches(client, write, tmp_path):
    (tmp_path / ".git").rmdir()
    write({"conf/ds.json": BATCH, "run.sh": LAUNCH.format(4)})
    client.open("conf/ds.json", BATCH)
    assert client.diagnostics("conf/ds.json") == []
    client.open("run.sh", LAUNCH.format(4), language="shellscript")
    client.request("ds-lint/target", uri="")
    assert not [one for one in client.notifications if one["params"].get("diagnostics")]
