from __future__ import annotations

import io
import os
import threading

import pytest
from hypothesis import given, settings
from json_texts import ANY, CONFIGS, VALID, assert_spans_nest, marked

from ds_lint.source import hjson, json
from ds_lint.source.json import MOST_NESTING_HJSON
from ds_lint.tree import Node, Span, plain, walk

READ = [
    # text with one value marked, the span of which is wanted; what is read
    ('{"a": «1»}', {"a": 1}),
    ("{a: «1»\n b: 2}", {"a": 1, "b": 2}),
    ("{\r\n  a: «true» // c\r\n\r\n b: 2 # d\r\n}", {"a": True, "b": 2}),
    ("{a: 1, /* c */ 'b': «'c \"d\"'», }", {"a": 1, "b": 'c "d"'}),
    ('{"a": «x y», "b": 1}\n}'.replace("», ", ", ").replace("1}", "1}»"), {"a": 'x y, "b": 1}'}),
    ('{"lr": «.5,»\n "b": 1}', {"lr": ".5,"}),
    ('{"a": «True,»\n "b": «}'.replace("«}", "1}"), {"a": "True,", "b": 1}),
    ("{a: «null», b: 1}", {"a": None, "b": 1}),
    ("{a: «nullx»\n}", {"a": "nullx"}),
    ("{a: «5e8» }", {"a": 500000000}),
    ("{a: «-0.0» }", {"a": 0}),
    ("{a: «0.5» }", {"a": 0.5}),
    ("{a: «1e10» }", {"a": 1e10}),
    ("{a: «9999999999.0» }", {"a": 9999999999}),
    ("{a: «NaN»\n}", {"a": "NaN"}),
    ('{"a": «"x"» "b": 1}', {"a": "x", "b": 1}),
    ('{"a": «[1, 2,]»}', {"a": [1, 2]}),
    ("{\n  a: «'''\n     x\n    y\n    '''»\n}", {"a": "  x\n y\n"[:-1] + "\n" + " "}),
    ("a: «1»\nb: 2", {"a": 1, "b": 2}),
    ("zero_optimization:\n  «stage: 2»\nx: 1", {"zero_optimization": "stage: 2", "x": 1}),
    ("\ufeff{a: «1»}", {"a": 1}),
]
