"""What the extractor of DeepSpeed makes of small sources: each test is one way in which DeepSpeed reads a config."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import made_sources
import pytest

from tools.extract import deepspeed

ROOT = Path(__file__).parent.parent


def extracted(tmp_path, reads, **modules):
    """The facts of a made release: what DeepSpeedConfig does with the config, and the modules beside it."""
    return deepspeed.extract(made_sources.write(tmp_path, made_sources.deepspeed(reads, **modules)))


def keys(facts):
    return facts["root"]["keys"]


def test_a_helper_reads_a_key_that_a_module_of_constants_names(tmp_path):
    facts = extracted(
        tmp_path,
        "self.steps = get_scalar_param(param_dict, STEPS, STEPS_DEFAULT)",
        before="""
            from .constants import *
            def get_scalar_param(param_dict, param_name, param_default_value):
                return param_dict.get(param_name, param_default_value)
        """,
        constants="""
            STEPS = "steps_per_print"
            STEPS_DEFAULT = 10
        """,
    )
    assert keys(facts) == {"steps_per_print": {"type": "integer", "default": 10}}


def test_a_section_is_read_in_both_branches_and_through_objects(tmp_path):
    facts = extracted(
        tmp_path,
        """
        self.profiler = Profiler(param_dict)
        """,
        before="""
            class Profiler:
                def __init__(self, param_dict):
                    if "profiler" in param_dict:
                        section = param_dict["profiler"]
                    else:
                        section = {}
                    self.enabled = section.get("enabled", False)
                    self.depth = int(section.get("depth"))
        """,
    )
    section = keys(facts)["profiler"]
    assert section["unknown"] == "ignored"
    assert section["keys"] == {
        "enabled": {"type": "boolean", "default": False},
        "depth": {"type": "integer", "default": None},
    }


def test_a_default_that_is_another_key_is_none(tmp_path):
    facts = extracted(tmp_path, 'param_dict.get("end", param_dict.get("begin", 0))')
    assert keys(facts) == {"begin": {"type": "integer", "default": 0}, "end": {}}


PYDANTIC_1 = """
    from enum import Enum
    from typing import Dict, List, Optional
    from pydantic import BaseModel, Field

    class Device(str, Enum):
        cpu = "cpu"
        none = "none"

    class Base(BaseModel):
        class Config:
            extra = "forbid"

    class Offload(Base):
        device: Device = "none"
        ratio: float = Field(1.0, ge=0.0, le=1.0)

    class Zero(Base):
        stage: int = 0
        bucket_size: int = Field(5e8, gt=0, alias="zero_bucket_size")
        offload: Optional[Offload] = None
        cpu_offload: bool = Field(False, deprecated=True, new_param="offload")
        groups: Dict[str, Offload] = {}
        classes: List[str] = ["Block"]
