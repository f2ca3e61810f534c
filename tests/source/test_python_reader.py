"""Configs in Python: what the reader says of a dict is what arrives when the module is run."""

from __future__ import annotations

import json
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st
from python_modules import UNKNOWN, Anything, agrees, arriving

from ds_lint.source import python
from ds_lint.source.tree import plain, walk

CALL = "\nimport deepspeed\ndeepspeed.initialize(model=None, config={})\n"


def read(code):
    return python.read(dedent(code), "train.py")


def only(code):
    (document,) = read(code)
    return document


KNOWN = {
    "a literal": """
        config = {"zero_optimization": {"stage": 3}, "gradient_clipping": 1.0, "x": [1, -2, None, True, "a" "b"]}
        """,
    "a call of dict": """
        config = dict(zero_optimization=dict(stage=2), bf16={"enabled": True})
        """,
    "names": """
        STAGE, zero = 3, None
        LR = 2 * 1e-5
        zero_section = {"stage": 1 + 1, "reduce_bucket_size": int(5e8)}
        config = {"zero_optimization": zero_section, "optimizer": {"type": "Adam", "params": {"lr": LR}}}
        """,
    "unpacked": """
        base = {"fp16": {"enabled": True}, "steps_per_print": 1}
        config = {**base, "steps_per_print": 10, **{"bf16": {"enabled": False}}}
        """,
    "items assigned": """
        config = {"zero_optimization": {"stage": 2}}
        config["fp16"] = {}
        config["fp16"]["enabled"] = True
        config["zero_optimization"]["stage"] = 3
        del config["fp16"]["enabled"]
        """,
    "updates": """
        config = {"zero_optimization": {"stage": 2, "overlap_comm": True}}
        config.update({"a": 1}, steps_per_print=3)
        config["zero_optimization"].update(stage=1)
        config["zero_optimization"].pop("overlap_comm")
        config.setdefault("a", 2)
        config.setdefault("b", 2)
        """,
    "copies": """
        import copy
        base = {"zero_optimization": {"stage": 2}}
        config = copy.deepcopy(base)
        config["zero_optimization"]["stage"] = 3
        """,
    "a function": """
        def make(rank, stage=3):
            zero = {"stage": 3}
            result = {"zero_optimization": zero}
            result["bf16"] = {"enabled": True}
            return result
        config = make(0)
        """,
    "annotations and walrus": """
        config: dict = {"zero_optimization": {"stage": (number := 2)}}
        """,
    "a later change": """
        import deepspeed
        config = {"zero_optimization": {"stage": 2}}
        deepspeed.initialize(model=None, config=config)
        config["zero_optimization"]["stage"] = 3
        raise SystemExit
        """,
}


def run(code, **known):
    try:
        return arriving(code, **known)
    except SystemExit:
        pytest.fail("a module must not end the test")


@pytest.mark.parametrize("code", [code for name, code in KNOWN.items() if name != "a later change"], ids=lambda _: "")
def test_what_shows_is_known_exactly(code):
    module = dedent(code) + CALL.format("config")
    (arrived,) = arriving(module)
    document = only(module)
    assert plain(document.root) == arrived
    assert (document.stack, document.is_dict, document.is_fragment) == ("deepspeed", True, False)


def test_a_change_after_the_call_does_not_count():
    module = dedent(KNOWN["a later change"]).replace("raise SystemExit\n", "")
    assert plain(only(module).root) == arriving(module)[0] == {"zero_optimization": {"stage": 2}}


STAGES = [f"config = {{'zero_optimization': {{'stage': {stage}}}}}\n" for stage in (1, 2)]


@pytest.mark.parametrize(
    "between",
    ["", CALL.format("config"), "config['fp16'] = {}\n", "with open(__file__) as file:\n    config['fp16'] = {}\n"],
)
@pytest.mark.parametrize("after", ["", "config['bf16'] = {}\n"])
def test_an_assignment_counts_until_the_next(between, after):
    module = f"__file__ = {__file__!r}\n{STAGES[0]}{between}{STAGES[1]}{after}{CALL.format('config')}"
    taken = [one for one in read(module) if one.stack is not None]
    assert [plain(one.root) for one in taken] == arriving(module)
    assert not any(one.is_fragment for one in taken)


