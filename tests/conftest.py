"""What several test files need. That this file is here also lets them import the helpers beside it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections import Counter

import pytest
from command_line import clean_environment
from documents import configs_of

os.environ.pop("GITHUB_ACTIONS", None)  # its log has a format of its own
os.environ.pop("GITHUB_STEP_SUMMARY", None)  # and its steps have a summary
os.environ.pop("COLUMNS", None)  # which xdist sets: a pipe has no width
with contextlib.suppress(ImportError):  # the environments of older releases have none
    import hypothesis

    # A machine with other work takes its time; what is too slow, benchmarks tell.
    hypothesis.settings.register_profile("any machine", deadline=None)
    hypothesis.settings.load_profile("any machine")

# What takes longest begins first: with whole files for each core, a slow one at the end would run while others wait.
# The editors wait more than they compute; then come the training runs, the files of a minute and more at their head.
# The summary of a run names the slowest files.
SLOWEST = (
    "clients/test_vscode.py",
    "clients/test_ci_files.py",
    "fidelity/test_smoke_catches.py",
    "fidelity/test_smoke_robust.py",
    "fidelity/test_smoke_mutations.py",
    "fidelity/test_smoke_reference.py",
    "test_rule_pages.py",
    "test_documentation_commands.py",
    "fidelity/test_script_sabotage.py",
    "fidelity/test_smoke_world.py",
    "fidelity/test_smoke_lora.py",
    "fidelity/test_rule_pages_truth.py",
    "fidelity/test_init_truth.py",
    "fidelity/test_training_runs.py",
    "clients/",
    "fidelity/",
)
SHOWN = 10  # of the files, the slowest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SEEDS = os.environ.get("DS_LINT_SEEDS") or os.path.join(os.path.dirname(ROOT), "shared", "seeds")


def pytest_collection_modifyitems(config, items):
    """The slowest files first; otherwise in the order in which they were found.

    A warning of the real libraries is their own, and must not become an exception that they do not raise. An editor or
    another client may be too slow once, so that its test is tried again.
    """
    can_try_again = config.pluginmanager.hasplugin("rerunfailures")
    for item in items:
        if can_try_again and item.get_closest_marker("client"):
            item.add_marker(pytest.mark.flaky(reruns=1))
        if item.get_closest_marker("fidelity") or item.nodeid.startswith("tests/fidelity/"):
            item.add_marker(pytest.mark.filterwarnings("default"))
    items.sort(key=lambda item: _place(item.nodeid.removeprefix("tests/")))


def _place(name):
    return next((place for place, start in enumerate(SLOWEST) if name.startswith(start)), len(SLOWEST))


def pytest_terminal_summary(terminalreporter):
    """Which tests of clients passed in a second try, and where the time went: the order of SLOWEST follows from it."""
    failed = {report.nodeid for report in terminalreporter.stats.get("failed", ())}
    for report in terminalreporter.stats.get("rerun", ()):
        if report.nodeid not in failed:
            terminalreporter.write_line(f"flaky: {report.nodeid}", yellow=True)
    seconds = Counter()
    for report in (report for reports in terminalreporter.stats.values() for report in reports):
        if isinstance(report, pytest.TestReport):
            seconds[report.nodeid.partition("::")[0]] += report.duration
    if len(seconds) > SHOWN:
        terminalreporter.section("slowest files")
        for name, taken in seconds.most_common(SHOWN):
            terminalreporter.write_line(f"{taken:6.0f} s  {name}")


@pytest.fixture(autouse=True)
def no_variables_left(request):
    """A test leaves no variable of ds-lint to those that follow in the same process."""
    before = _own_variables()
    yield
    assert _own_variables() == before, f"{request.node.nodeid} leaves a variable in the environment"


def _own_variables():
    return {name: value for name, value in os.environ.items() if name.startswith("DS_LINT_")}


@pytest.fixture(scope="session")
def texts():
    """The documents that users have read, by file name."""
    if not os.path.isdir(SEEDS):
        pytest.skip(f"no documents in {SEEDS}; DS_LINT_SEEDS names another folder")
    found = {}
    for name in sorted(os.listdir(SEEDS)):
        if name.endswith(".txt"):
            with open(os.path.join(SEEDS, name), encoding="utf-8") as file:
                found[name] = file.read()
    return found


@pytest.fixture(scope="session")
def documents(texts):
    """The configs of every document, by file name and in the order of the text."""
    return {name: configs_of(text) for name, text in texts.items()}


@pytest.fixture
def save(tmp_path):
    """Writes a text, byte for byte, into the test's folder, and returns its path."""

    def save(name, text):
        path = tmp_path / name
        path.write_bytes(text.encode())
        return path

    return save


@pytest.fixture
def run(tmp_path):
    """Runs ds-lint in the test's folder, in an environment that says nothing about colours."""

    def run(*arguments, stdin="", prepare=None, **environment):
        return subprocess.run(
            [sys.executable, "-m", "ds_lint", *arguments],
            input=stdin,
            capture_output=True,
            cwd=tmp_path,
            env=clean_environment() | environment,
            encoding="utf-8",
            check=False,
            timeout=300,  # a hang; on a busy machine, hundreds of files take a minute
            preexec_fn=prepare,
        )

    return run
