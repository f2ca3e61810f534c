"""What is read off the models of transformers, each kind of fact on source made for it."""

from __future__ import annotations

from textwrap import dedent

import made_sources
import pytest

from tools.extract import models


@pytest.fixture
def extracted(tmp_path):
    """The facts of a package with one model, ``small``, whose modules have this source."""

    def extract(configuration=made_sources.MODEL_CONFIG, modeling=""):
        files = made_sources.models(dedent(configuration), dedent(modeling))
        return models.extract(made_sources.write(tmp_path, files))

    return extract


# Hidden sizes


@pytest.mark.parametrize(
    ("body", "facts"),
    [
        ("hidden_size: int = 8", None),
        ('attribute_map = {"hidden_size": "n_embd"}', {"key": "n_embd"}),
        ("def __init__(self, hidden_size=8):\n        self.hidden_size = hidden_size", None),
        ("def __init__(self, width=8):\n        self.hidden_size = width", {"key": "width"}),
        ("def __init__(self, width=8):\n        self.hidden_size = 2 * width", {"calculated": True}),
        ("@property\n    def hidden_size(self):\n        return self.d_model", {"key": "d_model"}),
        ("def __getattribute__(self, name):\n        return getattr(self.text_config, name)", {"calculated": True}),
        ("hidden_sizes: list = None", {"key": None}),
    ],
    ids=["field", "renamed", "parameter", "other parameter", "calculated", "property", "passed on", "none"],
)
def test_where_the_hidden_size_stands(extracted, body, facts):
    found = extracted(f'class SmallConfig(PreTrainedConfig):\n    model_type = "small"\n    {body}\n')
    assert found["hidden_sizes"] == ({"small": facts} if facts else {})


def test_a_config_inherits_where_its_hidden_size_stands(extracted):
    found = extracted("""
        class BaseConfig(PreTrainedConfig):
            model_type = "base"
            attribute_map = {"hidden_size": "d_model"}

        class SmallConfig(BaseConfig):
            model_type = "small"
    """)
    assert found["hidden_sizes"] == {"base": {"key": "d_model"}, "small": {"key": "d_model"}}


# Experts

BLOCK = """
class SmallBlock(nn.Module):
    def __init__(self, config):
        self.experts = nn.{container}(SmallMLP(config) for _ in range(8))

    def forward(self, tokens):
        {loop}
"""
SKIPPED = "for one in range(8):\n            if idle(one): continue\n            self.experts[one](tokens)"
ASKED = "for one in range(8):\n            if busy(one):\n                self.experts[one](tokens)"
HIT = {"small": {"blocks": ["transformers.models.small.modeling_small.SmallBlock"]}}


def block(loop, container="ModuleList"):
    return BLOCK.format(loop=loop, container=container)


@pytest.mark.parametrize(
    ("loop", "facts"),
    [
        ("for one in hit: self.experts[one](tokens)", HIT),
        ("for one in hit:\n            expert = self.experts[one]\n            expert(tokens)", HIT),
        ("for one in hit: getattr(self.experts, f'expert_{one}')(tokens)", HIT),
        ("for one in range(8): self.experts[one](tokens)", {}),
        ("for one, expert in enumerate(self.experts): expert(tokens)", {}),
        ("for expert in self.experts.values(): expert(tokens)", {}),
        (SKIPPED, HIT),
        (ASKED, HIT),
        (f"{ASKED}\n            else:\n                self.experts[one](nothing)", {}),
        ("for one in hit: self.weights[one] @ tokens", {}),
    ],
    ids=["hit", "named", "by name", "all", "each", "values", "skipped", "asked", "either way", "joined"],
)
def test_which_experts_a_block_runs(extracted, loop, facts):
    assert extracted(modeling=block(loop))["chosen_experts"] == facts


def test_experts_of_a_dict_count_too(extracted):
    found = extracted(modeling=block("for one in hit: self.experts[one](tokens)", container="ModuleDict"))
    assert found["chosen_experts"] == HIT


def test_experts_in_one_parameter_are_one_module(extracted):
    found = extracted(modeling=block("for one in hit: self.experts[one](tokens)", container="Parameter"))
    assert found["chosen_experts"] == {}


def test_a_container_may_choose_among_its_own(extracted):
    found = extracted(
        modeling="""
        class SmallExperts(nn.ModuleList):
            def forward(self, tokens):
                for expert in hit:
                    self[expert](tokens)
    """
    )
    assert found["chosen_experts"] == {"small": {"blocks": ["transformers.models.small.modeling_small.SmallExperts"]}}


def test_a_block_may_inherit_how_it_runs_its_experts(extracted):
    found = extracted(modeling=block("for one in hit: self.experts[one](tokens)") + "\nclass Other(SmallBlock): pass\n")
    assert [name.rpartition(".")[2] for name in found["chosen_experts"]["small"]["blocks"]] == ["SmallBlock", "Other"]
