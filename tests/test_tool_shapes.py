"""What else is read off the libraries: a layout that is not known is an error there too."""

from __future__ import annotations

import importlib.metadata
import json
import sys
from types import ModuleType

import pytest

from tools import launcher_options, lora_targets, model_classes
from tools.raises.sites import MANY, sites, sites_of
from tools.raises.table import extracted

# Options of launchers

PARSER = """
def parse_args():
    parser = argparse.ArgumentParser()
    group = parser.add_argument_group("more")
    parser.add_argument("-H", "--hostfile", type=str, help="hosts")
    group.add_argument("--force_multi", action="store_true")
    parser.add_argument("user_args", nargs=argparse.REMAINDER)


def again(argument):
    parser.add_argument(argument, type=kind)
"""


def options(folder, text):
    (folder / "runner.py").write_text(text, encoding="utf-8")
    return launcher_options._options(folder, ["runner.py"])


def test_the_options_of_a_launcher(tmp_path):
    assert options(tmp_path, PARSER) == {"-H": "1", "--hostfile": "1", "--force_multi": "0"}


@pytest.mark.parametrize(
    ("before", "after", "error"),
    [
        ("add_argument(", "add_option(", "adds an option to a parser"),
        ('group.add_argument("--force_multi"', 'add("--force_multi"', "parse_args adds an argument by add("),
        ('"--force_multi"', "f'--{name}'", "parse_args adds an argument by group.add_argument"),
        ('"--force_multi", action', "*names, action", "parse_args adds an argument by group.add_argument"),
        ('action="store_true"', "**known", "parse_args adds an argument by group.add_argument"),
        ('action="store_true"', "action=actions.Pair", "an option has the action actions.Pair"),
        ('action="store_true"', "action=Pair", "an option has the action Pair"),
        ('action="store_true"', "action='pair'", "an option has the action 'pair'"),
        ('action="store_true"', "nargs=WORDS", "how many words an option takes is WORDS"),
        ("def again", "    add_more(group)\n\ndef again", "parse_args adds an argument by add_more"),
    ],
)
def test_options_that_are_added_in_another_way_are_an_error(tmp_path, before, after, error):
    assert before in PARSER
    with pytest.raises(LookupError) as raised:
        options(tmp_path, PARSER.replace(before, after))
    assert error in str(raised.value)


@pytest.mark.parametrize(
    ("how", "takes"),
    [
        ("action='append'", {"--force_multi": "1"}),
        ("action=env", {"--force_multi": "1"}),
        ("action=check_env", {"--force_multi": "0"}),
        ("nargs='+'", {"--force_multi": "+"}),
        ("nargs=argparse.REMAINDER", {"--force_multi": "..."}),
        ("action=argparse.BooleanOptionalAction", {"--force_multi": "0", "--no-force_multi": "0"}),
    ],
)
def test_how_many_words_an_option_takes(tmp_path, how, takes):
    found = options(tmp_path, PARSER.replace('action="store_true"', how))
    assert found == {"-H": "1", "--hostfile": "1", **takes}


@pytest.mark.parametrize("error", [TypeError("odd"), SyntaxError("odd"), AttributeError("odd")])
def test_what_the_readers_stumble_over_is_one_line(monkeypatch, capsys, error):
    def stumble(*_):
        raise error

    for module, name, arguments in (
        (launcher_options, "installed", []),
        (lora_targets, "installed", []),
        (model_classes, "store", ["--write"]),
    ):
        monkeypatch.setattr(module, name, stumble)
        assert module.main(arguments) == 2
        said = capsys.readouterr().err
        assert said.startswith("error: ")
        assert said.endswith("odd\n")
        assert said.count("\n") == 1


def test_a_launcher_whose_parser_is_elsewhere_is_an_error(tmp_path):
    with pytest.raises(LookupError, match="there is no "):
        launcher_options._options(tmp_path, ["runner.py"])


def test_a_launcher_with_few_of_its_options_is_an_error(monkeypatch, capsys, tmp_path):
    known = {f"--option{place}": "1" for place in range(5)}
    monkeypatch.setattr(launcher_options, "LAUNCHERS", {"made": ("pytest", (), ())})
    monkeypatch.setattr(launcher_options, "backends", list)
    monkeypatch.setattr(launcher_options, "STORE", tmp_path / "launchers.json")
    launcher_options.STORE.write_text(
        json.dumps({"made": {"options": known}, "deepspeed": {"backends": []}}), encoding="utf-8"
    )
    for count, status in ((3, 0), (2, 2)):
        monkeypatch.setattr(launcher_options, "installed", lambda _, count=count: dict([*known.items()][:count]))
        assert launcher_options.main([]) == status
    assert capsys.readouterr().err.startswith("error: only 2 options of made in pytest ")


# The model types of classes

MAPPINGS = """
from .configuration_auto import CONFIG_MAPPING_NAMES
MODEL_MAPPING_NAMES = OrderedDict([("qwen2_moe", "Qwen2MoeModel")])
MODEL_FOR_CAUSAL_LM_MAPPING_NAMES = OrderedDict([("qwen2_moe", "Qwen2MoeForCausalLM"), ("llama", "LlamaForCausalLM")])
MODEL_MAPPING = _LazyAutoMapping(CONFIG_MAPPING_NAMES, MODEL_MAPPING_NAMES)
"""


def classes(folder, text, monkeypatch):
    (folder / "auto").mkdir(exist_ok=True)
    (folder / "auto" / "modeling_auto.py").write_text(text, encoding="utf-8")
    monkeypatch.setattr(model_classes, "_families", lambda: {"qwen2_moe"})
    return model_classes.extract(folder)