"""


def test_a_pydantic_1_model(tmp_path):
    facts = extracted(tmp_path, 'Zero(**param_dict.get("zero", {}))', before=PYDANTIC_1)
    offload = {"device": {"enum": ["cpu", "none"], "default": "none"}}
    offload["ratio"] = {"type": "number", "minimum": 0.0, "maximum": 1.0, "default": 1.0}
    zero = keys(facts)["zero"]
    assert facts["pydantic"] == 1
    assert zero["unknown"] == "rejected"
    assert zero["keys"] == {
        "stage": {"type": "integer", "default": 0},
        "zero_bucket_size": {
            "type": "integer",
            "exclusiveMinimum": 0,
            "default": 500000000,
            "alias": "bucket_size",
        },
        "offload": {"type": ["object", "null"], "default": None, "unknown": "rejected", "keys": offload},
        "cpu_offload": {"type": "boolean", "default": False, "deprecated": True, "replaced_by": "offload"},
        "groups": {
            "type": "object",
            "default": {},
            "any_key": {"type": "object", "unknown": "rejected", "keys": offload},
        },
        "classes": {"type": "array", "items": {"type": "string"}, "default": ["Block"]},
    }


def test_a_pydantic_2_model(tmp_path):
    facts = extracted(
        tmp_path,
        'Compile(**param_dict.get("compile", {}))',
        before="""
            from typing import Literal
            from pydantic import BaseModel, ConfigDict, Field, model_validator
            PassName = Literal["z1", "z3"]
            class Compile(BaseModel):
                model_config = ConfigDict(extra="forbid", populate_by_name=True)
                passes: list[PassName] | None = None
                sizes: list[int] = Field(default_factory=lambda: [1])
                names: list[str] = Field(default_factory=list)
                old: int = Field(0, json_schema_extra={"deprecated": True, "new_param": "passes"})
                name: str = Field(...)
        """,
    )
    assert facts["pydantic"] == 2
    assert keys(facts)["compile"] == {
        "type": "object",
        "default": {},
        "unknown": "rejected",
        "keys": {
            "passes": {"type": ["array", "null"], "items": {"enum": ["z1", "z3"]}, "default": None},
            "sizes": {"type": "array", "items": {"type": "integer"}, "default": [1]},
            "names": {"type": "array", "items": {"type": "string"}, "default": []},
            "old": {"type": "integer", "default": 0, "deprecated": True, "replaced_by": "passes"},
            "name": {"type": "string"},
        },
    }


def test_what_a_validated_model_is_asked_for_later(tmp_path):
    facts = extracted(
        tmp_path,
        'self.weights = Weights(**param_dict.get("weights", {}))',
        before="""
            from pydantic import BaseModel
            class Weights(BaseModel):
                quantized: dict = {}
        """,
        engine="""
            class DeepSpeedEngine:
                def quantize(self):
                    return self._config.weights.quantized["num_bits"]
        """,
    )
    assert keys(facts)["weights"]["keys"]["quantized"]["keys"] == {"num_bits": {}}


def test_several_sections_go_into_one_model(tmp_path):
    facts = extracted(
        tmp_path,
        """
        sections = {name: param_dict.get(name, {}) for name in ("csv", "wandb")}
        Monitor(**sections)
        """,
        before="""
            from pydantic import BaseModel
            class Writer(BaseModel):
                enabled: bool = False
            class Monitor(BaseModel):
                csv: Writer = {}
                wandb: Writer = {}
        """,
    )
    writer = {"type": "object", "default": {}, "unknown": "ignored"}
    writer["keys"] = {"enabled": {"type": "boolean", "default": False}}
    assert keys(facts) == {"csv": writer, "wandb": writer}


def test_removed_keys_are_refused_in_a_loop(tmp_path):
    facts = extracted(
        tmp_path,
        """
        for key, message in REMOVED.items():
            if key in param_dict:
                raise ValueError(message)
        """,
        before='REMOVED = {"amp": "gone", "nebula": "gone too"}',
    )
    assert keys(facts) == {"amp": {"removed": True}, "nebula": {"removed": True}}


def test_a_key_that_must_be_there_is_not_refused(tmp_path):
    facts = extracted(
        tmp_path,
        """
        if "name" not in param_dict:
            raise ValueError("name it")
        """,
    )
    assert keys(facts) == {"name": {}}


def test_a_dictionary_of_defaults_under_the_section_of_the_user(tmp_path):
    facts = extracted(tmp_path, 'self.pipeline = {"stages": "auto", **param_dict.get("pipeline", {})}')
    pipeline = keys(facts)["pipeline"]
    assert pipeline["unknown"] == "open"
    assert pipeline["keys"] == {"stages": {"type": "string", "default": "auto"}}


def test_names_that_are_the_users_own(tmp_path):
    facts = extracted(
        tmp_path,
        """
        for name, group in param_dict["groups"].items():
            group["bits"]
        for layer in param_dict["layers"]:
            layer["shape"]
        """,
    )
    assert keys(facts)["groups"]["any_key"] == {"group": True, "keys": {"bits": {}}}
    assert keys(facts)["layers"]["items_are"]["keys"] == {"shape": {}}


def test_what_deepspeed_puts_into_a_section_itself_is_no_key_of_the_user(tmp_path):
    facts = extracted(
        tmp_path,
        """
        section = param_dict["routing"]
        section["batch_size"] = 8
        section["batch_size"] + section["layers"]
        if "mode" not in section:
            section["mode"] = "fast"
        section["mode"]
        """,
    )
    assert keys(facts)["routing"]["keys"] == {"layers": {}, "mode": {}}


def test_an_unknown_object_is_known_once_its_class_is_asked_for(tmp_path):
    facts = extracted(
        tmp_path,
        """
        for layer in self.modules():
            if isinstance(layer, Layer):
                layer.init_config(param_dict)
        """,
        before="""
            class Layer:
                def init_config(self, config):
                    self.mask = config["mask_name"]
        """,
    )
    assert keys(facts) == {"mask_name": {}}


def test_values_that_an_assertion_leaves(tmp_path):
    facts = extracted(
        tmp_path,
        """
        order = param_dict.get("order", "random").lower()
        assert order in ["random", "length"]
        if param_dict.get("other"):
            assert param_dict["other"] > 2
        """,
    )
    assert keys(facts)["order"] == {
        "type": "string",
        "enum": ["random", "length"],
        "case": "insensitive",
        "default": "random",
    }
    assert keys(facts)["other"] == {"type": "number", "default": None}


OPTIMIZERS = """
    from .ops import Lamb, Anything
    from torch.optim import SGD

    class DeepSpeedEngine:
        def _configure(self, parameters):
            name, settings = self._config.optimizer_name, self._config.optimizer_params
            if name == "lamb":
                return Lamb(parameters, **settings)
            elif name in ["any", "other"]:
                return Anything(parameters, **settings)
            return SGD(parameters, **settings)
