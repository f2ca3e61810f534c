from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds_lint.targets.toml import BrokenTomlError, loads

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DOCUMENTS = [
    "",
    "\n# only a comment",
    'a = "b" # c\n"quoted key" = \'literal \\ text\'\n',
    'a.b."c.d".e = "f"\n[a.b."c.g"]\nh = ["i", "j",\n  # k\n "l",\n]',
    "[[package]]\nname = 'a'\n[package.source]\nurl = 'b'\n[[package]]\nname = 'c'\n[[package.wheels]]\nurl = 'd'",
    'a = """\nfirst \\\n   still first\n"second" ""\\"""""\n',
    "a = '''\nno \\escape'''\nb = ''''quoted''''",
    'a = "tab \\t quote \\" slash \\\\ \\u00e9 \\U0001F600"',
    "a = { b = 'c', d.e = 'f', g = ['h', { i = 'j' }] }\nk = {}\nl = []",
    "a = [ [ 'b' ], [], [ [ 'c' ] ] ]\r\nd = 'e'\r\n",
    "[ a . b ]\nc = 'd'\n[ a ]\ne = 'f'",
    "a = 1\nb = 3.11\nc = true\nd = 1979-05-27 07:32:00Z\ne = 1979-05-27T07:32:00\nf = [1, 2.0]\ng = 'h'",
    'a = ["b; c == \'d\'", "e[f]>=1,<2"] # ["g"]',
]


def without_odd_values(value):
    """What tomllib reads, with None for every date, float and number below 1."""
    if isinstance(value, dict):
        return {key: without_odd_values(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [without_odd_values(inner) for inner in value]
    is_plain_number = type(value) is int and value > 0
    return value if is_plain_number or isinstance(value, (str, bool)) else None


@pytest.mark.parametrize("text", DOCUMENTS)
def test_it_reads_what_tomllib_reads(text):
    assert loads(text) == without_odd_values(tomllib.loads(text))


@pytest.mark.parametrize(
    "text",
    [
        "<<<<<<< HEAD",
        "a",
        "a =",
        "= 'a'",
        "[a",
        "[]",
        "a = 'b",
        'a = "b\nc"',
        "a = ['b'",
        "a = ['b' 'c']",
        "a = {b = 'c'",
        "a = 'b' c = 'd'",
        "a = 'b'\na = 'c'",
        "a = 'b'\n[a]",
        "a = 'b'\n[[a]]",
        "a = ]",
        "\x00",
        'a = "\\uD800"',
        'a = "\\UFFFFFFFF"',
    ],
)
def test_broken_toml_is_refused(text):
    with pytest.raises(BrokenTomlError):
        loads(text)


KEYS = st.sampled_from(["a", "b-c", "3", '"d e"', "'f.g'", "h.i"])
SCALARS = st.sampled_from(
    ['"deepspeed>=0.14"', "'x'", '""', "'''a\nb'''", '"""\na\\\n  b"""', "1", "true", "3.11", "2024-01-01", '"\\u00e9"']
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
        st.lists(inner, max_size=3).map(lambda items: "[\n  " + "".join(f"{item}, # c\n" for item in items) + "]"),
        st.dictionaries(KEYS, inner, max_size=3).map(
            lambda table: "{" + ", ".join(f"{key} = {value}" for key, value in table.items()) + "}"
        ),
    ),
    max_leaves=8,
)
LINES = st.one_of(
    st.tuples(KEYS, VALUES).map(" = ".join),
    KEYS.map(lambda key: f"[{key}]"),
    KEYS.map(lambda key: f"[[{key}]]"),
    st.sampled_from(["", "# a comment with 'quotes\""]),
)


@given(st.lists(LINES, max_size=8).map("\n".join))
def test_tomllib_and_it_find_the_same(text):
    try:
        tomllib.loads(text)
    except ValueError:
        return  # it may pass here
    assert loads(text) == without_odd_values(tomllib.loads(text))


@given(st.one_of(st.text(), st.text(alphabet="[]{}=.,'\"#\\ab \n")))
def test_no_text_makes_it_raise_anything_else(text):
    try:
        loads(text)
    except BrokenTomlError:
        pass
    else:
        return
    with pytest.raises(tomllib.TOMLDecodeError):
        tomllib.loads(text)
