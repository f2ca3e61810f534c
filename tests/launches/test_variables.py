"""A variable of a script has one value, for the launch as for the config that the script writes: the one in bash."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from ds_lint.launches.scripts import launches_in
from ds_lint.source import shell

WAYS = {
    "plain": "N=8",
    "true": "if true; then N=8; else N=4; fi",
    "test": 'A=1\nif [ "$A" = 1 ]; then N=8; else N=4; fi',
    "extended test": "A=1\n[[ $A == 1 ]] && N=8",
    "case": "A=x\ncase $A in x) N=8;; *) N=4;; esac",
    "arithmetic": "N=$((2*4))",
    "assigned by arithmetic": "(( N = 8 ))",
    "suffix": "M=8x\nN=${M%x}",
    "length of an array": "G=(0 1 2)\nN=${#G[@]}",
    "function": "f() { N=8; }\nf",
    "loop": "for N in 8; do :; done",
    "default": "N=${N:-8}",
    "indirect": "M=N2\nN2=8\nN=${!M}",
    "substitution": "N=$(echo 8)",
    "options": "while getopts n: o; do N=$OPTARG; done\nN=8",
    "substring": "M=18\nN=${M:1}",
    "readonly": "readonly N=8",
    "printf": "printf -v N %s 8",
}


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize("way", WAYS)
def test_the_launch_and_the_config_know_what_bash_knows(way):
    ran = subprocess.run(["bash", "-c", f'{WAYS[way]}\necho "$N"'], capture_output=True, text=True, check=True, env={})
    assert known_in(WAYS[way]) == (int(ran.stdout), int(ran.stdout))


def test_the_job_that_a_script_asks_for_counts_for_both():
    job = "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=4\nNODES=${SLURM_NNODES:-1}\n"
    assert known_in(f"{job}N=$((NODES * SLURM_NTASKS_PER_NODE))") == (8, 8)


def known_in(start):
    """What the config and the launch of a script that begins so know of ``$N``."""
    script = f"""{start}
cat > ds.json <<EOF
{{"train_batch_size": $N, "zero_optimization": {{"stage": 2}}}}
EOF
deepspeed --num_gpus $N train.py --deepspeed_config ds.json
"""
    [document] = shell.read(script, "run.sh")
    [launch] = launches_in(script, "run.sh", lambda _: None).launches
    return document.root.get("train_batch_size").value, launch.processes_per_node
