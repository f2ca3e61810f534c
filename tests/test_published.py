"""The published schemas agree with ds-lint: clean configs pass, unknown keys are flagged, and nothing is stale."""

from __future__ import annotations

import json
import os
import re
from fnmatch import fnmatch
from pathlib import Path

import jsonschema
import pytest
from linted import lint_bytes, lint_file

from ds_lint import json_schema
from ds_lint.cli import run
from ds_lint.diagnostics.finding import Finding
from ds_lint.json_schema.snippets import SNIPPETS, WHOLE_CONFIGS
from ds_lint.json_schema.values import COMMENTS, TEMPLATE, in_any_case
from ds_lint.knowledge import keys
from ds_lint.knowledge.keys import Knowledge, Target
from ds_lint.source import tolerant
from ds_lint.source.spelling import is_comment
from tools import publish_schemas

ROOT = Path(__file__).parent.parent
CORPUS = Path(os.environ.get("DS_LINT_CORPUS", ROOT.parent / "shared" / "corpus"))
FILES = publish_schemas.files()
SCHEMAS = {name: json.loads(text) for name, text in FILES.items() if name.startswith("deepspeed-")}
LATEST = jsonschema.Draft7Validator(SCHEMAS[publish_schemas.LATEST])
WITH_CORPUS = pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here")


def is_clean(findings: list[Finding]) -> bool:
    return all(finding.severity == "info" for finding in findings)


def linted(config: object) -> list[Finding]:
    return lint_bytes(json.dumps(config).encode(), "config.json").findings


def errors(config: object, validator=LATEST) -> list[str]:
    return [f"{error.json_path}: {error.message[:200]}" for error in validator.iter_errors(config)]


def unknown_keys(config: object) -> set[str]:
    """The key paths that the schema says may not be there."""
    return {
        ".".join([*map(str, error.absolute_path), name])
        for top in LATEST.iter_errors(config)
        for error in _with_causes(top)
        if error.validator == "additionalProperties"
        for name in error.instance
        if name not in error.schema.get("properties", ())
        and not any(re.search(pattern, name) for pattern in error.schema.get("patternProperties", ()))
    }


def _with_causes(error):
    yield error
    for cause in error.context:
        yield from _with_causes(cause)


# The files


@pytest.mark.parametrize("name", FILES)
def test_what_is_checked_in_is_current(name):
    path = publish_schemas.FOLDER / name
    assert path.exists(), "python -m tools.publish_schemas"
    assert path.read_text(encoding="utf-8") == FILES[name], "python -m tools.publish_schemas"


def test_nothing_else_is_checked_in():
    assert {path.name for path in publish_schemas.FOLDER.iterdir()} == set(FILES) - {publish_schemas.LAUNCHES}


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas_are_valid_and_of_a_size_that_editors_load(name):
    jsonschema.Draft7Validator.check_schema(SCHEMAS[name])
    assert SCHEMAS[name]["$schema"] == json_schema.DRAFT
    assert len(FILES[name]) < 300_000


@pytest.mark.parametrize("name", SCHEMAS)
def test_references_lead_somewhere(name):
    used = set(re.findall(r'"\$ref": "#/definitions/([^"]*)"', FILES[name]))
    assert used <= set(SCHEMAS[name]["definitions"])


def test_every_release_has_a_schema():
    for release in Knowledge().releases[::8]:
        made = json_schema.schema(Knowledge(Target(release)))
        jsonschema.Draft7Validator.check_schema(made)
        assert not errors({"train_batch_size": 8, "fp16": {"enabled": True}}, jsonschema.Draft7Validator(made))


def test_releases_differ_where_deepspeed_does():
    """What came, went and changed its strictness."""
    then, now = SCHEMAS["deepspeed-0.16.schema.json"]["properties"], SCHEMAS[publish_schemas.LATEST]["properties"]
    assert "not" in now["amp"]
    assert "not" not in then["amp"]
    assert "patternProperties" in then["fp16"]
    assert "patternProperties" not in now["fp16"]
    assert "expert_parallel" not in then
    assert then["amp"]["additionalProperties"] == {}  # passed on to apex
    assert "thread_count" in SCHEMAS["deepspeed-0.15.schema.json"]["properties"]["aio"]["properties"]


# The catalogue


def test_the_catalogue_names_what_is_published():
    entry = json.loads(FILES[publish_schemas.ENTRY])
    names = {url.removeprefix(publish_schemas.ADDRESS) for url in [entry["url"], *entry["versions"].values()]}
    assert names == set(SCHEMAS)


