"""The launches of scripts: the real bash says which words arrive."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from real_bash import programs

from ds_lint.launches.options import parsed
from ds_lint.source.shell.interpreter import follow
from ds_lint.source.shell.unknowns import is_known

HERE = Path(__file__).parent
SCRIPTS = re.findall(r"^```bash\n(.*?)^```", (HERE / "scripts.md").read_text(), re.MULTILINE | re.DOTALL)
DEMAND = sorted(HERE.parents[2].glob("shared/demand/**/*.sh"))
IN_BASH = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")


# Which programs count: what runs in a substitution, to test something or to print it, starts no training.
LAUNCHERS = re.compile(r"deepspeed|torchrun|accelerate|srun|mpirun|python3?|nohup|env|numactl|llamafactory-cli|swift")


def extracted(script):
    started = [[word if is_known(word) else None for word in one.words] for one in follow(script, "script.sh").started]
    return launches(words[words[0] == "time" :] for words in started)  # which bash does not hand on


def launches(started):
    return [words for words in started if words and (words[0] is None or LAUNCHERS.fullmatch(words[0]))]


def agree(ours, real):
    """Whether a command is the one that ran: where a word differs between machines, any or none may be known."""
    pairs = zip(ours, real, strict=False)
    return len(ours) == len(real) and all(mine == theirs or theirs is None for mine, theirs in pairs)


@IN_BASH
@pytest.mark.parametrize("script", SCRIPTS, ids=range(len(SCRIPTS)))
def test_a_script_starts_what_bash_starts(script):
    real = launches(ran.words for ran in programs(script))
    ours = extracted(script)
    assert len(ours) == len(real), (ours, real)
    for mine, theirs in zip(sorted(ours, key=repr), sorted(real, key=repr), strict=True):
        assert agree(mine, theirs), (mine, theirs)


@IN_BASH
@pytest.mark.skipif(not DEMAND, reason="there is no collection of issue threads")
def test_the_scripts_of_users_start_what_bash_starts():
    different = []
    for path in DEMAND:
        script = path.read_text()
        real = programs(script)
        ours = extracted(script)
        different += [
            (path.parent.name, words)
            for words in launches(ran.words for ran in real or ())
            if not any(agree(one, words) for one in ours)
        ]
    assert different == []


def test_an_option_that_is_not_known_takes_no_option_behind_it():
    found = parsed("torchrun", ["--not-known-yet", "--nproc_per_node", "4", "train.py"])
    assert (found.options["nproc_per_node"], found.rest) == ("4", ["train.py"])
