"""What is read of FSDP off the source of torch, on source made for it."""

from __future__ import annotations

import pytest

from tools.extract import fsdp

API = """
from dataclasses import dataclass, field
from enum import auto, Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elsewhere import Hint

class ShardingStrategy(Enum):
    FULL = auto()
    NONE = auto()

@dataclass
class Config:
    offload: bool = False

@dataclass
class MixedPrecision(Config):
    dtype: str
    made: int = field(default=0, init=False)
"""
WRAPPER = """
from torch.distributed.fsdp.api import *

class FullyShardedDataParallel(nn.Module):
    def __init__(self, module, policy=None, *, device=None):
        pass

def policy(module, recurse, least=1, **more):
    pass

policy.excluded = {1}
"""
FILES = {
    "fsdp/__init__.py": "from .api import *\nfrom .wrapper import FullyShardedDataParallel",
    "fsdp/api.py": API,
    "fsdp/wrapper.py": WRAPPER,
    "fsdp/_private.py": "class Inner:\n    pass",
    "checkpoint/state_dict.py": "try:\n    from fast import load\nexcept ImportError:\n    load = None",
    "checkpoint/other.py": "x = 1",
}
HOME = "torch.distributed.fsdp"


def extracted(tmp_path, files=FILES):
    for name, text in files.items():
        path = tmp_path / "torch" / "distributed" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return fsdp.extract(tmp_path)["names"]


def test_modules_have_the_names_that_they_import_and_define(tmp_path):
    found = extracted(tmp_path)
    assert f"{HOME}.wrapper.MixedPrecision" in found
    assert f"{HOME}.api.Hint" not in found  # for a type checker alone
    assert found[f"{HOME}._private"] == {}
    assert f"{HOME}._private.Inner" not in found
    assert found["torch.distributed.checkpoint.state_dict.load"] == {}
    assert "torch.distributed.checkpoint.other" not in found


def test_parameters_are_those_of_the_definition_wherever_it_is_imported(tmp_path):
    found = extracted(tmp_path)
    assert found[f"{HOME}.FullyShardedDataParallel"] == {
        "parameters": ["module", "policy", "device"],
        "required": ["module"],
        "positional": 2,
    }
    assert found[f"{HOME}.wrapper.policy"] == {
        "parameters": ["module", "recurse", "least"],
        "required": ["module", "recurse"],
        "is_open": True,
    }


def test_a_dataclass_takes_its_fields_and_an_enumeration_has_members(tmp_path):
    found = extracted(tmp_path)
    assert found[f"{HOME}.MixedPrecision"] == {"parameters": ["offload", "dtype"], "required": ["dtype"]}
    assert found[f"{HOME}.ShardingStrategy"] == {"members": ["FULL", "NONE"]}


def test_another_layout_is_an_error(tmp_path):
    with pytest.raises(LookupError, match="has no FullyShardedDataParallel"):
        extracted(tmp_path, {"fsdp/__init__.py": "from elsewhere import FullyShardedDataParallel"})