@pytest.mark.parametrize(
    "name",
    [
        "adapter_config.json",
        "ads_config.json",
        "config.json",
        "dataset_config.json",
        "deepspeed_results.json",
        "design-system.ds.json",
        "ds-config.json",  # of design systems, DocSearch and dev-sidecar, more often than of DeepSpeed
        "ds.json",
        "ds_settings.json",
        "generation_config.json",
        "package.json",
        "stage2.json",
        "train.json",
        "tsconfig.json",
        "zero3.json",
    ],
)
def test_no_stranger_is_taken_for_a_config(name):
    assert not matches(name)


def names_in_the_corpus():
    """Whether a file of the corpus is a DeepSpeed config, and the name that it has where it comes from."""
    for line in (CORPUS / "manifest.jsonl").read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        yield entry["file"].startswith("configs/"), os.path.basename(entry["path"])


@WITH_CORPUS
def test_most_configs_are_found_by_their_name():
    names = [name for is_config, name in names_in_the_corpus() if is_config]
    assert sum(map(matches, names)) > 0.7 * len(names)


@WITH_CORPUS
def test_files_beside_the_configs_are_not():
    assert [name for is_config, name in names_in_the_corpus() if not is_config and matches(name)] == []


def test_editors_read_every_pattern_as_a_name():
    """A pattern with a folder is read in one way by VS Code, and in another by the servers of other editors."""
    for pattern in publish_schemas.FILE_MATCH:
        assert re.fullmatch(r"[\w*.-]+\.json", pattern), pattern
        assert re.search(r"deepspeed|(?<![a-z])ds[_-]", pattern), pattern


def matches(name: str) -> bool:
    return any(fnmatch(name, pattern) for pattern in publish_schemas.FILE_MATCH)


# Agreement


@WITH_CORPUS
def test_real_configs_that_are_clean_pass_and_unknown_keys_are_flagged():
    clean = unknown = 0
    for path in sorted((CORPUS / "configs").glob("*.json")):
        try:
            config = json.loads(path.read_bytes())
        except ValueError:
            continue
        findings = lint_file(str(path)).findings
        if is_clean(findings):
            clean += 1
            assert errors(config) == [], path.name
        keys = {finding.key for finding in findings if finding.code in ("DS101", "DS102")}
        unknown += len(keys)
        assert keys - unknown_keys(config) == set(), path.name
    assert clean > 400
    assert unknown > 200


def test_the_examples():
    assert errors(json.loads((ROOT / "examples" / "clean.json").read_text())) == []
    assert errors(json.loads((ROOT / "examples" / "broken.json").read_text())) != []