PARTLY_KNOWN = {
    "computed": """
        config = {"train_batch_size": len(__name__), "lr": float("1e-5"), "zero_optimization": {"stage": 2 if c else 3}}
        """,
    "a branch": """
        config = {"zero_optimization": {"stage": 2}, "fp16": {}}
        if c:
            config["zero_optimization"]["stage"] = 3
            config["bf16"] = {"enabled": True}
            del config["fp16"]
        """,
    "a branch not taken": """
        config = {"zero_optimization": {"stage": 2}, "fp16": {}}
        if not c:
            config["zero_optimization"]["stage"] = 3
            config["bf16"] = {"enabled": True}
            config.pop("fp16")
        """,
    "a loop": """
        config = {"zero_optimization": {"stage": 0}}
        for stage in (1, 2):
            config["zero_optimization"]["stage"] = stage
        config["zero_optimization"]["stage"] += 1
        """,
    "two assignments": """
        config = {"zero_optimization": {"stage": 2}}
        if c:
            config = {"zero_optimization": {"stage": 3}}
        """,
    "another function": """
        config = {"zero_optimization": {"stage": 2}}
        def change():
            config["zero_optimization"]["stage"] = 3
            config["fp16"] = {"enabled": True}
        change()
        """,
    "an argument": """
        def change(config):
            config["zero_optimization"]["overlap_comm"] = True
            config["bf16"] = {}
        config = {"zero_optimization": {}}
        change(config)
        """,
    "a parameter": """
        def make(stage):
            return {"zero_optimization": {"stage": stage}}
        config = make(3)
        """,
    "an array": """
        config = {"optimizer": {"params": {"betas": [beta(), 0.9], "x": [{"y": beta()}]}}}
        """,
    "unknown keys": """
        config = {"zero_optimization": {**anything}, "x": 1}
        config["f" + "p16"] = {}
        """,
    "global": """
        stage = 2
        def change():
            global stage
            stage = 3
        change()
        config = {"zero_optimization": {"stage": stage}}
        """,
    "attributes": """
        class Trainer:
            def __init__(self):
                self.config = {"zero_optimization": {"stage": 3}}
                self.config["fp16"] = {"enabled": c}
        self = Trainer()
        config = self.config
        """,
    "shadowed": """
        stage = 3
        def make():
            for stage in (1, 2):
                pass
            return {"zero_optimization": {"stage": stage}}
        config = make()
        """,
}


@pytest.mark.parametrize("code", PARTLY_KNOWN.values(), ids=PARTLY_KNOWN)
def test_what_may_change_is_unknown(code):
    module = dedent(code) + CALL.format("config")
    arrived = arriving(module, c=True, anything={"stage": 1}, beta=lambda: 0.5)
    for document in read(module):
        if document.stack is None:
            assert document.is_fragment  # one of two dicts that the variable may have
            continue
        assert any(agrees(document.root, value, may_have_more=document.is_fragment) for value in arrived), plain(
            document.root
        )


@pytest.mark.parametrize(
    ("call", "stack", "is_dict"),
    [
        ("import deepspeed\ndeepspeed.initialize(config=config)", "deepspeed", True),
        ("from transformers import TrainingArguments\nTrainingArguments('out', deepspeed=config)", "trainer", True),
        ("from trl import SFTConfig\nargs = SFTConfig(deepspeed=config)", "trainer", True),
        ("from accelerate import DeepSpeedPlugin\nDeepSpeedPlugin(hf_ds_config=config)", "accelerate", True),
        ("import json\nwith open('/dev/null', 'w') as file:\n    json.dump(config, file)", None, False),
    ],
)
def test_who_loads_it_shows_at_the_call(call, stack, is_dict):
    module = f"config = {{'zero_optimization': {{'stage': 2}}}}\n{call}\n"
    document = only(module)
    assert arriving(module) == [plain(document.root)]
    assert (document.stack, document.is_dict, document.is_fragment) == (stack, is_dict, False)


def test_lightning_fills_in_what_is_missing():
    document = only(
        "from pytorch_lightning.strategies import DeepSpeedStrategy\nDeepSpeedStrategy(config={'fp16': {}})"
    )
    assert (document.stack, document.is_fragment) == ("deepspeed", True)


def test_a_dict_that_looks_like_a_config_is_a_fragment():
    document = only("OVERRIDES = {'zero_optimization': {'stage': 2}}")
    assert (document.stack, document.is_dict, document.is_fragment) == (None, True, True)


@pytest.mark.parametrize(
    "code",
    [
        "SETTINGS = {'optimizer': 'adam', 'train_batch_size': 4}",
        "update({'train_micro_batch_size_per_gpu': size, 'batch_size': size, 'clip_grad': clip})",
        "import json\njson.dump({'fp16': 3}, file)",
        "import deepspeed\ndeepspeed.init_inference(model, config={'zero_optimization': {}, 'dtype': 'fp16'})",
        "import deepspeed as ds\nconfig = {'zero_optimization': {'stage': 3}}\nds.init_inference(model, config=config)",
        "def f(:\n",
        "'\\ud800'\nprint(",
        "",
    ],
)
def test_other_dicts_are_left_alone(code):
    assert read(code) == []


