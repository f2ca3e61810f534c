"""Every file that spells where ds-lint is published spells what ``ds_lint/addresses.py`` names."""

from __future__ import annotations

import re
import subprocess

import pytest
import tracked

from tools import addresses
from tools.addresses import CURRENT, Addresses, changes, rewritten, written

OTHER = Addresses("linter-of-configs", "Acme", "acme-tools", "https://configs.acme.example/")
# What looks like an address or a name of ds-lint, and the part that has to be one of the spelled.
LOOKS = (
    r"(?:github|raw\.githubusercontent)\.com/([\w.-]+/(?:ds|deepspeed)-?lint)\b",
    r"uses: ([\w.-]+/(?:ds|deepspeed)-?lint)@",
    rf"({re.escape(CURRENT.site)}|https://[\w-]*lint[\w-]*\.readthedocs\.io/(?:en/latest/)?)",
    r"(ghcr\.io/[\w.-]+/[\w-]*lint[\w-]*)",
    r"pypi\.org/project/([\w-]*lint[\w-]*)/",
    r"(itemName=[\w-]+\.[\w-]*lint[\w-]*)",
    r"pip[\"']? install (?:--?[\w-]+ )*[\"']?((?:ds|deepspeed)-?lint\w*)",
    r"\b([\w-]*lint)\[(?:lsp|smoke)\]",
)


@pytest.fixture(scope="module")
def texts():
    return {path: content.decode() for path, content in tracked.contents() if b"\0" not in content}


def test_the_files_name_what_the_module_names():
    assert written() == CURRENT, "python -m tools.addresses --write"


@pytest.mark.parametrize("pattern", LOOKS)
def test_no_file_names_another(texts, pattern):
    found = {(match[1], path) for path, text in texts.items() for match in re.finditer(pattern, text)}
    assert found  # it does look
    named = {name for name, path in found if path != "tests/test_addresses.py"}
    assert named <= {*CURRENT.spelled()}, sorted(found)


def test_a_change_of_all_is_written_into_every_file(texts, tmp_path):
    """In a copy of the files that it changes, it is done with one command; another finds nothing left."""
    changed = changes(CURRENT, OTHER)
    for path, text in changed.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(text.encode())
    assert written(tmp_path) == OTHER
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "--all", "."], cwd=tmp_path, check=True)
    assert changes(CURRENT, OTHER, tmp_path) == {}
    assert list(changed)[-1] in {path for path, _ in addresses.WITNESSES.values()}


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ("`pip install 'deepspeed-lint[lsp]'`", "`pip install 'linter-of-configs[lsp]'`"),
        ("dist/deepspeed_lint-*.whl", "dist/linter_of_configs-*.whl"),
        ("uses: ds-lint/ds-lint@v1", "uses: Acme/ds-lint@v1"),
        ("ghcr.io/ds-lint/deepspeed-lint:1", "ghcr.io/acme/linter-of-configs:1"),
        ("items?itemName=ds-lint.deepspeed-lint", "items?itemName=acme-tools.linter-of-configs"),
        ("$RUNNER_TEMP/ds-lint/bin and [tool.ds-lint]", "$RUNNER_TEMP/ds-lint/bin and [tool.ds-lint]"),
        ("https://ds-lint.readthedocs.io/en/latest/rules/", "https://configs.acme.example/rules/"),
        ("deepspeed-linter", "deepspeed-linter"),
    ],
)
def test_only_addresses_and_names_of_the_distribution_change(text, instead):
    assert rewritten(text, CURRENT, OTHER) == instead
