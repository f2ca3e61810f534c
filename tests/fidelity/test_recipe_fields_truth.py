"""Which fields and arguments training frameworks take (DS672, DS673), against the parsers of their releases.

Recipes and command lines are generated. pip downloads the frameworks; what they import and never call is a stand-in.
"""

from __future__ import annotations

import json
import random
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
import yaml

pytest.importorskip("transformers")

from installed import INSTALLED, measured_with_the_newest

from ds_lint.facts.launched import LaunchFacts
from ds_lint.frameworks import FRAMEWORKS
from ds_lint.knowledge import tables
from ds_lint.knowledge.framework_fields import FrameworkFields
from ds_lint.project.launches import read_launches
from ds_lint.semantics.recipe_fields import refused_at_launch, refused_in_recipe
from ds_lint.session.launched import LaunchingProject
from ds_lint.targets.pin import Pin
from tools.extract.releases import fetch

if TYPE_CHECKING:
    from collections.abc import Mapping

PROGRAM = Path(__file__).parent / "programs" / "framework_parsers.py"
NUMBER = 250
OMEGACONF = [("omegaconf", "2.3.0", ""), ("antlr4-python3-runtime", "4.9.3", "src")]
NEEDED = {
    "LLaMA-Factory": OMEGACONF,
    "axolotl": [("pillow", "12.0.0", "")],
    "ms-swift": [*OMEGACONF, ("modelscope", "1.28.0", ""), ("pillow", "12.0.0", "")],
}
# What a release of transformers needs that the installed one does not.
OLDER = {"4.49.0": [("transformers", "4.49.0", ""), ("tokenizers", "0.21.4", ""), ("huggingface-hub", "0.34.4", "")]}
MINIMAL: dict[str, dict[str, Any]] = {
    "LLaMA-Factory": {"model_name_or_path": "x", "template": "qwen", "output_dir": "o"},
    "axolotl": {
        "base_model": "x", "micro_batch_size": 1, "gradient_accumulation_steps": 1, "sequence_len": 8,
        "learning_rate": 1e-4, "datasets": [{"path": "a", "type": "alpaca"}],
    },
    "ms-swift": {"model": "x", "output_dir": "o"},
}  # fmt: skip
CONFIG = '{"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}}'
STARTS = {"LLaMA-Factory": "llamafactory-cli train", "axolotl": "axolotl train", "ms-swift": "swift sft"}
VALUES = (
    1, 2.5, "abc", True, False, "true", "1e-4", 0, "2", None, [1, 2], ["a"], "auto", 3.0, "no", "steps", "cosine", -1,
    "all", {"a": 1},
)  # fmt: skip
WORDS = ("1", "2.5", "abc", "True", "false", "1e-4", "0", "auto", "no", "steps", "cosine", "all", None, None, "a b")
STRANGE = ("hostfile", "num_gpus", "foo", "lerning_rate", "per_device_train_batchsize", "bs")

pytestmark = [pytest.mark.fidelity, pytest.mark.long, measured_with_the_newest]


class Case(NamedTuple):
    """A command of a framework: the recipe as YAML, None if there is none, and the words behind it."""

    recipe: str | None
    words: list[str]


class Generator:
    """Recipes and command lines by chance, with names of fields, slips in them, and values of all types."""

    def __init__(self, framework: str, seed: int) -> None:
        self.chance = random.Random(seed)
        self.framework = framework
        store = tables.load("transformers")
        inherited = sorted({*store["training_arguments"], *store["seq2seq_arguments"]})
        inherited = self.chance.sample(inherited, 40) if framework == "axolotl" else inherited
        self.names = [*tables.load("recipe_fields")["frameworks"][framework]["fields"], *inherited]

    def case(self) -> Case:
        if self.framework != "axolotl" and self.chance.random() < 0.4:
            return Case(None, [*self.minimal_words(), *self.flags()])
        fields = {**MINIMAL[self.framework], "deepspeed": "ds.json"}
        for name in self.some():
            fields.setdefault(name, self.chance.choice(VALUES))
        recipe = yaml.safe_dump(fields, sort_keys=False)
        if self.chance.random() < 0.1:  # a key that is there twice
            recipe += yaml.safe_dump({"deepspeed": "ds.json"})
        return Case(recipe, self.behind() if self.chance.random() < 0.3 else [])

    def some(self) -> list[str]:
        names = [self.chance.choice(self.names) for _ in range(self.chance.choice((0, 1, 1, 2, 3)))]
        names = [self.slip(name) if self.chance.random() < 0.3 else name for name in names]
        return names + [self.chance.choice(STRANGE)] * (self.chance.random() < 0.1)

    def slip(self, name: str) -> str:
        at = self.chance.randrange(1, max(len(name), 2))
        return self.chance.choice([
            name[:at] + name[at + 1 :],
            name[:at] + self.chance.choice("abcdefgh_") + name[at:],
            name[: at + 1] + name[at:],
            name.replace("_", "", 1),
        ])  # fmt: skip

    def minimal_words(self) -> list[str]:
        fields = {**MINIMAL[self.framework], "deepspeed": "ds.json"}
        return [word for name, value in fields.items() for word in (f"--{name}", value)]

    def flags(self) -> list[str]:
        words: list[str] = []
        for name in self.some():
            written = self.chance.choice([name, name, name.replace("_", "-")])
            value = self.chance.choice(WORDS)
            if f"--{written}" not in words:
                words += [f"--{written}", *(value.split() if value is not None else ())]
        return words

    def behind(self) -> list[str]:
        """What a command line sets after a recipe."""
        if self.framework == "LLaMA-Factory":
            return [f"{name}={self.chance.choice(('1', 'abc', 'true', '1e-4'))}" for name in self.some()]
        return self.flags() if self.framework == "ms-swift" else []


