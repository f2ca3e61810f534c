"""Which files of a project are its tests: what they name, or call, may be wrong on purpose."""

from __future__ import annotations

import re

_OF_TESTS = re.compile(r"(?:^|/)(?:tests?/|test_[^/]*$|conftest\.py$|[^/]*_test\.py$)")


def is_of_tests(path: str) -> bool:
    """Whether a file is a test, or lies in a folder of tests."""
    return _OF_TESTS.search(path) is not None
