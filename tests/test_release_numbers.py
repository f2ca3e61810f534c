"""The number of a library's newest release stands in few places, so that the next release outdates nothing else."""

from __future__ import annotations

import re
from fnmatch import fnmatch

import pytest
import tracked
from newest import NEWEST

from ds_lint.knowledge import tables

THIS = "tests/test_release_numbers.py"

# Where such a number stays: which files, what is on the line, and why. A number in the second column is that of a
# release with which something changed: the next one does not make it wrong.
ALLOWED = [
    ("schemas/*", r"", "the stores, and what is written from them"),
    ("requirements/fidelity.txt", r"", "the pin that everything installs"),
    ("tools/resident/measured.json", r"", "with what it was measured"),
    ("tools/own_scripts/requirements*.txt", r"", "the pins of a run that was made"),
    ("CHANGELOG.md", r"", "history: what ds-lint knew when it was released"),
    ("rules/*.md", r"", "since when, until when, with what it was measured; outputs: tools.rule_pages --write"),
    ("docs/index.md", r"", "its output is rewritten by tools/refresh"),
    ("docs/images/finding.svg", r"", "rewritten by tools/refresh"),
    ("docs/accelerate.md", r"default of Accelerate", "its output is rewritten by tools/refresh"),
    ("docs/guides/trainer.md", r": DS\d+ \[", "its output is rewritten by tools/refresh"),
    ("docs/what-it-catches.md", r": DS\d+ \[", "its output is rewritten by tools/refresh"),
    ("docs/*.md", r"--to 0\.19\.8 | to 0\.19\.8\)?$|in DeepSpeed 0\.19\.8:", "an upgrade to a named release"),
    ("docs/*.md", r"^note: .*known defect|^note: (fixed|new|still) in ", "what an upgrade prints"),
    ("docs/disagreements.md", r"Since 0\.19\.8|/blob/v", "what changed in this release, and the text that was read"),
    ("docs/guides/upgrading.md", r"^\| 0\.19\.8|0\.19\.8,? (which )?rejects", "what changed in this release"),
    ("docs/guides/upgrading.md", r"0\.19\.8,? (which )?rejects", "what changed in this release"),
    ("docs/agreement.md", r"", "written by python -m tools.fidelity, with the day"),
    ("docs/memory-compared.md", r"", "written by python -m tools.estimators, with the day"),
    ("docs/own-scripts.md", r"", "written by python -m tools.own_scripts, with the day"),
    ("docs/raises/*.md", r"", "written by python -m tools.raises"),
    ("docs/*.md", r"(?i)measured|with deepspeed|with accelerate|written by", "what was measured or run, and with what"),
    ("examples/requirements.txt", r"", "the example of the README"),
    ("tools/bench/results.json", r'"machine"', "what was measured, and with what"),
    ("tools/own_scripts/results.json", r"", "what was measured, and with what"),
    ("tools/pairs/measured.json", r"", "what was measured, and with what"),
    ("tools/raises/releases.json", r"", "written by python -m tools.raises"),
    ("tools/gpu/there.txt", r"", "what a machine with a GPU has"),
    ("tools/gpu/results/*/*.json", r"", "what was installed when it was measured"),
    ("docs/gpu.md", r"GiB, driver", "what was installed when it was measured"),
    ("tools/*.py", r"python -m tools\.", "how a command is called with a new release"),
    ("tools/extract/recipes.py", r"", "releases of training frameworks, which may have the same number"),
    ("tools/own_scripts/requirements.txt", r"", "releases of other packages, which may have the same number"),
    ("*package-lock.json", r"", "releases of packages of npm, which may have the same number"),
    ("ds_lint/footprint/*.py", r"(?i)of deepspeed", "with what it was measured"),
    ("ds_lint/smoke/standins/kernels.py", r"deepspeed/ops/csrc", "the code that was read"),
    ("ds_lint/checks/precision.py", r"0\.19\.8 removed", "amp is rejected since this release"),
    ("ds_lint/targets/releases.py", r"the same for", "two ways to write a number, whichever it is"),
    ("tests/memory/test_live_arithmetic.py", r"# with DeepSpeed", "with what it was measured"),
    ("tests/fidelity/programs/*.py", r"# AutoEP", "the release that needs the workaround"),
    ("tests/test_api.py", r"0\.19\.8", "amp is rejected since this release"),
    ("tests/test_ranges.py", r"0\.19\.8", "amp is rejected since this release"),
    ("tests/test_upgrade.py", r"0\.19\.8", "amp is rejected since this release"),
    ("tests/test_accelerate_yaml.py", r"1\.15\.0.*fsdp_activation_checkpointing_offload", "new in this release"),
    (THIS, r"", "this table"),
]
WHAT_TO_DO = (
    "The next release makes these wrong. Take the number from tests/newest.py, leave it out, or write an older one on "
    f"purpose. One that must stay has its reason in ALLOWED of {THIS}."
)
A_RELEASE = re.compile(r"\d+\\?\.\d+\\?\.\d+")


