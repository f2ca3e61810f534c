"""Scripts that build a config in many ways, at random: what is written, computed, called, unpacked, looped over."""

from __future__ import annotations

import json
from textwrap import dedent, indent

SECTIONS = ("fp16", "bf16", "zero_optimization", "optimizer", "scheduler", "activation_checkpointing", "aio")
KEYS = ("enabled", "stage", "overlap_comm", "lr", "reduce_bucket_size", "device", "pin_memory", "loss_scale", "betas")


def section(pick):
    return pick(SECTIONS)


def key(pick):
    return pick(KEYS)


def scalar(pick):
    return pick([0, 1, 2, 3, True, False, None, 0.5, 1e-5, 5e8, "auto", "cpu", "none", 16, -1, "AdamW", 2**30])


def number(pick):
    return pick([1, 2, 3, 4, 8, 16, 500_000_000])


def small(pick):
    """A section as a literal."""
    return {key(pick): scalar(pick) for _ in range(pick([1, 2, 3]))}


# Each is a text with {s} a section, {t} another, {k} a key, {v} and {w} scalars, {d} a dict, {n} and {m} numbers, {i} a
# number that makes names unique; ``config`` is the dict, of which nothing else is known.
DECIDED = {
    "item": "config[{s!r}] = {d!r}",
    "nested item": "config[{s!r}] = {{}}\nconfig[{s!r}][{k!r}] = {v!r}",
    "loop over pairs": "for name, value in [({s!r}, {d!r}), ({k!r}, {v!r})]:\n    config[name] = value",
    "loop over items": "for key_{i}, value_{i} in {d!r}.items():\n    config[key_{i} + '_x'] = value_{i}",
    "loop over zip": "for a, b in zip(({s!r}, {k!r}), [{v!r}, {w!r}]):\n    config[a] = b",
    "loop over range": "for number in range({n} % 5):\n    config[f'x{{number}}'] = number * 2",
    "loop over enumerate": "for index, name in enumerate([{s!r}, {k!r}], start=1):\n    config[name] = {{'index': index}}",
    "loop with else": "for x in [1, 2]:\n    if x == {n}:\n        break\nelse:\n    config[{k!r}] = {v!r}",
    "loop with continue": "for x in range(4):\n    if x % 2:\n        continue\n    config.setdefault({k!r}, x)",
    "while": "count = 0\nwhile count < 3:\n    count += 1\n    config[{k!r}] = count",
    "union": "config = config | {{{s!r}: {d!r}}}",
    "augmented union": "config |= {{{s!r}: {d!r}, {k!r}: {v!r}}}",
    "dict of zip": "config.update(dict(zip([{s!r}, {t!r}], [{d!r}, {v!r}])))",
    "dict of pairs": "config.update(dict([({s!r}, {d!r}), ({k!r}, {v!r})], more={w!r}))",
    "dict comprehension": "config[{s!r}] = {{name: value for name, value in {d!r}.items() if value is not None}}",
    "comprehension of a list": "config[{k!r}] = [x * {n} for x in (1, 2, 3) if x != 2]",
    "filtered": "config = {{k: v for k, v in config.items() if v != {v!r} or k == {s!r}}}",
    "setdefault": "config.setdefault({s!r}, {{}})[{k!r}] = {v!r}",
    "setdefault of the other": "config.setdefault({k!r}, {v!r})\nconfig.setdefault({k!r}, {w!r})",
    "del": "config[{k!r}] = {v!r}\ndel config[{k!r}]",
    "pop": "config[{t!r}] = config.pop({s!r}, {d!r})",
    "pop of nothing": "config.pop('nothing', None)",
    "update": "config.update({{{s!r}: {d!r}}}, {k}={v!r})",
    "update of a section": "config[{s!r}] = {{}}\nconfig[{s!r}].update(more={v!r}, **{d!r})",
    "function": "def make_{i}(stage, overlap={v!r}, *, lr={w!r}):\n    return {{'stage': stage, 'overlap': overlap, 'lr': lr}}\nconfig[{s!r}] = make_{i}({n}, lr={m})",
    "function with branches": "def choose_{i}(kind):\n    if kind == 'a':\n        return {d!r}\n    elif kind == 'b':\n        return None\n    return {v!r}\nconfig[{s!r}] = choose_{i}('a')\nconfig[{t!r}] = choose_{i}('c')",
    "function that changes": "def change_{i}(settings, name, value):\n    settings[name] = value\n    return settings\nchange_{i}(config, {s!r}, {d!r})",
    "function with more": "def more_{i}(*names, **values):\n    return {{'names': list(names), **values}}\nconfig[{s!r}] = more_{i}('a', *['b', 'c'], **{{'x': {v!r}}})",
    "recursion": "def merge_{i}(one, other):\n    for k, v in other.items():\n        if isinstance(v, dict) and isinstance(one.get(k), dict):\n            merge_{i}(one[k], v)\n        else:\n            one[k] = v\n    return one\nconfig = merge_{i}(config, {{{s!r}: {d!r}}})",
    "closure": "def outer_{i}(base):\n    def inner(name):\n        return {{name: base}}\n    return inner\nconfig.update(outer_{i}({v!r})({k!r}))",
    "counter": "def counter_{i}():\n    count = 0\n    def step():\n        nonlocal count\n        count += 1\n        return count\n    return step\nstep_{i} = counter_{i}()\nstep_{i}()\nconfig[{k!r}] = step_{i}()",
    "lambda": "double_{i} = lambda x, y=2: x * y\nconfig[{k!r}] = double_{i}({n})",
    "unpacked": "common_{i} = {d!r}\nconfig[{s!r}] = {{**common_{i}, 'stage': {n}, **{{'x': {v!r}}}}}",
    "dataclass": "@dataclass\nclass Zero{i}:\n    stage: int = {n}\n    overlap: bool = {v!r}\n    extra: dict = field(default_factory=dict)\nzero_{i} = Zero{i}(overlap={w!r})\nzero_{i}.stage += 1\nconfig[{s!r}] = asdict(zero_{i})",
    "replaced": "@dataclass(frozen=True)\nclass Part{i}:\n    lr: float\n    steps: int = {n}\npart_{i} = replace(Part{i}(0.5), steps={m})\nconfig[{k!r}] = part_{i}.steps + part_{i}.lr",
    "nested dataclass": "@dataclass\nclass Inner{i}:\n    device: str = 'cpu'\n@dataclass\nclass Outer{i}:\n    inner: Inner{i} = field(default_factory=Inner{i})\n    names: list = field(default_factory=lambda: ['a'])\nouter_{i} = Outer{i}()\nouter_{i}.inner.device = {v!r}\nconfig[{s!r}] = asdict(outer_{i})",
    "class": "class Settings{i}:\n    STAGE = {n}\n    def __init__(self, lr, warm=False):\n        self.lr = lr\n        self.warm = warm\n        self.stage = self.STAGE + 1\n    def as_dict(self):\n        return {{'lr': self.lr, 'warm': self.warm, 'stage': self.stage}}\nconfig[{s!r}] = Settings{i}({v!r}, warm=True).as_dict()",
    "inheritance": "class Base{i}:\n    device = 'cpu'\n    def __init__(self, n):\n        self.n = n\n    @property\n    def both(self):\n        return [self.device, self.n]\nclass Child{i}(Base{i}):\n    device = 'nvme'\n    def __init__(self):\n        super().__init__({n})\n        self.m = {m}\nconfig[{k!r}] = Child{i}().both\nconfig[{s!r}] = vars(Child{i}())",
    "class attributes": "class C{i}:\n    stage = {n}\n    enabled = {v!r}\nconfig[{s!r}] = {{'stage': C{i}.stage, 'enabled': getattr(C{i}, 'enabled')}}",
    "static and class methods": "class M{i}:\n    base = {n}\n    @staticmethod\n    def twice(x):\n        return 2 * x\n    @classmethod\n    def make(cls, x):\n        return {{'x': cls.twice(x) + cls.base}}\nconfig[{s!r}] = M{i}.make({m})",
    "f-string": "value_{i} = {v!r}\nconfig[{k!r}] = f'{{{n}}}-{{value_{i}}}-{{{m}:05d}}-{{value_{i}!r}}'",
    "percent": "config[{k!r}] = '%s/%d' % ({v!r}, {n})",
    "format": "config[{k!r}] = '{{}}-{{x:>4}}'.format({v!r}, x={n})",
    "join": "config[{k!r}] = ','.join(str(x) for x in [{n}, {m}])",
    "texts": "config[{k!r}] = ('/data' '/x' + {s!r}).upper().replace('/', '_').split('_')[-1].lower()",
    "json": "config.update(json.loads({j!r}))",
    "json there and back": "config = json.loads(json.dumps(config, indent=2))",
    "if": "FLAG_{i} = {n} > 2\nif FLAG_{i}:\n    config[{k!r}] = {v!r}\nelif {m} == 2:\n    config[{k!r}] = {w!r}\nelse:\n    config.pop({k!r}, None)",
    "conditional": "config[{k!r}] = {v!r} if {n} < {m} else {w!r}",
    "booleans": "config[{k!r}] = ({v!r} or {w!r}) and not {n} == {m}",
    "comparisons": "config[{k!r}] = 1 < {n} <= {m} or {s!r} in config",
    "conversions": "config[{k!r}] = [int('12'), float('1e-3'), bool({v!r}), str({n}), len({d!r}), round(2.567, 1), abs(-{n})]",
    "sums": "config[{k!r}] = max({n}, {m}) + min([{n}, 2]) + sum([1, 2, {m}])",
    "arithmetic": "H_{i} = {n}\nconfig[{k!r}] = H_{i} * {m} + 2 ** 4 // 3 - 7 % 4",
    "deepcopy": "copy_{i} = copy.deepcopy(config)\ncopy_{i}[{s!r}] = {d!r}\nconfig[{k!r}] = len(config) - len(copy_{i})",
    "alias": "alias_{i} = config\nalias_{i}[{s!r}] = {d!r}",
    "shallow copy": "inner_{i} = {d!r}\nconfig[{s!r}] = inner_{i}\nshallow_{i} = dict(config)\nshallow_{i}[{s!r}]['shared'] = {v!r}\nshallow_{i}['gone'] = 1",
    "tuples": "a_{i}, (b_{i}, *c_{i}) = {n}, ({v!r}, 1, 2)\nconfig[{k!r}] = [a_{i}, b_{i}, c_{i}]",
    "swap": "x_{i}, y_{i} = {v!r}, {w!r}\nx_{i}, y_{i} = y_{i}, x_{i}\nconfig[{k!r}] = x_{i}",
    "chained": "p_{i} = q_{i} = {{}}\np_{i}[{k!r}] = {v!r}\nconfig[{s!r}] = q_{i}",
    "walrus": "if (got_{i} := {n}) > 1:\n    config[{k!r}] = got_{i}",
    "augmented": "total_{i} = {n}\ntotal_{i} *= 2\ntotal_{i} -= 1\nlist_{i} = [1]\nlist_{i} += [total_{i}]\nconfig[{k!r}] = list_{i}",
    "augmented item": "config[{k!r}] = {n}\nconfig[{k!r}] += {m}",
    "lists": "items_{i} = []\nitems_{i}.append({v!r})\nitems_{i}.extend([1, 2])\nitems_{i}.insert(0, {n})\nitems_{i}.pop()\nconfig[{k!r}] = items_{i}[::-1]",
    "sorted": "config[{k!r}] = sorted([3, {n}, 1], reverse=True) + list(reversed([1, 2]))",
    "sorted dict": "config = dict(sorted(config.items(), key=lambda pair: pair[0]))",
    "path": "config[{k!r}] = str(Path('/local') / 'nvme' / f'{{{n}}}')",
    "path of os": "config[{k!r}] = os.path.join('/a', 'b', {s!r} + '.json')",
    "try": "try:\n    config[{k!r}] = int('x')\nexcept ValueError:\n    config[{k!r}] = {v!r}",
    "try of a key": "try:\n    found_{i} = config['nothing']\nexcept KeyError:\n    found_{i} = {v!r}\nelse:\n    found_{i} = 0\nfinally:\n    config[{k!r}] = found_{i}",
    "with": "with open(os.devnull) as file:\n    config[{s!r}] = {d!r}",
    "global": "LEVEL_{i} = 1\ndef raise_level_{i}():\n    global LEVEL_{i}\n    LEVEL_{i} += {n}\nraise_level_{i}()\nconfig[{k!r}] = LEVEL_{i}",
    "enum": "class Stage{i}(Enum):\n    ONE = 1\n    TWO = {n}\nconfig[{k!r}] = [Stage{i}.TWO.value, Stage{i}.ONE.name, Stage{i}['ONE'].value]",
    "namespace": "space_{i} = SimpleNamespace(stage={n}, device={v!r})\nspace_{i}.stage = {m}\nconfig[{s!r}] = vars(space_{i})",
    "named tuple": "Pair{i} = namedtuple('Pair', 'lr steps')\npair_{i} = Pair{i}({v!r}, steps={n})\nconfig[{s!r}] = pair_{i}._asdict()\nconfig[{k!r}] = pair_{i}[1]",
    "match": "match {n}:\n    case 1 | 2:\n        config[{k!r}] = 'few'\n    case _:\n        config[{k!r}] = 'many'",
    "partial": "config[{s!r}] = partial(dict, a={v!r})(b={n})",
    "reduce": "config = reduce(lambda one, other: {{**one, **other}}, [config, {{{s!r}: {d!r}}}])",
    "default dict": "sections_{i} = defaultdict(dict)\nsections_{i}[{s!r}][{k!r}] = {v!r}\nconfig.update(sections_{i})",
    "chain": "config[{k!r}] = list(chain([1], (2, {n})))",
    "any and all": "config[{k!r}] = [any([0, {v!r}]), all(x > 0 for x in [{n}, {m}])]",
    "main": "def main_{i}(settings):\n    settings[{s!r}] = {d!r}\nif __name__ == '__main__':\n    main_{i}(config)",
    "assert": "assert {n} > 0, 'never'\nconfig[{k!r}] = {v!r}",
    "map": "config[{k!r}] = list(map(str, [{n}, {m}])) + list(filter(None, [0, {n}]))",
    "slices": "config[{k!r}] = [1, 2, 3, {n}][1:-1] + list('abc'[:2])",
    "decorator": "def named_{i}(function):\n    def around(*args, **kwargs):\n        return {{'result': function(*args, **kwargs)}}\n    return around\n@named_{i}\ndef value_{i}(x):\n    return x\nconfig[{s!r}] = value_{i}({v!r})",
    "keys": "config[{k!r}] = [name for name in config if name.startswith('z')]",
    "nested loops": "for outer in ('a', 'b'):\n    for inner in (1, 2):\n        config[f'{{outer}}{{inner}}'] = inner",
    "from keys": "config[{s!r}] = dict.fromkeys(['a', 'b'], {v!r})",
    "type": "config[{k!r}] = [type({v!r}) is int, isinstance({w!r}, (int, float)), callable(len)]",
    "ordered": "config[{s!r}] = OrderedDict([('a', {v!r}), ('b', {n})])",
    "str methods": "config[{k!r}] = 'zero_stage_{n}'.rsplit('_', 1)[1].zfill(3).lstrip('0')",
    "returned config": "def build_{i}(base=None, **more):\n    result = dict(base or {{}})\n    result.update(more)\n    return result\nconfig = build_{i}(config, more_{i}={v!r})",
    "early return": "def early_{i}(x):\n    for y in range(5):\n        if y == x % 5:\n            return y\n    return None\nconfig[{k!r}] = early_{i}({n})",
    "multiple assignment of items": "config[{k!r}], config[{s!r}] = {v!r}, {d!r}",
    "ternary in a dict": "config[{s!r}] = {{'enabled': True if {n} > 1 else False, 'x': {v!r} and {w!r}}}",
    "is none": "value_{i} = None\nif value_{i} is None:\n    value_{i} = {v!r}\nconfig[{k!r}] = value_{i}",
    "list of dicts": "rows_{i} = [{d!r}, {{'a': 1}}]\nrows_{i}[1]['b'] = {v!r}\nconfig[{s!r}] = {{'rows': rows_{i}}}",
    "literal eval": "config[{s!r}] = ast.literal_eval({r!r})",
    "bits": "config[{k!r}] = (1 << 4) | 3 & 2 ^ 1",
    "call": "class Call{i}:\n    def __init__(self, x):\n        self.x = x\n    def __call__(self, y):\n        return [self.x, y]\nconfig[{k!r}] = Call{i}({n})({v!r})",
    "setattr": "class Bag{i}:\n    pass\nbag_{i} = Bag{i}()\nfor name, value in {d!r}.items():\n    setattr(bag_{i}, name, value)\nconfig[{s!r}] = bag_{i}.__dict__",
    "copy of dict": "before_{i} = config.copy()\nconfig[{k!r}] = {v!r}\nconfig = before_{i} if {n} > 2 else config",
    "string test": "name_{i} = 'stage_' + str({n})\nif name_{i}.endswith('3') or name_{i} in ('stage_1', 'stage_2'):\n    config[{k!r}] = {v!r}",
    "iterator": "line_{i} = iter([{n}, {m}])\nconfig[{k!r}] = [next(line_{i}), next(line_{i}), next(line_{i}, None)]",
    "math": "config[{k!r}] = math.ceil({n} / 3) + int(math.log2(8))",
    "types in a table": "TABLE_{i} = {{'a': {d!r}, 'b': {{'x': {v!r}}}}}\nconfig[{s!r}] = TABLE_{i}['b' if {n} == 1 else 'a']",
    "table of functions": "MAKERS_{i} = {{'a': lambda: {d!r}, 'b': dict}}\nconfig[{s!r}] = MAKERS_{i}['a']()",
}  # fmt: skip