def test_the_classes_of_families(tmp_path, monkeypatch):
    assert classes(tmp_path, MAPPINGS, monkeypatch) == {
        "Qwen2MoeForCausalLM": "qwen2_moe",
        "Qwen2MoeModel": "qwen2_moe",
    }


@pytest.mark.parametrize(
    ("before", "after", "error"),
    [
        ("_MAPPING_NAMES", "_TABLE", r"\*_MAPPING_NAMES in .* is not a list of pairs"),
        (
            'OrderedDict([("qwen2_moe", "Qwen2MoeModel")])',
            "of_family()",
            "MODEL_MAPPING_NAMES in .* is not a list of pairs",
        ),
        (
            "\nMODEL_MAPPING_NAMES =",
            "\nMODEL_MAPPING_NAMES: dict =",
            "MODEL_MAPPING_NAMES in .* is not a list of pairs",
        ),
        ("\nMODEL_MAPPING_NAMES =", "\nfrom .names import MODEL_MAPPING_NAMES\nother =", "MODEL_MAPPING_NAMES in "),
        ("qwen2_moe", "qwen2moe", "no class in .* is of a family that a rule is about"),
    ],
)
def test_classes_that_are_mapped_in_another_way_are_an_error(tmp_path, monkeypatch, before, after, error):
    assert before in MAPPINGS
    with pytest.raises(LookupError, match=error):
        classes(tmp_path, MAPPINGS.replace(before, after), monkeypatch)


# What peft gives adapters to


@pytest.fixture
def peft(monkeypatch):
    """The modules of peft that are read, as they are known."""
    constants, conversion = (ModuleType(name) for name in (lora_targets._TARGETS, lora_targets._CONVERSION))
    constants.TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING = {"llama": ["q_proj"]}
    conversion._MOE_TARGET_MODULE_MAPPING = {"mixtral": {"w1": "gate_up_proj"}}
    conversion._MOE_FUSED_TARGETS = {"mixtral": {}}
    conversion._MODEL_TO_CONVERSION_PATTERN = {"qwen2_moe": "mixtral"}
    conversion.get_checkpoint_conversion_mapping = lambda _: []
    for module in (constants, conversion):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    for parent in ("peft", "peft.utils"):
        monkeypatch.setitem(sys.modules, parent, ModuleType(parent))
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "1.0")
    return conversion


def test_the_targets_of_peft(peft):
    assert lora_targets.installed() == {
        "release": "1.0",
        "transformers": "1.0",
        "targets": {"llama": ["q_proj"]},
        "experts": {"mixtral": {"renamed": {"w1": "gate_up_proj"}, "fused": {}}},
        "experts_like": {"qwen2_moe": "mixtral"},
    }


def test_what_peft_no_longer_has_is_named(peft, monkeypatch, capsys):
    monkeypatch.setattr(peft, "_MODEL_TO_CONVERSION_PATTERN", {"qwen2_moe": "other"})
    assert lora_targets.main([]) == 2
    assert "no model type of peft.utils.transformers_weight_conversion has experts" in capsys.readouterr().err
    monkeypatch.delattr(peft, "_MOE_TARGET_MODULE_MAPPING")
    assert lora_targets.main(["--write"]) == 2
    assert "of peft 1.0 has no _MOE_TARGET_MODULE_MAPPING, or an empty one\n" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "peft.utils.transformers_weight_conversion", None)
    assert lora_targets.main([]) == 2
    assert "error: peft 1.0 has no module peft.utils.transformers_weight_conversion" in capsys.readouterr().err


# What raises

RAISING = "def check(x):\n    if x:\n        raise ValueError('x')\n"


def test_the_sites_of_several_modules(tmp_path):
    (tmp_path / "one.py").write_text(RAISING, encoding="utf-8")
    (tmp_path / "other.py").write_text("", encoding="utf-8")
    found = sites_of(tmp_path, ["one.py", "other.py", "gone.py"], {"one.py": 1, "other.py": MANY - 1, "gone.py": 1})
    assert found == sites(tmp_path, "one.py")


def test_a_library_in_which_nothing_raises_is_an_error(tmp_path):
    (tmp_path / "one.py").write_text("def check(x):\n    fail('x')\n", encoding="utf-8")
    with pytest.raises(LookupError, match=r"nothing raises in one\.py, gone\.py, which had 3 sites"):
        sites_of(tmp_path, ["one.py", "gone.py"], {"one.py": 1, "gone.py": 2})
    (tmp_path / "other.py").write_text(RAISING, encoding="utf-8")
    with pytest.raises(LookupError, match=rf"nothing raises in one\.py, which had {MANY} sites"):
        sites_of(tmp_path, ["one.py", "other.py"], {"one.py": MANY, "other.py": 1})
    assert sites_of(tmp_path, ["new.py"], {}) == []


@pytest.mark.skipif(sys.version_info < (3, 11), reason="older Pythons have no except*")
def test_a_statement_that_is_not_followed_is_an_error(tmp_path):
    text = "try:\n    check()\nexcept* OSError:\n    raise ValueError('x')\n"
    (tmp_path / "one.py").write_text(text, encoding="utf-8")
    with pytest.raises(LookupError, match=r"line 4 of one\.py raises in a statement that is not followed"):
        sites(tmp_path, "one.py")


def test_a_library_that_has_moved_does_not_empty_the_table(tmp_path):
    with pytest.raises(LookupError, match="nothing raises in accelerate/"):
        extracted(tmp_path, "accelerate")
