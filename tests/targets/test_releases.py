from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from ds_lint.targets.releases import allowed

RELEASES = ["0.9.0", "0.14.5", "0.15.0", "0.15.4", "0.16.0", "0.16.9", "0.17.0", "1.0.0", "1.0.1", "1.14.0", "2.0"]


@pytest.mark.parametrize(
    ("specifier", "expected"),
    [
        ("==0.16.9", ["0.16.9"]),
        ("===0.16.9", ["0.16.9"]),
        ("==0.16", ["0.16.0"]),
        ("==0.16.9+cu121", ["0.16.9"]),
        ("==0.17.0+3a4b2c", ["0.17.0"]),
        ("==0.17.0.dev0", ["0.16.9", "0.17.0"]),
        ("==0.17.0rc1", ["0.16.9", "0.17.0"]),
        ("==0.9.0.dev1", ["0.9.0"]),
        ("==2.1.0.dev0", []),
        ("==0.16.9.post1", []),
        ("==3.0.0", []),
        (">2", []),
        (">=0.14,<0.17", ["0.14.5", "0.15.0", "0.15.4", "0.16.0", "0.16.9"]),
        (">=0.15 , !=0.15.*, <0.17", ["0.16.0", "0.16.9"]),
        ("~=0.15.1", ["0.15.4"]),
        ("~=1.0", ["1.0.0", "1.0.1", "1.14.0"]),
        ("==0.9.0 || ==0.16.*", ["0.9.0", "0.16.0", "0.16.9"]),
        (">=1rc1", ["1.0.0", "1.0.1", "1.14.0", "2.0"]),
        ("", RELEASES),
        ("==oops", []),
        (">=oops", []),
        ("=0.16.9", []),
        ("~=1", []),
        ("==" + "9" * 5000, []),
        (">=" + "9" * 5000, []),
    ],
)
def test_the_releases_that_a_specifier_allows(specifier, expected):
    assert allowed(specifier, RELEASES) == expected


def test_releases_that_are_no_plain_versions_keep_their_order():
    releases = ["0.16.9", "0.17.0rc1", "0.17.0", "0.17.0.post1"]
    assert allowed(">=0.16", releases) == ["0.16.9", "0.17.0", "0.17.0.post1"]
    assert allowed("==0.17.0rc1", releases) == ["0.17.0rc1"]
    assert allowed("==0.17", releases) == ["0.17.0"]


NUMBERS = st.integers(0, 20).map(str)
PLAIN = st.lists(NUMBERS, min_size=1, max_size=4).map(".".join)
CLAUSES = st.one_of(
    st.tuples(st.sampled_from(["==", "!=", ">=", "<=", ">", "<"]), PLAIN).map("".join),
    st.tuples(st.sampled_from(["==", "!="]), PLAIN).map(lambda parts: f"{parts[0]}{parts[1]}.*"),
    st.tuples(NUMBERS, PLAIN).map(lambda parts: f"~={parts[0]}.{parts[1]}"),
    st.tuples(st.sampled_from([">=", "<", "!="]), PLAIN, st.sampled_from(["rc1", ".dev0", ".post1"])).map("".join),
)


@given(st.lists(CLAUSES, min_size=1, max_size=4).map(",".join), st.lists(PLAIN, max_size=20, unique_by=Version))
def test_packaging_allows_the_same(specifier, releases):
    assert allowed(specifier, releases) == list(SpecifierSet(specifier).filter(releases))


@given(st.one_of(st.text(), st.text(alphabet="=<>!~.*|,0123456789rcdev+ ")))
def test_no_specifier_makes_it_raise(specifier):
    assert set(allowed(specifier, RELEASES)) <= set(RELEASES)