UNDECIDED = {
    "input": "config[{k!r}] = input()",
    "argument": "config[{k!r}] = int(sys.argv[1])",
    "environment": "config[{k!r}] = os.environ.get('NOT_THERE', {v!r})",
    "branch": "if os.environ.get('X_{i}') is None:\n    config[{s!r}] = {d!r}\nelse:\n    config.pop({s!r}, None)",
    "branch that is not taken": "if len(sys.argv) > 5:\n    config[{k!r}] = {v!r}\n    config[{s!r}] = {d!r}",
    "one of two": "config = config if random.random() > 0.5 else {{**config, {k!r}: {v!r}}}",
    "loop": "for part in sys.argv:\n    config[{k!r}] = {v!r}\n    config.setdefault({s!r}, {{}})",
    "loop with a key": "for part in sys.argv[1:]:\n    config[part] = {v!r}",
    "loop to and fro": "state_{i} = {n}\nfor part in sys.argv:\n    state_{i} = state_{i} + 1\n    other_{i} = state_{i}\nconfig[{k!r}] = state_{i}",
    "while": "while random.random() < 0.5:\n    config[{k!r}] = config.get({k!r}) is None",
    "unknown key": "config[sys.argv[0]] = {v!r}",
    "known key": "names_{i} = [{s!r}, {k!r}]\nconfig[names_{i}[int(os.environ.get('N', 0))]] = {v!r}",
    "two dicts": "first_{i}, second_{i} = {{}}, {{}}\n(first_{i} if len(sys.argv) > 1 else second_{i})[{k!r}] = {v!r}\nconfig[{s!r}] = first_{i}\nconfig[{t!r}] = second_{i}",
    "early return": "def early_{i}(settings):\n    if len(sys.argv) > 1:\n        settings[{k!r}] = {v!r}\n        return settings\n    settings[{s!r}] = {d!r}\n    return settings\nearly_{i}(config)",
    "early break": "for x in [1, 2, 3]:\n    if len(sys.argv) == x:\n        break\n    config[{k!r}] = x",
    "early continue": "for x in [1, 2, 3]:\n    config['before'] = x\n    if len(sys.argv) == x:\n        continue\n    config[{k!r}] = x",
    "caught": "try:\n    config[{k!r}] = 1\n    int(sys.argv[1])\n    config[{k!r}] = 2\n    int(sys.argv[0])\n    config[{k!r}] = 3\nexcept ValueError:\n    config[{s!r}] = {d!r}",
    "not there": "try:\n    import nothing_at_all\n    config[{k!r}] = 1\nexcept ImportError:\n    config[{k!r}] = 2",
    "update": "config.update(json.loads(os.environ.get('SETTINGS', '{{\"" + "{k}" + "\": 7}}')))",
    "unpacked": "config = {{**config, **json.loads(os.environ.get('SETTINGS', '{{\"{k}\": 8}}')), 'z': {v!r}}}",
    "random": "random.shuffle(sys.argv)\nconfig[{k!r}] = random.choice([{v!r}, {w!r}])",
    "time": "config[{k!r}] = time.time()",
    "parser": "parser_{i} = argparse.ArgumentParser()\nparser_{i}.add_argument('--x', default={n})\nargs_{i}, _ = parser_{i}.parse_known_args()\nconfig[{k!r}] = args_{i}.x",
    "alias of an unknown": "holder_{i} = {{'a': config}}\nholder_{i}[sys.argv[0] if len(sys.argv) > 9 else 'a'][{k!r}] = {v!r}",
    "function that may": "def may_{i}():\n    if os.environ.get('X_{i}') is None:\n        config[{k!r}] = {v!r}\nmay_{i}()",
    "undecided global": "MODE_{i} = 1\ndef set_mode_{i}(x):\n    global MODE_{i}\n    MODE_{i} = x\nif len(sys.argv) > 1:\n    set_mode_{i}(2)\nconfig[{k!r}] = MODE_{i}",
    "undecided method": "method_{i} = config.update if len(sys.argv) > 1 else config.copy\nmethod_{i}(*([{d!r}] if len(sys.argv) > 1 else []))",
    "set order": "for name in {{'fp16', 'bf16', 'aio'}}:\n    config['last'] = name",
    "undecided class": "class A{i}:\n    stage = 1\nclass B{i}:\n    stage = 2\nconfig[{k!r}] = (A{i} if len(sys.argv) > 1 else B{i})().stage",
    "deleted perhaps": "config[{k!r}] = {v!r}\nif len(sys.argv) > 1:\n    del config[{k!r}]\nconfig['has'] = {k!r} in config",
    "length": "if len(sys.argv) > 1:\n    config['perhaps'] = 1\nconfig[{k!r}] = len(config)",
    "callback": "def callback_{i}():\n    config[{k!r}] = {v!r}\nimport threading\nthread_{i} = threading.Thread(target=callback_{i})\nthread_{i}.start()\nthread_{i}.join()",
    "sorted by an unknown": "config[{k!r}] = sorted([1, 2, 3], key=lambda x: random.random())[0]",
    "star": "config[{k!r}] = [*sys.argv, 1][-1]",
    "undecided while with break": "n_{i} = 0\nwhile True:\n    n_{i} += 1\n    if random.random() > 0.3 or n_{i} > 5:\n        break\nconfig[{k!r}] = n_{i}",
    "nested undecided": "for x in sys.argv:\n    for y in (1, 2):\n        if len(x) == y:\n            config[{k!r}] = y\n        else:\n            config[{s!r}] = {d!r}\n    config['done'] = True",
    "exception out of a function": "def fails_{i}():\n    config['seen'] = 1\n    if len(sys.argv) > 1:\n        raise ValueError\n    config['seen'] = 2\ntry:\n    fails_{i}()\nexcept ValueError:\n    config[{k!r}] = 'caught'",
    "return in a loop": "def search_{i}(names):\n    for name in names:\n        if len(name) > 1:\n            return {v!r}\n    return {w!r}\nconfig[{k!r}] = search_{i}(sys.argv)",
    "hash": "config[{k!r}] = hash('x') % 7",
    "id of a file": "config[{k!r}] = __name__ + str(os.getpid())",
}  # fmt: skip

