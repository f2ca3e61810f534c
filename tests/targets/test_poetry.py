from __future__ import annotations

import pytest

from ds_lint.targets.poetry import specifier
from ds_lint.targets.releases import allowed


@pytest.mark.parametrize(
    ("constraint", "expected"),
    [
        ("0.16.9", "==0.16.9"),
        ("=0.16.9", "==0.16.9"),
        ("==0.16.9", "==0.16.9"),
        ("^1.2.3", ">=1.2.3,<2"),
        ("^0.16.9", ">=0.16.9,<0.17"),
        ("^0.0.3", ">=0.0.3,<0.0.4"),
        ("^0.0", ">=0.0,<0.1"),
        ("^0", ">=0,<1"),
        ("~1.2.3", ">=1.2.3,<1.3"),
        ("~1.2", ">=1.2,<1.3"),
        ("~1", ">=1,<2"),
        ("~=1.2", "~=1.2"),
        ("4.49.*", "==4.49.*"),
        (">=0.14,<0.17", ">=0.14,<0.17"),
        (">=0.14 <0.17", ">=0.14,<0.17"),
        (">= 0.14, != 0.15.0", ">=0.14,!=0.15.0"),
        ("^0.14 || ^0.16", ">=0.14,<0.15 || >=0.16,<0.17"),
        ("0.14.5 | 0.15.4", "==0.14.5 || ==0.15.4"),
        ("*", ""),
        ("^0.14 || *", ""),
        ("", None),
        ("latest", None),
        (">=0.14,oops", None),
    ],
)
def test_what_poetry_means(constraint, expected):
    assert specifier(constraint) == expected


def test_more_digits_than_python_reads():
    assert allowed(specifier("^" + "9" * 5000), ["0.16.9"]) == []
