"""Which releases a config is linted with: flags, then the project's pins, what is installed, the newest known."""

from __future__ import annotations

import pytest
from newest import NEWEST

from ds_lint.knowledge import tables
from ds_lint.linter.choice import UnknownRelease, between, choose
from ds_lint.targets import project as project_files

RELEASES = tables.load("deepspeed")["releases"]
SINCE_0_19_5 = RELEASES[RELEASES.index("0.19.5") :]


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch):
    monkeypatch.setattr("ds_lint.targets.distributions.installed", lambda directory: {})


@pytest.fixture
def project(tmp_path):
    """A project with these files; returns its folder."""

    def make(**files):
        (tmp_path / ".git").mkdir(exist_ok=True)
        for name, text in files.items():
            (tmp_path / name.replace("__", ".")).write_text(text, encoding="utf-8")
        return str(tmp_path)

    return make


def test_without_any_pin_the_newest_known(project):
    choice = choose(project(), {})
    assert {library: releases for library, (releases,) in choice.releases.items()} == NEWEST
    assert set(choice.origins.values()) == {"newest known"}
    assert (choice.is_range, choice.notes) == (False, [])


@pytest.mark.parametrize(
    ("flag", "linted"),
    [
        ("0.16.9", ["0.16.9"]),
        ("0.16", ["0.16.9"]),  # a line: its newest patch
        (">=0.19.5", SINCE_0_19_5),
        (">=0.17.4,<0.18.1", ["0.17.4", "0.17.5", "0.17.6", "0.18.0"]),
        ("==0.16.*", [f"0.16.{patch}" for patch in range(10)]),
        ("0.16.9+cu121", ["0.16.9"]),
    ],
)
def test_a_flag_names_a_release_a_line_or_a_range(project, flag, linted):
    choice = choose(project(requirements__txt="deepspeed==0.14.4\n"), {"deepspeed": flag})
    assert choice.releases["deepspeed"] == linted
    assert choice.origins["deepspeed"] == "--deepspeed-version"


@pytest.mark.parametrize("flag", ["0.16.77", "0.1.0", ">0.17,<0.16"])
def test_a_flag_that_names_no_release(project, flag):
    with pytest.raises(UnknownRelease, match=r"it knows 0\.3\.1 to "):
        choose(project(), {"deepspeed": flag})


@pytest.mark.parametrize("flag", ["latest", "", "*", "deepspeed>=0.14", "^0.16", "=0.16", "0.16.x", ">=next"])
def test_a_flag_that_is_no_version(project, flag):
    with pytest.raises(UnknownRelease, match=r"is not a valid version of DeepSpeed; write 0\.16\.9, 0\.16 or"):
        choose(project(), {"deepspeed": flag})


@pytest.mark.parametrize("flag", ["0.99", "99.0.1", ">=1", f">{NEWEST['deepspeed']}", f">{NEWEST['deepspeed']},<1"])
def test_a_release_that_is_newer_than_all(project, flag):
    choice = choose(project(), {"deepspeed": flag})
    assert choice.releases["deepspeed"] == [NEWEST["deepspeed"]]
    (note,) = choice.notes
    assert "newer than the releases that ds-lint knows; checked against " + NEWEST["deepspeed"] in note


def test_the_pins_of_the_project(project):
    choice = choose(project(requirements__txt="torch\ndeepspeed==0.16.9\ntransformers>=5.20\n"), {})
    assert choice.newest.deepspeed == "0.16.9"
    assert choice.releases["transformers"][0] == "5.20.0"
    assert choice.releases["transformers"][-1] == NEWEST["transformers"]
    assert choice.origins["deepspeed"].endswith("requirements.txt:2")
    assert choice.origins["accelerate"] == "newest known"


def test_a_pin_that_is_newer_than_all(project):
    choice = choose(project(requirements__txt="deepspeed==0.99.0\n"), {})
    assert choice.releases["deepspeed"] == [NEWEST["deepspeed"]]
    assert "requirements.txt:1 asks for DeepSpeed 0.99.0" in choice.notes[0]


def test_a_pin_of_a_release_that_there_is_not(project):
    """Linted with the nearest older one: nothing else is known of it."""
    choice = choose(project(requirements__txt="transformers==4.49.1\n"), {})
    assert choice.releases["transformers"] == ["4.49.0"]
    assert "which ds-lint does not know; checked against 4.49.0" in choice.notes[0]


