"""What is read off the source of torch, on source made for it."""

from __future__ import annotations

import pytest

from tools.extract import torch

FILES = {
    "__init__.py": """
from torch.optim import lr_scheduler as lr_scheduler
from torch.optim._plain import Plain as Plain, plain as plain
from .adam import Adam, AdamW as Decoupled
from .optimizer import Optimizer

__all__ = ["Adam", "Decoupled", "Optimizer", "Plain", "plain", "lr_scheduler"]
""",
    "optimizer.py": """
class _RequiredParameter:
    pass

required = _RequiredParameter()
LIMIT: float = 2.5

class Optimizer(object):
    def __init__(self, params, defaults):
        pass
""",
    "_plain.py": """
from .optimizer import LIMIT, Optimizer, required

RATE = -1e-3
A, B = 3, 4

class Plain(Optimizer):
    def __init__(self, params: list, lr: float = required, rates=(RATE, None), limit=LIMIT, third=1.0 / 3, *,
                 fused: bool | None = None, word="min", needed):
        super().__init__(params, {})

def plain(params, lr):
    pass
""",
    "adam.py": """
from typing import overload
from typing_extensions import deprecated
from torch import Tensor
from torch.optim.optimizer import Optimizer

@deprecated("another is better", category=FutureWarning)
class Adam(Optimizer):
    @overload
    def __init__(self, params, lr: float): ...

    @deprecated("so is this")
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999)):
        self.lr = lr

class AdamW(Adam):
    def step(self):
        pass
""",
    "lr_scheduler.py": """
from collections import Counter
from typing import TypedDict
from .optimizer import Optimizer

__all__ = ["StepLR", "OnPlateau", "LRScheduler"]

class LRScheduler:
    def __init__(self, optimizer, last_epoch=-1):
        pass

class _LRScheduler(LRScheduler):
    pass

class _Phase(TypedDict):
    end: float

class StepLR(LRScheduler):
    def __init__(self, optimizer, step_size, gamma=0.1, last_epoch=-1):
        pass

class PlainLR(LRScheduler):
    pass

class OnPlateau:
    def __init__(self, optimizer, mode="min"):
        pass

class Helper:
    def __init__(self, scheduler):
        pass
""",
}


def extracted(tmp_path, **changed):
    folder = tmp_path / "torch" / "optim"
    folder.mkdir(parents=True)
    for name, text in {**FILES, **{f"{name}.py": text for name, text in changed.items()}}.items():
        (folder / name).write_text(text)
    return torch.extract(tmp_path)


def test_defaults_are_constants_or_made_of_them(tmp_path):
    found = extracted(tmp_path)["optimizers"]["Plain"]
    assert found == {
        "lr": "$required",
        "rates": [-0.001, None],
        "limit": 2.5,
        "third": 1 / 3,
        "fused": None,
        "word": "min",
        "needed": "$required",
    }
    assert list(found) == ["lr", "rates", "limit", "third", "fused", "word", "needed"]


def test_a_constructor_is_inherited_and_a_class_has_the_name_under_which_it_is_imported(tmp_path):
    found = extracted(tmp_path)["optimizers"]
    assert found["Adam"] == found["Decoupled"] == {"lr": 0.001, "betas": [0.9, 0.999]}
    assert list(found) == ["Adam", "Decoupled", "Plain"]


def test_schedulers_derive_from_theirs_or_are_exported(tmp_path):
    assert extracted(tmp_path)["schedulers"] == {
        "OnPlateau": {"mode": "min"},
        "PlainLR": {"last_epoch": -1},
        "StepLR": {"step_size": "$required", "gamma": 0.1, "last_epoch": -1},
    }


def test_modules_may_become_packages(tmp_path):
    folder = tmp_path / "torch" / "optim" / "lr_scheduler"
    folder.mkdir(parents=True)
    text = FILES["lr_scheduler.py"].replace("from .optimizer", "from ..optimizer")
    (folder / "__init__.py").write_text(text + "\nfrom .cosine import CosineLR\n")
    (folder / "cosine.py").write_text(
        "from . import LRScheduler\nclass CosineLR(LRScheduler):\n    def __init__(self, optimizer, T_max): pass\n"
    )
    for name, source in FILES.items():
        if name != "lr_scheduler.py":
            (folder.parent / name).write_text(source)
    found = torch.extract(tmp_path)["schedulers"]
    assert found["CosineLR"] == {"T_max": "$required"}
    assert set(found) == {"CosineLR", "OnPlateau", "PlainLR", "StepLR"}


@pytest.mark.parametrize(
    ("file", "before", "after", "said"),
    [
        ("optimizer", "class Optimizer(object)", "class Base", "torch.optim.optimizer has no class Optimizer"),
        ("lr_scheduler", "class LRScheduler:", "class Scheduler:", "lr_scheduler has no class LRScheduler"),
        ("__init__", "from .adam import Adam, AdamW as Decoupled", "", "torch.optim exports Adam, which is not found"),
        ("__init__", "from .adam import", "from torch.other import", "torch.optim exports Adam, which is not found"),
        ("lr_scheduler", '["StepLR", "OnPlateau", "LRScheduler"]', "list(THEIRS)", r"list\(THEIRS\) is not a constant"),
        ("__init__", "from .adam import", "from .moved import", "there is no .*moved.py"),
        ("_plain", 'word="min"', "word=min", "min is not a constant"),
        ("_plain", 'word="min"', 'word=float("inf")', r"float\('inf'\) is not a constant"),
        ("_plain", 'word="min"', "word=A", "A is not a constant"),
        ("_plain", 'word="min"', "word=plain", "plain is not a constant"),
        ("_plain", " *,", " *more,", "the constructor of Plain takes"),
        ("_plain", "needed):", "**more):", "the constructor of Plain takes"),
        ("_plain", "class Plain(Optimizer)", "class Plain(optimizer.Optimizer)", "Plain derives from optimizer.Optim"),
        ("_plain", "class Plain(Optimizer)", "class Plain(Mixin)", "torch.optim._plain has no class Mixin"),
        ("adam", "class AdamW(Adam):", "@dataclass\nclass AdamW(Adam):", "Decoupled is decorated with dataclass"),
        ("adam", '@deprecated("so is this")', "@functools.cache", "the constructor of Adam is decorated with cache"),
        ("adam", "def step(self)", "def __new__(cls, params)", "Decoupled has a __new__"),
    ],
)  # fmt: skip
def test_another_layout_is_an_error(tmp_path, file, before, after, said):
    text = FILES[f"{file}.py"]
    assert before in text
    with pytest.raises(LookupError, match=said):
        extracted(tmp_path, **{file: text.replace(before, after)})


def test_no_class_at_all_is_an_error(tmp_path):
    with pytest.raises(LookupError, match=r"torch\.optim has no class that derives from Optimizer"):
        extracted(tmp_path, __init__="from .optimizer import Optimizer\n")
    with pytest.raises(LookupError, match="StepLR has no constructor"):
        extracted(
            tmp_path / "other",
            lr_scheduler="class LRScheduler: pass\nclass StepLR(LRScheduler): pass\n",
        )
