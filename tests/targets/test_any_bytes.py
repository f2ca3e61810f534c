"""Whatever stands in the files of a project, ds-lint does not raise."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_files import FILES

from ds_lint.targets.pin import PACKAGES
from ds_lint.targets.project import pins
from ds_lint.targets.releases import allowed

NAMES = sorted({name for files, _ in FILES for name in files})
TEXTS = [text.encode() for files, _ in FILES for text in files.values()]
NAMED = st.sampled_from([b"deepspeed", b"transformers==", b'"accelerate"'])


@st.composite
def damaged(draw):
    """A good file of any kind with a piece cut out and another put in."""
    data = draw(st.sampled_from(TEXTS))
    start, end = sorted((draw(st.integers(0, len(data))), draw(st.integers(0, len(data)))))
    return data[:start] + draw(st.binary(max_size=20)) + data[end:]


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.one_of(st.tuples(NAMED, st.binary()).map(b"".join), damaged()))
def test_no_bytes_make_it_raise(tmp_path, name, data):
    (tmp_path / ".git").mkdir(exist_ok=True)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(data)
    for library, pin in pins(str(tmp_path)).items():
        assert library in PACKAGES
        assert allowed(pin.specifier, ["0.16.9"]) in ([], ["0.16.9"])