@pytest.mark.parametrize(
    ("pin", "linted"),
    [
        (f">{NEWEST['deepspeed']}", NEWEST["deepspeed"]),
        (f">{NEWEST['deepspeed']},<1", NEWEST["deepspeed"]),
        (">=0.16.10,<0.17", "0.16.9"),
        ("==0.16.42", "0.16.9"),
        (">0.17,<0.16", "0.17.0"),
        (f">={NEWEST['deepspeed']},!={NEWEST['deepspeed']}", NEWEST["deepspeed"]),
    ],
)
def test_a_range_without_a_known_release_is_linted_by_the_nearest(project, pin, linted):
    choice = choose(project(requirements__txt=f"deepspeed{pin}\n"), {})
    assert choice.releases["deepspeed"] == [linted]
    assert f"checked against {linted}" in choice.notes[0]


def test_what_is_installed_if_nothing_is_pinned(project, monkeypatch):
    from ds_lint.targets.pin import Pin

    pin = Pin("deepspeed", "==0.18.9", "installed in .venv/lib/python3.12/site-packages")
    monkeypatch.setattr("ds_lint.targets.distributions.installed", lambda directory: {"deepspeed": pin})
    assert project_files.used(project()) == {"deepspeed": pin}
    choice = choose(project(), {})
    assert (choice.newest.deepspeed, choice.origins["deepspeed"]) == ("0.18.9", pin.source)


def test_a_range_without_an_oldest_release_begins_where_ds_lint_was_tested(project):
    assert choose(project(), {"deepspeed": "<0.10"}).releases["deepspeed"][0] == "0.9.0"
    assert choose(project(), {"deepspeed": ">=0.8,<0.10"}).releases["deepspeed"][0] == "0.8.0"


def test_releases_that_were_never_run_are_said_to_be(project):
    (note,) = choose(project(), {"deepspeed": "0.8.3"}).notes
    assert "below 0.9.0 come from its source code" in note


def test_an_upgrade_is_linted_over_everything_between(project):
    choice = between(project(), {"deepspeed": ("0.19.5", None), "transformers": ("5.20.0", "5.20.1")})
    assert choice.releases["deepspeed"] == SINCE_0_19_5
    assert choice.releases["transformers"] == ["5.20.0", "5.20.1"]
    assert choice.releases["accelerate"] == [NEWEST["accelerate"]]


def test_an_upgrade_leaves_other_libraries_where_the_project_has_them(project):
    choice = between(project(requirements__txt="transformers>=4.40,<4.45\n"), {"deepspeed": ("0.19.5", None)})
    assert choice.releases["transformers"] == ["4.44.2"]


@pytest.mark.parametrize("first", ["0.25", ">=0.14"])
def test_an_upgrade_leaves_one_known_release(project, first):
    with pytest.raises(UnknownRelease, match=r"ds-lint does not know \w+ .*; an upgrade must start at a known release"):
        between(project(), {"deepspeed": (first, None)})


def test_an_upgrade_to_an_older_release(project):
    with pytest.raises(UnknownRelease, match=r"0\.14\.4 is older than 0\.16\.9"):
        between(project(), {"deepspeed": ("0.16.9", "0.14.4")})


def test_the_source_is_told(project):
    choice = choose(project(requirements__txt="deepspeed>=0.19.6\n"), {"accelerate": "1.14.0"})
    assert str(choice) == (
        f"deepspeed 0.19.6 to {NEWEST['deepspeed']} ({choice.origins['deepspeed']}), "
        f"transformers {NEWEST['transformers']} (newest known), accelerate 1.14.0 (--accelerate-version)"
    )


ADDRESS = "deepspeed @ git+https://github.com/deepspeedai/DeepSpeed\n"


def test_an_address_that_names_no_release_is_said_to_be_one(project):
    choice = choose(project(requirements__txt=ADDRESS), {})
    assert choice.releases["deepspeed"] == [NEWEST["deepspeed"]]
    (note,) = choice.notes
    assert note.endswith(
        f"requirements.txt:1 installs DeepSpeed from a URL without a release; checked against the newest known "
        f"release, {NEWEST['deepspeed']} (set --deepspeed-version for another)"
    )


def test_another_file_says_more_than_an_address(project):
    folder = project(requirements__txt=ADDRESS, setup__cfg="[options]\ninstall_requires = deepspeed>=0.19.5,<0.19.7\n")
    choice = choose(folder, {})
    assert (choice.releases["deepspeed"], choice.notes) == (["0.19.5", "0.19.6"], [])


def test_the_command_line_says_more_than_an_address(project):
    assert choose(project(requirements__txt=ADDRESS), {"deepspeed": "0.19.6"}).notes == []