_HEAD = """\
import argparse, ast, asyncio, contextlib, copy, json, math, os, random, sys, time
from collections import OrderedDict, defaultdict, namedtuple
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from functools import partial, reduce
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import deepspeed

"""
_CALL = "deepspeed.initialize(model=None, config=config)\n"


def _written(pick, template, number_of_it):
    s = section(pick)
    literal = small(pick)
    return template.format(
        s=s,
        t=pick([one for one in SECTIONS if one != s]),
        k=key(pick),
        v=scalar(pick),
        w=scalar(pick),
        d=literal,
        n=number(pick),
        m=number(pick),
        i=number_of_it,
        j=json.dumps({s: literal}),
        r=repr(literal),
    )


def script(pick, *, undecided=False):
    """A script; ``pick`` chooses one of a sequence. Some are within a function, a method, or the main block."""
    start = {"zero_optimization": small(pick), "train_batch_size": number(pick)}
    parts = [f"config = {start!r}"]
    names = [pick([*DECIDED]) for _ in range(pick([2, 3, 4, 5]))]
    if undecided:
        names = [*names, *(pick([*UNDECIDED]) for _ in range(pick([1, 2])))]
        names = [names.pop(pick(range(len(names)))) for _ in range(len(names))]
    parts += [
        _written(pick, (DECIDED | UNDECIDED if undecided else DECIDED)[name], index) for index, name in enumerate(names)
    ]
    is_global = any("global" in part or "main_" in part or ("config[" in part and "def " in part) for part in parts)
    body = "\n".join(parts) + "\n" + _CALL
    shape = pick(["module", "module", "function", "main", "method", "uncalled"]) if not is_global else "module"
    if shape in ("function", "main", "uncalled"):
        body = f"def train():\n{indent(body, '    ')}\n"
        body += {"function": "train()\n", "main": "if __name__ == '__main__':\n    train()\n", "uncalled": "train()\n"}[
            shape
        ]
    elif shape == "method":
        body = "class Trainer:\n    def run(self):\n" + indent(body, "        ") + "\nTrainer().run()\n"
    return _HEAD + dedent(body), names