def real(framework: str, release: str, transformers: str, cases: list[Case], folder: Path) -> list[Any]:
    tree = fetch(framework.lower().replace("llama-factory", "llamafactory"), release, folder)
    libraries = [*OLDER.get(transformers, ()), *NEEDED[framework]]
    needed = [fetch(library, number, folder) / below for library, number, below in libraries]
    done = subprocess.run(
        [sys.executable, str(PROGRAM), framework, *map(str, (tree, tree / "src", *needed))],
        input=json.dumps([one._asdict() for one in cases]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "\0" in done.stdout, done.stderr[-3000:]
    answers: list[Any] = json.loads(done.stdout.partition("\0")[2])
    return answers


def said(framework: str, case: Case, pins: Mapping[str, Pin], folder: Path) -> tuple[set[str], set[str]]:
    """The fields that ds-lint calls rejected, and those that it calls ignored."""
    words = [*(["a.yaml"] if case.recipe is not None else []), *case.words]
    (folder / "a.yaml").write_text(case.recipe or "", encoding="utf-8")
    (folder / "run.sh").write_text(f"{STARTS[framework]} {shlex.join(words)}\n", encoding="utf-8")
    file = read_launches(str(folder / "run.sh"), str(folder))
    assert file is not None, words
    (facts,) = LaunchingProject(str(folder)).launches(file)
    assert isinstance(facts, LaunchFacts)
    found = [(one.name, one.refused) for one in refused_at_launch(facts, pins, {})]
    assert (facts.recipe is None) is (case.recipe is None), case
    if facts.recipe is not None:
        found += refused_in_recipe(facts.recipe, pins, facts, {})
    effects = [(name, one.outcome.effect) for name, one in found]
    return ({name for name, one in effects if one == "rejected"}, {name for name, one in effects if one == "ignored"})


def is_rejected(folder: Path) -> bool:
    """Whether another rule reports the launch: an argument of transformers is compared with the config, too."""
    words = [sys.executable, "-m", "ds_lint", "check", str(folder), "--output-format", "json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return any(one["effect"] == "rejected" for one in json.loads(done.stdout)["findings"])


def decided(names: set[str], release: str) -> set[str]:
    """The fields that take numbers, truth values or certain words; ds-lint says nothing of the values of others."""
    known = FrameworkFields(FRAMEWORKS["axolotl"], {"axolotl": Pin("axolotl", f"=={release}", "requirements.txt")})
    facts = {name: known.facts(name, release) or {} for name in names}
    return {
        name
        for name, one in facts.items()
        if not one.get("is_list") and ("choices" in one or one.get("kind") in ("int", "float", "bool"))
    }


def strange(names: set[str]) -> set[str]:
    """Those that no release of axolotl has or looks up."""
    return names - {*tables.load("recipe_fields")["frameworks"]["axolotl"]["fields"]}


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("packages")


@pytest.mark.parametrize(
    ("framework", "release", "transformers"),
    [
        ("LLaMA-Factory", "0.9.2", "4.49.0"), ("LLaMA-Factory", "0.9.3", "4.49.0"), ("LLaMA-Factory", "0.9.5", ""),
        ("axolotl", "0.12.0", ""), ("axolotl", "0.21.0", ""),
        ("ms-swift", "3.12.0", "4.49.0"), ("ms-swift", "4.6.0", ""),
    ],
)  # fmt: skip
def test_what_is_not_taken(framework: str, release: str, transformers: str, tmp_path: Path, packages: Path) -> None:
    generator = Generator(framework, seed=35)
    cases = [generator.case() for _ in range(NUMBER)]
    (tmp_path / "ds.json").write_text(CONFIG, encoding="utf-8")
    package = framework.lower().replace("llama-factory", "llamafactory")
    numbers = {package: release, "transformers": transformers or INSTALLED.transformers}
    pins = {library: Pin(library, f"=={number}", "requirements.txt") for library, number in numbers.items()}
    (tmp_path / "requirements.txt").write_text("".join(f"{one}=={number}\n" for one, number in numbers.items()))
    if framework != "axolotl":
        said(framework, Case(None, generator.minimal_words()), pins, tmp_path)
        assert not is_rejected(tmp_path)
    wrong, missed, compared = [], [], 0
    for case, answer in zip(cases, real(framework, release, transformers, cases, packages), strict=True):
        rejected, ignored = said(framework, case, pins, tmp_path)
        shown = f"{case} {rejected=} {ignored=} {answer=}"
        if framework != "axolotl":
            compared += 1
            if rejected and not answer:
                wrong.append(shown)
            elif answer and not rejected and not is_rejected(tmp_path):
                missed.append(shown)
        elif answer is not None:  # else a validator stops it
            compared += 1
            dropped = {*answer["dropped"]} if answer["dropped"] is not None else ignored
            if not rejected <= {*answer["rejected"]} or not ignored <= dropped:
                wrong.append(shown)
            elif decided({*answer["rejected"]} - rejected, release) or strange(dropped - ignored):
                missed.append(shown)
    sys.stdout.write(f"\n{framework} {release}: {compared} compared, {len(wrong)} false, {len(missed)} missed\n")
    assert not wrong, "\n".join(wrong)
    assert compared > NUMBER // 3
    assert len(missed) <= 0.01 * compared, "\n".join(missed)