"""
OPS = """
    class Lamb:
        def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), *, steps):
            pass

    class Anything:
        def __init__(self, params, lr=1.0, **kwargs):
            pass
"""


def test_constructors_by_the_type_that_leads_to_them(tmp_path):
    facts = extracted(
        tmp_path,
        """
        section = param_dict["optimizer"]
        self.optimizer_name, self.optimizer_params = section["type"], section["params"]
        """,
        engine=OPTIMIZERS,
        ops=OPS,
    )
    anything = {"callee": "deepspeed.runtime.ops.Anything", "closed": False, "parameters": {"lr": 1.0}}
    assert facts["constructors"]["optimizer.params"] == {
        "lamb": [
            {
                "callee": "deepspeed.runtime.ops.Lamb",
                "closed": True,
                "parameters": {"lr": 0.001, "betas": [0.9, 0.999], "steps": "$required"},
            }
        ],
        "any": [anything],
        "other": [anything],
        "*": [{"callee": "torch.optim.SGD", "external": True}],
    }
    params = keys(facts)["optimizer"]["keys"]["params"]
    assert params["unknown"] == "by-type"
    assert params["keys"]["lr"] == {"defaults": [0.001, 1.0]}
    assert params["keys"]["steps"] == {}


def test_every_scheduler_of_a_module_is_a_type(tmp_path):
    facts = extracted(
        tmp_path,
        """
        section = param_dict["scheduler"]
        self.scheduler = getattr(lr_schedules, section["type"])(self.optimizer, **section["params"])
        """,
        before="from deepspeed.runtime import lr_schedules",
        lr_schedules="""
            class Warmup:
                def __init__(self, optimizer, steps=1000):
                    pass
                def step(self):
                    pass
            class NotAScheduler:
                def __init__(self, optimizer):
                    pass
        """,
    )
    assert facts["constructors"]["scheduler.params"] == {
        "Warmup": [{"callee": "deepspeed.runtime.lr_schedules.Warmup", "closed": True, "parameters": {"steps": 1000}}]
    }


def test_the_library_that_reads_a_file(tmp_path):
    before = "import json, hjson"
    assert extracted(tmp_path, 'json.load(open(param_dict))["steps"]', before=before)["reader"] == "json"
    read = extracted(tmp_path, 'hjson.load(open(param_dict))["steps"]', before=before)
    assert read["reader"] == "hjson"
    assert "pydantic" not in read
    assert keys(read) == {"steps": {}}


def test_libraries_that_are_installed_beside_it_stay_outside(tmp_path):
    (tmp_path / "hjson.py").write_text("def load(file):\n    return {}\n", encoding="utf-8")
    read = extracted(tmp_path, 'hjson.load(open(param_dict))["steps"]', before="import hjson")
    assert read["reader"] == "hjson"
    assert keys(read) == {"steps": {}}


def test_a_release_without_an_engine_is_not_understood(tmp_path):
    with pytest.raises(LookupError, match=r"there is no deepspeed\.runtime\.engine\.DeepSpeedEngine"):
        extracted(tmp_path, 'param_dict["steps"]', engine="")


def test_the_same_source_gives_the_same_text_whatever_the_hash_seed(tmp_path):
    extracted(tmp_path, 'Zero(**param_dict.get("zero", {}))', before=PYDANTIC_1, engine=OPTIMIZERS, ops=OPS)
    program = "import json, pathlib, sys; from tools.extract.deepspeed import extract; "
    program += "sys.stdout.write(json.dumps(extract(pathlib.Path(sys.argv[1]))))"
    texts = [
        subprocess.check_output(
            [sys.executable, "-c", program, tmp_path], cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": seed}
        )
        for seed in ("1", "2")
    ]
    assert texts[0] == texts[1]
    assert json.loads(texts[0])["root"]["keys"]["zero"]["unknown"] == "rejected"
