"""What looking for pins imports: next to nothing where there are none, and no parser that a file does not need."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from command_line import outside_environment

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

LOOK = """
import sys
sys.path.insert(0, sys.argv[1])
from ds_lint.targets.project import used
for pin in used(".").values():
    from ds_lint.targets.releases import allowed
    assert allowed(pin.specifier, ["0.16.9", "0.17.0"]) == ["0.16.9"]
sys.stderr.write("\\n".join(sys.modules))
"""
PARSERS = {"re", "ast", "configparser", "json", "packaging", "tomli", "tomllib", "yaml"}
NEVER = {"argparse", "dataclasses", "importlib.metadata", "pathlib", "typing"}


@pytest.mark.parametrize(
    ("files", "parsers"),
    [
        ({}, set()),
        ({"requirements.txt": "torch>=2\n", "pyproject.toml": "[project]\nname = 'a'", "setup.py": "setup()"}, set()),
        ({"uv.lock": '[[package]]\nname = "deepspeed"\nversion = "0.16.9"'}, set()),
        ({"requirements.txt": "deepspeed>=0.14,<0.17"}, {"re"}),
        ({"pyproject.toml": "[project]\ndependencies = ['deepspeed~=0.16.0']"}, {"re"}),
    ],
)
def test_the_parsers_that_a_project_needs(project, files, parsers):
    command = [sys.executable, "-I", "-S", "-c", LOOK, ROOT]  # -S: what site imports is not ours
    result = subprocess.run(
        command, cwd=project(files), env=outside_environment(), capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    imported = set(result.stderr.split())
    assert "ds_lint.targets.distributions" in imported
    assert imported & (PARSERS | NEVER) == parsers