VALUES = (
    None, True, False, 0, 1, 2, -1, 1.5, 3.0, 5e8, 1e-3, "auto", "3", " 3.0", "1_000", "1e-3", "nan", "yes", "OFF", "",
    "x", "cpu", "none", "${X}", "CONFIG_X", [], [1, 2], [0.9, 0.99], ["a"], [{}], [{"_c": 1}], [{"x": 1}], {},
    {"_c": 1}, {"x": 1}, {"device": "cpu"}, {"enabled": True},
)  # fmt: skip
# Alone, with an optimizer, and for the Trainer.
SURROUNDINGS = (
    {"train_micro_batch_size_per_gpu": 1},
    {"train_micro_batch_size_per_gpu": 1, "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}},
    {"train_micro_batch_size_per_gpu": "auto", "bf16": {"enabled": True}},
)


def paths(key):
    """Every key that a config can name, second names included; ``x`` is a name of the user's own."""
    for name in [*key.names(), *(["x"] if key.child("x") else [])]:
        child = key.child(name)
        yield child, child.path
        if "alias" in child.facts:
            yield child, (*child.path[:-1], child.facts["alias"])
        if "removed" not in child.facts and child.facts.get("unknown") != "by-type":
            yield from paths(child)
            if (item := child.item()) is not None:
                yield from paths(item)


def put(config: dict, path: tuple[str, ...], value: object) -> dict:
    """A copy of a config with one more value; ``0`` is the only element of an array."""
    name, *below = path
    if below[:1] == ["0"]:
        return {**config, name: [put({}, tuple(below[1:]), value)]}
    inner = config.get(name)
    return {**config, name: put(inner if isinstance(inner, dict) else {}, tuple(below), value) if below else value}


def disagreements(config: dict) -> list[str]:
    """Where the schema flags what ds-lint finds nothing wrong with, or passes a key that ds-lint does not know.

    A key below a plain value (``{"stage": {"x": 1}}``) is flagged by the refusal of the value that it stands in.
    """
    findings = linted(config)
    found = errors(config) if is_clean(findings) else []
    unknown = {documented(finding.key) for finding in findings if finding.code == "DS101"}
    missed = unknown - set(map(documented, unknown_keys(config))) if unknown else set()
    refused = {documented(error.json_path[2:]) for error in LATEST.iter_errors(config)} if missed else set()
    return [*found, *(f"not flagged: {key}" for key in missed if key.rpartition(".")[0] not in refused)]


def documented(path: str) -> str:
    """A key path with every second name replaced by the first, as findings below one have it."""
    parts = tuple(path.split("."))
    known = [key for end in range(len(parts) + 1) if (key := keys.knowledge().find(parts[:end])) is not None]
    return ".".join((*known[-1].path, *parts[len(known[-1].path) :]))


def every_key_with_every_kind_of_value():
    for key, path in paths(keys.knowledge().root):
        choices = [*key.facts.get("enum", ()), *key.facts.get("one_of", ()), *key.facts.get("numbers", ())]
        choices += [choice.swapcase() for choice in choices if isinstance(choice, str)]
        yield from ((path, value) for value in [*VALUES, *choices, key.facts.get("default")])


def disagreements_on_keys(step: int):
    for number, surrounding in enumerate(SURROUNDINGS):
        for path, value in list(every_key_with_every_kind_of_value())[number::step]:
            if found := disagreements(put(surrounding, path, value)):
                yield path, value, found


def test_keys_and_values():
    assert list(disagreements_on_keys(53)) == []  # the step shares no factor with the number of values


@pytest.mark.long
def test_every_key_with_every_kind_of_value():
    assert list(disagreements_on_keys(1)) == []


def constructions():
    """Every type of optimizer and scheduler with every name of a parameter."""
    knowledge = keys.knowledge()
    for section in ("optimizer", "scheduler"):
        own = knowledge.types(f"{section}.params")
        torch = knowledge.torch[f"{section}s"]
        names = {name for kind in own for one in knowledge.constructors(f"{section}.params", kind)
                 for name in one.get("parameters", ())}  # fmt: skip
        names |= {name for parameters in torch.values() for name in parameters}
        for kind in [*own, *torch, "muon", "MuON", "AdamW", "ADAM", "lamb", "nothing", "auto", "${X}", None]:
            yield section, kind, sorted({*names, "max_grad_norm", "adam_w_mode", "torch_adam", "muon_lr", "nothing"})


OFFLOADED = {"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
SCHEDULED = {"scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 10, "warmup_max_lr": 1e-3}}}


def disagreements_on_parameters(step: int):
    surroundings = (*SURROUNDINGS, SURROUNDINGS[0] | OFFLOADED, SURROUNDINGS[1] | SCHEDULED)
    configs = [
        (section, {"type": kind, "params": {"total_num_steps": 10} if kind == "WarmupDecayLR" else {}}, name, value)
        for section, kind, names in constructions()
        for name in names
        for value in (0.1, 1, "auto", "0.1", False, [0.9, 0.99], None)
    ]
    for number, surrounding in enumerate(surroundings):
        for section, written, name, value in configs[number::step]:
            if found := disagreements(put({**surrounding, section: written}, (section, "params", name), value)):
                yield section, written["type"], name, value, found


def test_parameters():
    assert list(disagreements_on_parameters(101)) == []


@pytest.mark.long
def test_every_parameter():
    assert list(disagreements_on_parameters(1)) == []


@pytest.mark.parametrize(
    ("config", "place"),
    [
        ({"zero_optimization": {"stage": "3"}}, "$.zero_optimization.stage"),
        ({"zero_optimization": {"stage": 4}}, "$.zero_optimization.stage"),
        ({"zero_optimization": {"reduce_bucket_size": 1.5}}, "$.zero_optimization.reduce_bucket_size"),
        ({"zero_optimization": {"_note": "strict"}}, "$.zero_optimization"),
        ({"zero_optimization": {"offload_param": {"device": "CPU"}}}, "$.zero_optimization.offload_param.device"),
        ({"gradient_clipping": "1.0"}, "$.gradient_clipping"),
        ({"train_batch_size": "8"}, "$.train_batch_size"),
        ({"amp": {"enabled": False}}, "$.amp"),
        ({"optimizer": {"type": "Adamm"}}, "$.optimizer.type"),
        ({"optimizer": {"type": "AdamW", "params": {"lr": "3e-5"}}}, "$.optimizer.params.lr"),
        ({"optimizer": {"type": "adamW", "params": {"warmup": 1}}}, "$.optimizer.params"),
        ({"optimizer": {"type": "AdamW", "params": {"max_grad_norm": 1}}}, "$.optimizer.params.max_grad_norm"),
        (
            {"train_batch_size": "auto", "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 0}}},
            "$.scheduler.params.warmup_num_steps",
        ),
    ],
)
def test_mistakes_are_flagged_at_their_place(config, place):
    assert [error.split(": ")[0] for error in errors(config)] == [place]


def test_patterns_say_what_the_code_says():
    names = ["_a", "//", "# x", "$schema", "comment", "COMMENTS", "Comment", "a", "commented", "a_comment", "a#", ""]
    for name in names:
        assert bool(re.search(COMMENTS, name)) == is_comment(name), name
    texts = ["${LR}", "a/${B}/c", "{{ lr }}", "{% if %}", "%(lr)s", "$HOME", "/$HOME/x", "a$HOME", "<lr>", "CONFIG_LR"]
    for text in [*texts, "__LR__", "__", "x<lr>", "cpu", "${}", "%d", "CONFIG_", "CONFIG", "<1>"]:
        assert bool(re.search(TEMPLATE, text)) == bool(tolerant._QUOTED_TEMPLATE.search(text)), text
    assert re.search(in_any_case(["torch.float16"]), "Torch.FLOAT16")
    assert not re.search(in_any_case(["torch.float16"]), "torchxfloat16")


# What editors offer


def snippets(schema, path=()):
    """Every snippet of a schema with the path that it would be written to."""
    for snippet in schema.get("defaultSnippets", ()):
        yield path, snippet["body"]
    for name, below in schema.get("properties", {}).items():
        yield from snippets(below, (*path, name))


@pytest.mark.parametrize("name", SCHEMAS)
def test_snippets_pass(name):
    found = list(snippets(SCHEMAS[name]))
    assert len(found) >= len(SNIPPETS) + 1
    for path, body in found:
        config = put({"train_micro_batch_size_per_gpu": 1}, path, body) if path else body
        assert errors(config, jsonschema.Draft7Validator(SCHEMAS[name])) == []


def test_snippets_are_clean_and_nothing_is_lost_in_the_newest():
    found = list(snippets(SCHEMAS[publish_schemas.LATEST]))
    assert len(found) == sum(map(len, SNIPPETS.values())) + len(WHOLE_CONFIGS)
    for path, body in found:
        base = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2}}
        if len(path) == 2:  # offload
            base["zero_optimization"] = {"stage": 3, "stage3_gather_16bit_weights_on_model_save": True}
        config = put(base, path, body) if path else body
        found = [finding for finding in linted(config) if finding.severity != "info"]
        assert [finding.message for finding in found] == [], path


def test_every_documented_key_of_the_newest_release_is_described():
    def undescribed(schema, path=()):
        for name, below in schema.get("properties", {}).items():
            if "description" not in below and name != "params":
                yield ".".join((*path, name))
            yield from undescribed(below, (*path, name))

    latest = SCHEMAS[publish_schemas.LATEST]
    assert list(undescribed({"properties": latest["properties"]})) == []


# The command


def test_the_command_prints_and_writes(capsys, tmp_path):
    assert run(["schema"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == {key: value for key, value in SCHEMAS[publish_schemas.LATEST].items() if key != "$id"}
    target = tmp_path / "schema.json"
    assert run(["schema", "--deepspeed-version", "0.16", "--output-file", str(target)]) == 0
    assert json.loads(target.read_text())["title"] == "DeepSpeed 0.16.9 config"
    assert run(["schema", "--deepspeed-version", "0.14.3"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "DeepSpeed 0.14.3 config"


def test_the_command_refuses_what_it_cannot_do(capsys, tmp_path):
    assert run(["schema", "--deepspeed-version", "7.0"]) == 2
    assert "ds-lint does not know DeepSpeed 7.0; it knows 0.3.1 to" in capsys.readouterr().err
    assert run(["schema", "--output-file", str(tmp_path / "nowhere" / "x.json")]) == 2
    assert "nowhere" in capsys.readouterr().err
