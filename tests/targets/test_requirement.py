from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from ds_lint.targets.requirement import parse

STATED = [
    ("deepspeed==0.16.9", "deepspeed", "==0.16.9"),
    ("DeepSpeed == 0.16.9", "deepspeed", "==0.16.9"),
    ("deepspeed[ds]>=0.14, <0.17", "deepspeed", ">=0.14,<0.17"),
    ("transformers[deepspeed,torch] (>=4.45)", "transformers", ">=4.45"),
    ("transformers>=4.45.0,<=4.52.4,!=4.46.*", "transformers", ">=4.45.0,<=4.52.4,!=4.46.*"),
    ("accelerate~=1.2", "accelerate", "~=1.2"),
    ("deepspeed", "deepspeed", ""),
    ("deepspeed @ git+https://github.com/deepspeedai/DeepSpeed.git@v0.16.9", "deepspeed", "==0.16.9"),
    ("deepspeed@git+https://github.com/deepspeedai/DeepSpeed@v0.16.9", "deepspeed", "==0.16.9"),
    ("git+https://github.com/huggingface/transformers.git@v4.49.0", "transformers", "==4.49.0"),
    ("git+https://github.com/huggingface/transformers@refs/tags/v4.49.0#egg=transformers", "transformers", "==4.49.0"),
    ("git+ssh://git@github.com/huggingface/accelerate.git@v1.5.2#egg=accelerate[dev]", "accelerate", "==1.5.2"),
    ("git+https://github.com/huggingface/transformers.git", "transformers", ""),
    ("transformers @ git+https://github.com/huggingface/transformers@v4.49-release", "transformers", ""),
    ("transformers @ git+https://github.com/huggingface/transformers@main", "transformers", ""),
    ("deepspeed @ git+https://github.com/deepspeedai/DeepSpeed@3a4b2c1d", "deepspeed", ""),
    ("deepspeed @ https://example.org/deepspeed-0.16.9%2Bcu121-cp311-cp311-linux_x86_64.whl", "deepspeed", "==0.16.9"),
    ("https://example.org/deepspeed-0.16.9.tar.gz", "deepspeed", "==0.16.9"),
    ("deepspeed @ https://github.com/deepspeedai/DeepSpeed/archive/refs/tags/v0.16.9.zip", "deepspeed", "==0.16.9"),
]


@pytest.mark.parametrize(("text", "library", "specifier"), STATED)
def test_what_a_requirement_says(text, library, specifier):
    found = parse(text, "requirements.txt:1")
    assert (found.library, found.specifier, found.is_conditional) == (library, specifier, False)


CLAUSES = st.tuples(
    st.sampled_from(["==", ">=", "<=", "!=", "<", ">", "~="]),
    st.sampled_from(["", " "]),
    st.sampled_from(["0.16.9", "1.2"]),
).map("".join)


@given(
    st.sampled_from(["deepspeed", "DeepSpeed", "transformers[torch]", "accelerate [a, b]"]),
    st.lists(CLAUSES, max_size=3).map(" , ".join),
    st.sampled_from(["", ";os_name == 'nt'", " ; python_version < '3.12'"]),
)
def test_packaging_reads_the_same(name, clauses, marker):
    text = f"{name} {clauses}{marker}"
    theirs, ours = Requirement(text), parse(text, "requirements.txt:1")
    assert (ours.library, ours.is_conditional) == (theirs.name.lower(), theirs.marker is not None)
    assert SpecifierSet(ours.specifier) == theirs.specifier


@pytest.mark.parametrize(
    "text",
    [
        "deepspeed==0.16.9; sys_platform == 'linux'",
        "deepspeed==0.16.9 ; python_version < '3.13'",
        "deepspeed @ git+https://github.com/deepspeedai/DeepSpeed@v0.16.9 ; sys_platform == 'linux'",
    ],
)
def test_a_marker_makes_it_conditional(text):
    found = parse(text, "requirements.txt:1")
    assert found.specifier == "==0.16.9"
    assert found.is_conditional


@pytest.mark.parametrize(
    "text",
    [
        "",
        "torchvision==0.21.0",
        "deepspeed-kernels==0.0.1",
        "sentence-transformers>=3",
        "deepspeed=={{ deepspeed_version }}",
        "deepspeed==${VERSION}",
        "deepspeed==0.16.{patch}",
        "deepspeed 0.16.9",
        "deepspeed>=0.14 <0.17",
        "==0.16.9",
        "./vendor/deepspeed",
        "://",
    ],
)
def test_what_says_nothing_about_a_library(text):
    assert parse(text, "requirements.txt:1") is None
