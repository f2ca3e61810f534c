"""The startup hook in the Pythons of a user's command: small made-up libraries stand for the training libraries."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from ds_lint.smoke.probe import plan as plans
from ds_lint.smoke.script import hooked
from ds_lint.smoke.script.processes import processes_in, ranks_of

ROOT = Path(__file__).parents[2]
STARTUP = ROOT / "ds_lint" / "smoke" / "probe" / "startup"
LIBRARIES = ("deepspeed", "transformers", "accelerate")


class User:
    """A folder of the user with made-up training libraries, and a run."""

    def __init__(self, path):
        self.path = path / "user"
        self.libraries = path / "libraries"
        self.plan = plans.Plan(str(path / "run"))
        for name in LIBRARIES:
            (self.libraries / name).mkdir(parents=True)
            (self.libraries / name / "__init__.py").write_text(f"print('library {name}')\ninitialize = print\n")
        self.path.mkdir()
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "DS_LINT"))
        }
        self.environment |= {
            "PYTHONPATH": os.pathsep.join(map(str, (STARTUP, self.libraries))),
            plans.VARIABLE: plans.write(self.plan),
        }

    def write(self, name, text):
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def run(self, *words, python=sys.executable, **variables):
        environment = self.environment | variables
        return subprocess.run(
            [python, *map(str, words)], cwd=self.path, env=environment, capture_output=True, text=True, check=False,
            timeout=60,
        )  # fmt: skip

    @property
    def hooked(self):
        return hooked.read(self.plan.own_folder)

    @property
    def presences(self):
        return [json.loads(path.read_text()) for path in Path(self.plan.own_folder).glob("process-*.json")]


@pytest.fixture
def user(tmp_path):
    return User(tmp_path.resolve())


@pytest.mark.parametrize("library", LIBRARIES)
def test_whichever_library_is_first_starts_the_probe(user, library):
    done = user.run("-c", f"import sys; print([m for m in sys.modules if 'probe' in m]); import {library}; print('on')")
    assert done.stdout.split("\n")[:3] == ["[]", f"library {library}", "on"], done.stderr
    (presence,) = user.presences
    assert presence["phase"] == "before initialize"
    assert [one.pid for one in user.hooked] == [presence["pid"]]


def test_a_process_without_a_library_leaves_only_that_it_ran(user):
    user.write("prepare.py", "import sys; print(sys.path, 'sitecustomize' in sys.modules)")
    done = user.run("prepare.py", "--data", "x")
    assert str(STARTUP) not in done.stdout
    assert user.presences == []
    (one,) = user.hooked
    assert one.words[1:] == ["prepare.py", "--data", "x"]
    assert one.release == ".".join(map(str, sys.version_info[:3]))
    assert one.error == ""


@pytest.mark.parametrize(
    "words",
    [
        ["train.py"], ["-m", "train"], ["-m", "package"], ["-u", "-W", "ignore", "train.py"], ["-P", "train.py"],
        ["-c", "import runpy; runpy.run_path('train.py', run_name='__main__')"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_however_python_starts_the_script(user, words):
    if words[0] == "-P" and sys.version_info < (3, 11):
        pytest.skip("-P is new in Python 3.11")
    user.write("train.py", "import transformers, accelerate, deepspeed")
    user.write("package/__main__.py", "import transformers, accelerate, deepspeed")
    done = user.run(*words, PYTHONSAFEPATH="1" if words[0] == "-P" else "")
    assert done.returncode == 0, done.stderr
    assert [one["phase"] for one in user.presences] == ["before initialize"]


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_children_of_multiprocessing_are_hooked(user, method):
    user.write(
        "train.py",
        "import multiprocessing, os\n"
        "def child(): import deepspeed\n"
        "if __name__ == '__main__':\n"
        f" process = multiprocessing.get_context('{method}').Process(target=child); process.start(); process.join()\n",
    )
    done = user.run("train.py")
    assert done.stdout.strip() == "library deepspeed", done.stderr
    assert len(user.presences) == 1
    assert len(user.hooked) >= 2


def test_a_script_of_the_shell_and_a_launcher_like_srun(user):
    user.write("train.py", "import os, deepspeed; print(os.environ['SLURM_PROCID'])")
    user.write(
        "srun.py",
        "import os, subprocess, sys\n"
        "ranks = [subprocess.Popen(sys.argv[1:], env=os.environ | {'SLURM_PROCID': str(n)}) for n in range(2)]\n"
        "sys.exit(max(rank.wait() for rank in ranks))\n",
    )
    user.write("run.sh", f"set -e\nexport OTHER=1\n'{sys.executable}' srun.py '{sys.executable}' train.py\n")
    done = subprocess.run(
        ["sh", "run.sh"], cwd=user.path, env=user.environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert sorted(done.stdout.split()) == ["0", "1", "deepspeed", "deepspeed", "library", "library"]
    assert sorted(one["rank"] for one in user.presences) == [0, 1]
    assert len(user.hooked) == 3


def launched(user, program, **variables):
    """What a program leaves that starts two ranks, as torchrun does; by rank."""
    user.write("train.py", "import deepspeed")
    user.write(
        "launch.py",
        "import os, subprocess, sys\n"
        f"import {program}\n"
        "own = {'WORLD_SIZE': '2', 'MASTER_PORT': '1'}\n"
        "ranks = [subprocess.Popen([sys.executable, 'train.py'], env=os.environ | own | {'RANK': n, 'LOCAL_RANK': n})"
        " for n in '01']\n"
        "sys.exit(max(rank.wait() for rank in ranks))\n",
    )
    done = user.run("launch.py", **variables)
    assert done.returncode == 0, done.stderr
    return ranks_of(processes_in(user.plan.own_folder))


@pytest.mark.parametrize(
    "variables",
    [{}, {"SLURM_PROCID": "0", "SLURM_NTASKS": "1"}, {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "pod-0"}],
    ids=["by hand", "in a batch script", "in a pod"],
)
def test_a_launcher_that_imports_a_library_is_no_rank(user, variables):
    """A scheduler of a cluster gives its variables to the launcher, which hands them on."""
    assert [one.rank for one in launched(user, "transformers", **variables)] == [0, 1]


def test_what_a_rank_starts_is_no_rank(user):
    user.write("worker.py", "import accelerate")
    user.write("train.py", "import deepspeed, subprocess, sys\nsubprocess.run([sys.executable, 'worker.py'])\n")
    user.run("train.py", RANK="1", LOCAL_RANK="1")
    assert sorted((one["rank"] is None, one["rank"]) for one in user.presences) == [(False, 1), (True, None)]


def test_a_script_that_imports_the_probe_itself_ends_too(user):
    Path(user.plan.over).touch()
    importing = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import ds_lint.smoke.probe; print('goes on')"
    done = user.run("-I", "-c", importing)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    Path(user.plan.over).unlink()
    assert user.run("-I", "-c", importing).stdout == "goes on\n"


def test_what_starts_after_the_steps_of_the_run_ends_at_once(user):
    Path(user.plan.over).touch()
    user.write("merge.py", "open('merged', 'w').write('of the run')")
    done = user.run("merge.py", "--from", "out")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not (user.path / "merged").exists()
    assert user.hooked == user.presences == []
    (one,) = hooked.read_later(user.plan.own_folder)
    assert one.command == f"`{Path(sys.executable).name} merge.py --from out`"


@pytest.mark.parametrize("option", ["-I", "-E", "-S"])
def test_a_python_that_drops_the_hook_leaves_nothing(user, option):
    user.write("train.py", f"import sys; sys.path.insert(0, {str(user.libraries)!r}); import deepspeed")
    done = user.run(option, "train.py")
    assert done.stdout.strip() == "library deepspeed", done.stderr
    assert user.hooked == []
    assert user.presences == []


@pytest.mark.parametrize("option", ["-I", "-E", "-S"])
def test_the_first_line_of_the_script_starts_the_probe_too(user, option):
    user.write(
        "train.py",
        f"import sys; sys.path[:0] = {[str(ROOT), str(user.libraries)]!r}\n"  # as if both were installed
        "import ds_lint.smoke.probe\n"
        "import deepspeed; open('new', 'w')\n",
    )
    done = user.run(option, "train.py")
    assert done.stdout.strip() == "library deepspeed", done.stderr
    assert [one["phase"] for one in user.presences] == ["before initialize"]
    assert (Path(user.plan.folder) / "journal").exists()


def test_the_first_line_of_the_script_does_nothing_outside_a_run(user):
    user.write("train.py", f"import sys; sys.path.append({str(ROOT)!r}); import ds_lint.smoke.probe, deepspeed")
    done = user.run("train.py", DS_LINT_PROBE="")
    assert done.stdout.strip() == "library deepspeed", done.stderr
    assert user.presences == []


def test_the_users_own_customizations_run(user):
    user.write("own/sitecustomize.py", "import sys; print('own site', 'sitecustomize' in sys.modules); OWN = True")
    user.write("own/usercustomize.py", "print('own user')")
    user.write("train.py", "import sitecustomize; print(sitecustomize.OWN); import deepspeed")
    paths = os.pathsep.join(map(str, (STARTUP, user.path / "own", user.libraries)))
    done = user.run("train.py", PYTHONPATH=paths)
    expected = ["own site True", "own user", "True", "library deepspeed"]
    if not _has_user_site():
        expected.remove("own user")
    assert done.stdout.splitlines() == expected, done.stderr
    assert len(user.presences) == 1


def _has_user_site():
    code = "import site; print(site.ENABLE_USER_SITE)"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "True\n"


@pytest.mark.parametrize(
    "text", ["raise RuntimeError('of my own')", "import not_there", "1 +", "raise ImportError('of my own')"]
)
def test_a_failing_customization_fails_as_without_the_hook(user, text):
    user.write("own/sitecustomize.py", text)
    user.write("train.py", "import deepspeed")
    paths = os.pathsep.join(map(str, (user.path / "own", user.libraries)))
    bare = user.run("train.py", PYTHONPATH=paths)
    done = user.run("train.py", PYTHONPATH=f"{STARTUP}{os.pathsep}{paths}")
    assert (done.stdout, done.stderr, done.returncode) == (bare.stdout, bare.stderr, bare.returncode)
    assert len(user.presences) == 1


def test_a_customization_that_chains_by_itself_does_not_run_in_circles(user):
    user.write(
        "own/sitecustomize.py",
        "import os, sys\nprint('own')\n"
        "sys.path.remove(os.path.dirname(__file__)); sys.modules.pop('sitecustomize', None)\n"
        "try: import sitecustomize\nexcept ImportError: pass\n",
    )
    for order in ((user.path / "own", STARTUP), (STARTUP, user.path / "own")):
        done = user.run("-c", "import deepspeed", PYTHONPATH=os.pathsep.join(map(str, (*order, user.libraries))))
        assert done.stdout.splitlines() == ["own", "library deepspeed"], done.stderr
    assert len(user.presences) == 2


def test_ds_lint_in_another_environment(user, tmp_path):
    """The environment of the script has the training libraries, and nothing of ds-lint or what it depends on."""
    venv.create(tmp_path / "training", with_pip=False, symlinks=True)
    python = tmp_path / "training" / "bin" / "python"
    done = user.run("-c", "import deepspeed, sys; print('yaml' in sys.modules)", python=python)
    assert done.stdout.splitlines() == ["library deepspeed", "False"], done.stderr
    assert [one["phase"] for one in user.presences] == ["before initialize"]


def test_a_probe_that_cannot_start_ends_the_script(user):
    """A script may expect an ImportError, and would train without being observed or isolated."""
    Path(user.environment[plans.VARIABLE]).write_text("{}")
    user.write("train.py", "try:\n import deepspeed\nexcept BaseException: pass\nprint('trains')")
    done = user.run("train.py")
    assert done.returncode == 1
    assert done.stdout == ""
    assert [one.error.partition(":")[0] for one in user.hooked] == ["TypeError"]


def test_a_module_that_is_only_looked_for_is_not_changed(user):
    done = user.run("-c", "import importlib.util as u; print(u.find_spec('deepspeed').origin); import deepspeed")
    origin, printed = done.stdout.splitlines()
    assert origin == str(user.libraries / "deepspeed" / "__init__.py")
    assert printed == "library deepspeed"
    assert [one["phase"] for one in user.presences] == ["before initialize"]