# What an evaluator easily gets wrong: what runs later, is shared, is in the middle, or is made by something else.
_START = "config = {'zero_optimization': {'stage': 2}, 'a': 1}\n"
ODD = [
    """
def gen(c):
    c['a'] = 2
    yield 1
g = gen(config)
""",
    """
def gen(c):
    c['a'] = 2
    yield 1
for x in gen(config): config['b'] = x
""",
    """
async def f(c):
    c['a'] = 2
f(config).close()
""",
    """
async def f(c):
    c['a'] = 2
asyncio.run(f(config))
""",
    """
items = [1,2,3]
for x in items:
    if len(items) < 6: items.append(x)
    config['n'] = x
config['items'] = items
""",
    """
class P:
    def __init__(self): self._x = 1
    @property
    def x(self): return self._x
    @x.setter
    def x(self, v): self._x = v * 10
p = P(); p.x = 3
config['a'] = p.x
""",
    """
class D:
    def __get__(self, o, t): return 7
    def __set__(self, o, v): pass
class P:
    x = D()
p = P(); p.x = 3
config['a'] = p.x
""",
    """
class M(type):
    def __new__(m, n, b, d):
        d['stage'] = 9
        return super().__new__(m, n, b, d)
class P(metaclass=M):
    stage = 1
config['a'] = P.stage
""",
    """
class E:
    def __enter__(self): return self
    def __exit__(self, *a): config['a'] = 5
with E(): pass
""",
    """
@contextmanager
def patched(c):
    old = c['a']; c['a'] = 9
    yield
    c['a'] = old
with patched(config):
    config['b'] = config['a']
""",
    """
def f():
    try:
        config['a'] = int('x')
    finally:
        config['f'] = 1
try: f()
except ValueError: config['c'] = 1
""",
    """
alias = config
def touch(): alias['a'] = 99
if len(sys.argv) > 1:
    touch(); touch(); x = 1; y = 2; z = x + y; w = [i for i in range(3)]; print(len(w), z, y, x, 'aaa', 'bbb', len('x'), len('y'), z + 1, z + 2)
""",
    """
class A:
    stage = 1
    opts = {}
class B(A): pass
B.opts['x'] = 1; A.stage = 2
config['a'] = [B.stage, A.opts]
""",
    """
def f(x=[]):
    x.append(1)
    return len(x)
f(); f()
config['a'] = f()
""",
    """
x = [[0] * 2] * 2
x[0][0] = 5
config['a'] = x
""",
    """
fs = [lambda: i for i in range(3)]
config['a'] = [f() for f in fs]
""",
    """
d = {1: 'a', True: 'b'}
config['a'] = list(d.values()); config['k'] = [k for k in d]
""",
    """
a = b = [1]
a += [2]
config['a'] = b
t = (1,)
u = t
t += (2,)
config['b'] = u
""",
    """
try:
    config['a'] = 2
    {}['x']
    config['a'] = 3
except KeyError as e:
    config['k'] = str(e)
""",
    """
with contextlib.suppress(KeyError):
    config['a'] = 4
    del config['nope']
    config['a'] = 5
""",
    """
def outer():
    x = 1
    def inner():
        nonlocal x
        x += 1
    inner(); inner()
    return x
config['a'] = outer()
""",
    """
class Node:
    def __init__(self): self.__x = 1; self.y = 2
config['a'] = vars(Node())
""",
    """
globals()['STAGE'] = 3
config['a'] = STAGE
""",
    """
STAGE = 1
globals().update(STAGE=4)
config['a'] = STAGE
""",
    """
STAGE = 1
exec('STAGE = 2')
config['a'] = STAGE
""",
    """
for i in range(3):
    for j in range(3):
        if j == 1: break
        if i == 1: continue
        config.setdefault('l', []).append((i, j))
    else:
        config['never'] = 1
""",
    """
it = iter([1,2,3])
config['a'] = [next(it), list(it), list(it)]
z = zip([1,2],[3,4])
config['b'] = [dict(z), dict(z)]
""",
    """
def f(n):
    if n == 0: return []
    return f(n-1) + [n]
config['a'] = f(8)
""",
    """
def f(n):
    return 1 if n < 2 else f(n-1) + f(n-2)
config['a'] = f(10)
""",
    """
class S(dict):
    def __setitem__(self, k, v): super().__setitem__(k, v * 2)
s = S(); s['x'] = 1
config['a'] = dict(s)
""",
    """
k = copy.copy(config); k['zero_optimization']['stage'] = 7
""",
    """
def deco(f):
    config['decorated'] = f.__name__
    return lambda *a: f(*a) + 1
@deco
def g(x): return x
config['a'] = g(1)
""",
    """
x = 5
class Q:
    x = 6
    y = [x for _ in range(1)]
    def z(self): return x
config['a'] = [Q.y, Q().z()]
""",
    """
def upd(d, **kw):
    d = dict(d); d.update(kw); return d
config = upd(config, a=3, b=4)
""",
    """
@dataclass
class T:
    a: int = 1
    b: list = field(default_factory=lambda: [1])
    def __post_init__(self): self.c = self.a + 1; self.b.append(self.a)
t = T(a=4)
config['a'] = asdict(t); config['c'] = t.c
""",
    """
config['a'] = sorted(['b','A','c'], key=str.lower)
config['b'] = max({'x': 3, 'y': 5}, key={'x': 3, 'y': 5}.get)
""",
    """
s = 'abc'
config['a'] = s[1:] + s[-1] * 2 + f'{3.14159:.2f}{"x"!r:>5}'
""",
    """
if (n := len(sys.argv)) > 100: config['a'] = 1
else: config['a'] = 'small'
""",
    """
class Reg:
    table = {}
    @classmethod
    def add(cls, name):
        def wrap(f): cls.table[name] = f; return f
        return wrap
@Reg.add('x')
def mk(): return {'k': 1}
config['a'] = Reg.table['x']()
""",
    """
def f(*, a=1, **k): return {'a': a, **k}
config.update(f(**{'a': 2, 'z': 3}))
""",
    """
try:
    raise ValueError('x')
except (TypeError, ValueError):
    config['a'] = 2
else:
    config['a'] = 3
""",
    """
def run():
    for k in list(config):
        if k == 'a':
            del config[k]
            return
run()
""",
    """
while True:
    config['a'] += 1
    if config['a'] > 5: break
""",
    """
x = None
def setx():
    global x
    x = {'v': 1}
setx()
config['a'] = x
x['v'] = 2
""",
    """
config['a'] = [*range(3), *'ab', *{'k': 1}]
""",
    """
a, *b = [1,2,3]; (c, d), e = (1, 2), 3
for i, (p, q) in enumerate([(1,2),(3,4)]): config[f'k{i}'] = p * q
config['a'] = [a, b, c, d, e]
""",
    """
class Base:
    def make(self): return {'n': self.name(), 'b': 1}
    def name(self): return 'base'
class Child(Base):
    def name(self): return 'child'
    def make(self): return {**super().make(), 'c': 2}
config['a'] = Child().make()
""",
]


def odd_script(code):
    """One of them as a whole script."""
    return _HEAD + _START + code + _CALL