def test_every_key_stands_where_the_text_has_it():
    code = "π = {'zero_optimization': {\"stage\": 2}}  # é\r\nd = dict(zero_optimization={'stage': π}); x = 1\f\n"
    for document in python.read("\ufeff" + code, "a.py"):
        for _, member in walk(document.root):
            written = document.text[member.key_span.start : member.key_span.end]
            assert written.strip("'\"") == member.key


def test_a_named_dict_stands_where_it_is_named():
    document = only("zero = {'stage': 2}\nconfig = {'zero_optimization': zero}\n" + CALL.format("config"))
    value = document.root.get("zero_optimization")
    assert document.text[value.span.start : value.span.end] == "zero"


def test_dicts_that_grow_without_bounds_end():
    lines = ["c0 = {'zero_optimization': {'stage': 2}}"]
    lines += [f"c{n + 1} = {{'a': c{n}, 'b': c{n}}}" for n in range(60)]
    assert len(read("\n".join(lines) + CALL.format("c60"))) == 1


# ---------------------------------------------------------------------------------------------------------- generated

KEYS = st.sampled_from(["zero_optimization", "stage", "fp16", "enabled", "optimizer", "params"])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-9, 10**12)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=3))
SECTIONS = st.dictionaries(KEYS, VALUES, max_size=3)


@st.composite
def statements(draw):
    """A module whose statements build a dict, some of them under conditions."""
    names = ["a", "b"]
    lines = [f"{name} = {draw(SECTIONS)!r}" for name in names]
    for _ in range(draw(st.integers(0, 6))):
        name, other = draw(st.permutations(names))
        key, value = draw(KEYS), draw(VALUES)
        line = draw(
            st.sampled_from(
                [
                    f"{name}[{key!r}] = {value!r}",
                    f"{name}.update({{{key!r}: {value!r}}})",
                    f"{name}.update({key}={value!r})",
                    f"{name}.pop({key!r}, None)",
                    f"{name}.setdefault({key!r}, {value!r})",
                    f"{name}[{key!r}] = dict({other})",
                    f"{name} = {{**{other}, {key!r}: {value!r}}}",
                    f"print(len({name}))",
                    f"change({name}, {key!r})",
                ]
            )
        )
        before = draw(st.sampled_from(["", "", "", "if yes: ", "if no: ", "for _ in 'ab': "]))
        lines.append(before + line)
    return "\n".join(lines) + CALL.format("a")


def change(section, key):
    """A function that gets a config may add keys; those that are written are checked as they are."""
    section.setdefault(key, UNKNOWN)


@given(statements())
def test_nothing_is_said_that_does_not_arrive(module):
    known = {"yes": True, "no": False, "change": change, "print": Anything()}
    (arrived,) = arriving(module, **known)
    for document in read(module):
        if document.stack == "deepspeed":
            assert agrees(document.root, arrived, may_have_more=document.is_fragment)


@given(st.text(max_size=60) | st.binary(max_size=60).map(lambda data: data.decode("latin-1")))
def test_any_text_has_an_answer(text):
    assert isinstance(python.read(text, "a.py"), list)


@given(SECTIONS)
def test_a_dict_is_read_as_it_is_written(config):
    (document,) = read(f"import deepspeed\ndeepspeed.initialize(config={config!r})\n")
    assert json.dumps(plain(document.root)) == json.dumps(config)


@pytest.mark.parametrize(
    "change",
    [
        'config |= {"gradient_clipping": 1.0}',
        'config.update(gradient_clipping=1.0)\nconfig["fp16"] |= {}',
        'config = base | {"gradient_clipping": 1.0}',
    ],
)
def test_dicts_are_united(change):
    first = "base" if change.startswith("config =") else "config"
    text = f'{first} = {{"train_batch_size": 1, "fp16": {{"enabled": True}}}}\n{change}\n'
    (document,) = python.read(f"{text}deepspeed.initialize(config=config)\n", "a.py")
    assert plain(document.root) == {"train_batch_size": 1, "fp16": {"enabled": True}, "gradient_clipping": 1.0}
    assert not document.is_fragment


def test_a_dict_that_no_call_takes_is_what_the_module_makes_of_it():
    text = 'config = {"train_batch_size": 1, "gone": 2, "zero_optimization": {"stage": 2, "old": 3}}\n'
    text += 'del config["gone"]\nconfig["zero_optimization"].pop("old")\nrun(config)\n'
    (document,) = python.read(text, "a.py")
    assert plain(document.root) == {"train_batch_size": 1, "zero_optimization": {"stage": 2}}
