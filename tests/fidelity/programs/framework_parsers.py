"""What the parser of a training framework says to recipes and command lines, a JSON list in standard input.

    python framework_parsers.py LLaMA-Factory|axolotl|ms-swift FOLDER...

The folders hold the framework and what it needs. Other libraries that it imports are stand-ins. Only the parser runs:
what the classes of fields do with their values is left out. The answers: null, or the message; for axolotl the fields
that it rejects and those that it drops, or null where a validator stops it.
"""

import argparse
import contextlib
import importlib.abc
import importlib.machinery
import io
import json
import logging
import os
import sys
import tempfile
import types

os.environ.update(DISABLE_VERSION_CHECK="1", CUDA_VISIBLE_DEVICES="")
name, *folders = sys.argv[1:]
sys.path[:0] = folders

ABSENT = (
    "addict", "attrdict", "binpacking", "datasets", "dotenv", "fire", "matplotlib", "jieba", "json_repair", "nltk",
    "pandas", "rouge", "torchao", "trl",
)  # fmt: skip


class _Anything(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything(name, (), {"__init__": lambda *_, **__: None})


class _StandIn(types.ModuleType):
    __path__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything(name, (), {"__init__": lambda *_, **__: None})


class _StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the libraries that are absent, after all others."""

    def find_spec(self, name, _path=None, _target=None):
        return importlib.machinery.ModuleSpec(name, self) if name.partition(".")[0] in ABSENT else None

    def create_module(self, spec):
        return _StandIn(spec.name)

    def exec_module(self, module): ...


import transformers  # noqa: E402, F401 - before the stand-ins, which it must not take for installed

sys.meta_path.append(_StandIns())
_make = argparse.ArgumentParser.__init__  # two dataclasses have a field of the same name since transformers 5
argparse.ArgumentParser.__init__ = lambda self, *given, **named: _make(
    self, *given, **{"conflict_handler": "resolve", **named}
)


def written(recipe):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", delete=False) as file:
        file.write(recipe)
    return file.name


def message(parse):
    """Why something does not parse, or None."""
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
            return parse()
    except SystemExit:
        return errors.getvalue().strip().splitlines()[-1]
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def of_llama_factory():
    from llamafactory.hparams import parser

    for cls in parser._TRAIN_ARGS:
        cls.__post_init__ = lambda self: None

    def parsed(case):
        sys.argv = ["x", *([written(case["recipe"])] if case["recipe"] is not None else []), *case["words"]]
        parser._parse_train_args()

    return lambda case: message(lambda: parsed(case))


def of_ms_swift():
    from swift.cli import main
    from swift.utils.utils import parse_args

    try:
        from swift.arguments import SftArguments as Arguments
    except ImportError:
        from swift.llm.argument import TrainArguments as Arguments
    Arguments.__post_init__ = lambda self: None

    def parsed(case):
        words = list(case["words"])
        if case["recipe"] is not None and hasattr(main, "parse_yaml_args"):
            words.insert(0, written(case["recipe"]))
            main.parse_yaml_args(words)
        elif case["recipe"] is not None:
            words[:0] = ["--config", written(case["recipe"])]
            main.prepare_config_args(words)
        _, rest = parse_args(Arguments, list(map(str, words)))
        return f"not taken: {rest}" if rest else None

    return lambda case: message(lambda: parsed(case))


def of_axolotl():
    import yaml
    from axolotl.utils.schemas.config import AxolotlInputConfig
    from pydantic import ValidationError

    def parsed(case):
        given = yaml.safe_load(case["recipe"])
        try:
            kept = AxolotlInputConfig(**given).model_dump(exclude_none=True)
        except ValidationError as error:
            of_types = [one for one in error.errors() if one["type"] != "value_error" and one["loc"]]
            if len(of_types) < len(error.errors()):
                return None
            return {"rejected": sorted({str(one["loc"][0]) for one in of_types}), "dropped": None}
        except Exception:  # of a validator
            return None
        dropped = sorted(name for name, value in given.items() if value is not None and name not in kept)
        return {"rejected": [], "dropped": dropped}

    return parsed


logging.disable(logging.CRITICAL)
answer = {"LLaMA-Factory": of_llama_factory, "ms-swift": of_ms_swift, "axolotl": of_axolotl}[name]()
answers = [answer(case) for case in json.load(sys.stdin)]
sys.stdout.write(f"\0{json.dumps(answers)}")
