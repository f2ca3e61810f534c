"""Launches that agree in what a lint reads are linted once, and what they find is what each finds alone."""

from __future__ import annotations

import pytest
from launched_script import facts_of_script

from ds_lint.facts.launched import LaunchFacts
from ds_lint.facts.reads import Reads, values_at
from ds_lint.knowledge.keys import knowledge
from ds_lint.launches.scripts import launches_in
from ds_lint.linter.lint import lint
from ds_lint.semantics.basis import Basis
from ds_lint.session.material import linted
from ds_lint.source.document import Document
from ds_lint.source.json import parse

TRAIN = "torchrun --nproc_per_node 2 train.py --deepspeed ds.json --output_dir out --bf16 True --save_steps 10 {}\n"


def launched(*flags):
    text = "".join(map(TRAIN.format, flags))
    document = Document("run.sh", text, None, [])
    return [LaunchFacts(one, document, None) for one in launches_in(text, "run.sh", lambda _: None).launches]


@pytest.mark.parametrize(
    ("flags", "times"),
    [
        (("--seed 42", "--seed 43", "--seed 44"), 1),
        (("--run_name a --learning_rate 1e-5", "--run_name b --learning_rate 2e-5"), 1),
        (("--per_device_train_batch_size 2", "--per_device_train_batch_size 4"), 2),
        (("--seed 1", ""), 2),
        (("--seed 1", "--seed one"), 2),
    ],
    ids=["a seed", "a name and a rate", "a batch", "whether there is one", "what the field refuses"],
)
def test_a_config_is_linted_once_for_each_question(flags, times):
    config, seen = parse('{"train_micro_batch_size_per_gpu": "auto"}', "ds.json"), []
    linted(Basis(knowledge()), launched(*flags), lambda basis: seen.append(basis.facts.launch) or lint(config, basis))
    assert len([one for one in seen if one is not None]) == times


READERS = {
    "an argument": lambda facts: facts.launch.arguments["seed"],
    "an argument that may be missing": lambda facts: facts.launch.arguments.get("seed"),
    "all arguments": lambda facts: dict(facts.launch.arguments),
    "the words": lambda facts: list(facts.launch.flags),
    "the command": lambda facts: facts.launch.command[-1],
    "a flag": lambda facts: facts.values["seed"],
    "a training argument": lambda facts: facts.training.given["seed"].value,
    "all training arguments": lambda facts: [one.value for one in {**facts.training.given}.values()],
}


@pytest.mark.parametrize("read", READERS.values(), ids=list(READERS))
def test_a_value_that_is_read_tells_launches_apart(read):
    one, same, other = launched("--seed 1", "--seed 1", "--seed 2")
    reads = Reads(one)
    assert reads.names == ()
    assert read(reads.launch) == read(one)
    assert values_at(reads.names, one) == values_at(reads.names, same) != values_at(reads.names, other)


def test_that_an_argument_is_there_is_no_reading():
    (one,) = launched("--seed 1")
    reads = Reads(one)
    assert "seed" in reads.launch.launch.arguments
    assert reads.launch.training.given["seed"].origin == "run.sh:1"
    assert len(reads.launch.values) == len(one.values)
    assert reads.names == ()


@pytest.mark.parametrize(("word", "are_one"), [("eager", True), ("sdpa", False)])
def test_scripts_that_load_the_model_in_other_ways_are_not_one(word, are_one):
    load = "model = AutoModel.from_pretrained('gpt2', attn_implementation='{}')\nTrainer(model).train()\n"
    first, second = (facts_of_script(load.format(one)).launch.circumstances for one in ("eager", word))
    assert (first == second) is are_one
