"""Keywords that ds-lint says a class refuses, against calls of the classes of several releases."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys

import pytest

from ds_lint.knowledge import tables
from ds_lint.knowledge.keys import Target, knowledge
from ds_lint.launches.keyword_calls import keyword_calls
from ds_lint.linter.lint import lint
from ds_lint.semantics.basis import Basis
from ds_lint.source.absent_name import document_of
from ds_lint.targets.pin import Pin

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.fidelity

# What a release runs with beside what is installed.
TRANSFORMERS = {
    "4.46.3": ("huggingface_hub==0.26.5", "tokenizers==0.20.3"),
    "4.57.6": ("huggingface_hub==0.36.0", "tokenizers==0.22.1"),
}
TRL = ("0.12.2", "0.24.0", "1.16.0")
OF_TRANSFORMERS = ("TrainingArguments", "Trainer", "Seq2SeqTrainer")
OF_TRL = ("SFTConfig", "DPOConfig", "RewardConfig", "GRPOConfig", "KTOConfig", "ModelConfig", "ScriptArguments")
CALLS = """
import importlib, json, sys
library, calls = json.load(sys.stdin)
answers = []
for name, keywords in calls:
    try:
        made = getattr(importlib.import_module(library), name)
    except Exception:
        answers.append(None)
        continue
    try:
        made(**dict.fromkeys(keywords))
        answers.append("")
    except BaseException as error:
        answers.append(str(error) if "unexpected keyword" in str(error) else "")
json.dump(answers, open(sys.argv[1], "w"))
"""


def random_calls(library, number, seed):
    """Calls with keywords that some release has, some of them misspelled."""
    names = sorted(tables.load("transformers")["training_arguments"])
    trainer = sorted(
        {one for run in tables.load("trainer")["trainers"]["Trainer"]["runs"] for one in run["parameters"]}
    )
    fields = [name.rsplit(".", 2)[-2:] for name in tables.load("trl")["fields"] if name.count(".") == 1]
    draw = random.Random(seed)
    for _ in range(number):
        cls = draw.choice(OF_TRANSFORMERS if library == "transformers" else OF_TRL)
        own = [field for of, field in fields if of == cls]
        known = [*trainer, "tokenizer"] if cls.endswith("Trainer") else [*names, *own, *own] if own else names
        keywords = draw.sample(known, draw.randint(1, 3))
        if {"tokenizer", "processing_class"} <= set(keywords):  # which are refused together, by another error
            keywords.remove("tokenizer")
        if draw.random() < 0.3:
            keywords[0] = keywords[0][:-1] if draw.random() < 0.5 else f"{keywords[0]}s"
        yield cls, sorted(set(keywords))


def answers(library, calls, folder, path=""):
    """What Python says of each call; None where the release has no such class."""
    environment = {**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1"}
    out = folder / "answers.json"
    subprocess.run(
        [sys.executable, "-c", CALLS, str(out)],
        input=json.dumps((library, calls)),
        text=True,
        check=True,
        env=environment,
        cwd=folder,
        capture_output=True,
    )
    return json.loads(out.read_text())


def said(library, cls, keywords, release):
    """The keywords that ds-lint reports."""
    text = f"import {library}\n{library}.{cls}({', '.join(f'{one}=None' for one in keywords)})\n"
    pins = {library: Pin(library, f"=={release}", "here")}
    target = Target(transformers=release) if library == "transformers" else Target()
    document = document_of("train.py", text, keyword_calls(text, "", None))
    report = lint(document, Basis(knowledge(target), pins=pins))
    return [text[one.span.start : one.span.end] for one in report.findings if one.code == "DS683"]


def compare(library, release, number, folder, path=""):
    calls = list(random_calls(library, number, seed=f"{library} {release}"))
    wrong, compared = [], 0
    for (cls, keywords), answer in zip(calls, answers(library, calls, folder, path), strict=True):
        if answer is None:
            continue
        compared += 1
        refused = said(library, cls, keywords, release)
        named = answer.rpartition("keyword argument ")[2].split("'")[1] if answer else ""
        if (named not in refused) if named else refused:
            wrong.append((cls, keywords, answer, refused))
    assert compared > number / 3
    assert not wrong, wrong[:5]


def test_the_installed_classes_refuse_what_ds_lint_says(tmp_path):
    compare("transformers", transformers.__version__, 60, tmp_path)


def installed(folder, *requirements):
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder), *requirements]
    subprocess.run(command, check=True, capture_output=True)
    return str(folder)


@pytest.mark.long
@pytest.mark.parametrize("release", TRANSFORMERS)
def test_older_classes_of_transformers_refuse_what_ds_lint_says(release, tmp_path):
    path = installed(tmp_path / "site", f"transformers=={release}", *TRANSFORMERS[release])
    compare("transformers", release, 400, tmp_path, path)


@pytest.mark.long
@pytest.mark.parametrize("release", TRL)
def test_the_configs_of_trl_refuse_what_ds_lint_says(release, tmp_path):
    compare("trl", release, 400, tmp_path, installed(tmp_path / "site", f"trl=={release}"))