def newest():
    """The libraries that have a number as their newest release: the newest one known, and the installed one."""
    pins = (tracked.ROOT / "requirements" / "fidelity.txt").read_text(encoding="utf-8").splitlines()
    stores = {library: tables.load(library) for library in ("lightning", "torch")}
    known = [*NEWEST.items(), *((name, store["releases"][-1]) for name, store in stores.items() if "releases" in store)]
    libraries = {}
    for library, release in [*known, *(line.split("==") for line in pins if "==" in line)]:
        libraries.setdefault(release, set()).add(library)
    return libraries


def shared(numbers):
    """Those that are releases of other packages too, such as 2.13.0 of torch and of pydantic."""
    stores = {name: tables.load(name).get("releases", []) for name in (*NEWEST, "lightning", "torch")}
    listed = tables.load("pairs")["releases"] | stores
    return {one for one, owners in numbers.items() if any(one in listed[name] for name in listed.keys() - owners)}


NUMBERS = newest()
SHARED = shared(NUMBERS)
# As a whole, in a regular expression too.
WHOLE = {
    number: re.compile(rf"(?<![\d.])({re.escape(number)}|{re.escape(re.escape(number))})(?!\.?\d)")
    for number in NUMBERS
}


def numbers_in(line):
    """The numbers of newest releases on a line; one that is shared only where its library is named."""
    return [
        number
        for number, owners in NUMBERS.items()
        if WHOLE[number].search(line) and (number not in SHARED or any(owner in line.lower() for owner in owners))
    ]


def is_allowed(path, line):
    return any(fnmatch(path, place) and re.search(text, line) for place, text, _ in ALLOWED)


@pytest.fixture(scope="module")
def lines():
    """The lines of all tracked text files that show any release: path, number of the line, and the line."""
    return [
        (path, number, line)
        for path, content in tracked.contents()
        if b"\0" not in content
        for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), 1)
        if A_RELEASE.search(line)
    ]


def test_the_newest_numbers_stand_where_something_keeps_them(lines):
    wrong = [
        f"{path}:{number}: {', '.join(numbers)}"
        for path, number, line in lines
        if not is_allowed(path, line) and (numbers := numbers_in(line))
    ]
    assert not wrong, "\n".join([*wrong, WHAT_TO_DO])


@pytest.mark.parametrize(("place", "text", "reason"), ALLOWED, ids=[f"{place} {text}" for place, text, _ in ALLOWED])
def test_every_exception_is_used(lines, place, text, reason):
    """A line that shows an older release uses it too: after the next release, those of today are such."""
    assert any(fnmatch(path, place) and re.search(text, line) for path, _, line in lines), reason


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("text", ["{}", "{}.", "=={}\n", "v{}", "{}+cpu", "to {})", "`{}`"])
def test_a_planted_number_is_found(text, number):
    (owner, *_) = NUMBERS[number]
    assert numbers_in(f"{owner} " + text.format(number)) == [number]
    assert numbers_in(f"{owner} " + text.format(re.escape(number))) == [number]


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("text", ["1{}", "{}0", "1.{}", "{}.1"])
def test_a_part_of_another_number_is_not(text, number):
    (owner, *_) = NUMBERS[number]
    assert numbers_in(f"{owner} " + text.format(number)) == []
