from __future__ import annotations

import sys

import pytest

from ds_lint.targets.distributions import installed


@pytest.fixture
def environment(project, monkeypatch):
    """Makes environments with nothing but metadata in them; none is active, and ds-lint's own is empty."""
    project({})
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(sys, "path", ["own/site-packages"])

    def make(site_packages, *names):
        project({f"{site_packages}/{name}/METADATA": "Metadata-Version: 2.1\n" for name in names})

    return make


def test_the_environment_of_ds_lint_itself(environment, said):
    environment(
        "own/site-packages", "deepspeed-0.16.9.dist-info", "Transformers-4.49.0.dist-info", "tqdm-4.67.0.dist-info"
    )
    environment(".venv/lib/python3.11/site-packages", "deepspeed-0.15.4.dist-info", "accelerate-1.5.2.dist-info")
    assert said(installed(".")) == {
        "deepspeed": ("==0.16.9", "installed in own/site-packages"),
        "transformers": ("==4.49.0", "installed in own/site-packages"),
    }


def test_the_active_environment_comes_before_that_of_the_project(environment, said, monkeypatch):
    environment("own/site-packages", "accelerate-0.1.0.dist-info")
    environment("active/lib/python3.12/site-packages", "deepspeed-0.16.9.dist-info")
    environment("conda/lib/python3.12/site-packages", "deepspeed-0.15.0.dist-info")
    environment(".venv/lib/python3.11/site-packages", "deepspeed-0.15.4.dist-info")
    monkeypatch.setenv("CONDA_PREFIX", "conda")
    assert installed(".")["deepspeed"].specifier == "==0.15.0"
    monkeypatch.setenv("VIRTUAL_ENV", "active")
    assert said(installed(".")) == {"deepspeed": ("==0.16.9", "installed in active/lib/python3.12/site-packages")}


def test_the_environment_of_the_project(environment, said):
    environment(".venv/lib/python3.11/site-packages", "deepspeed-0.16.9+cu121.dist-info", "accelerate-1.5.2.dist-info")
    found = said(installed("configs"))
    assert found["deepspeed"] == ("==0.16.9+cu121", "installed in .venv/lib/python3.11/site-packages")
    assert found["accelerate"][0] == "==1.5.2"


def test_windows_has_another_layout(environment):
    environment("venv/Lib/site-packages", "deepspeed-0.16.9.dist-info")
    assert installed(".")["deepspeed"].specifier == "==0.16.9"


def test_without_deepspeed_the_first_that_has_anything(environment):
    environment("own/site-packages", "transformers-4.49.0.dist-info")
    environment("venv/lib/python3.11/site-packages", "transformers-4.50.0.dist-info", "accelerate-1.5.2.dist-info")
    assert {pin.specifier for pin in installed(".").values()} == {"==4.49.0"}


def test_older_metadata(environment, project, said):
    environment("own/site-packages", "deepspeed-0.9.0-py3.10.egg-info")
    project({"own/site-packages/accelerate.egg-info/PKG-INFO": "Metadata-Version: 2.1\nVersion: 1.5.2\n\nVersion: 0\n"})
    project({"own/site-packages/transformers.egg-info/PKG-INFO": "Metadata-Version: 2.1\n"})
    assert {library: specifier for library, (specifier, _) in said(installed(".")).items()} == {
        "deepspeed": "==0.9.0",
        "accelerate": "==1.5.2",
    }


def test_a_copy_left_behind_is_an_alternative(environment):
    environment("own/site-packages", "deepspeed-0.15.4.dist-info", "deepspeed-0.16.9.dist-info")
    assert sorted(installed(".")["deepspeed"].specifier.split(" || ")) == ["==0.15.4", "==0.16.9"]


def test_nothing_is_installed(environment):
    assert installed(".") == {}
