"""Whether the command that the `deepspeed` launcher runs on the nodes has the given word: 1.000 if it has, else 0.000.

Arguments: the launcher (pdsh, openmpi, slurm ...), its further options as a JSON list, and the word. Nothing is
launched. A word is an entry of the command, or a part of an entry that Slurm separates by commas.
"""

import argparse
import json
import sys

from deepspeed.launcher import multinode_runner, runner

LAUNCHER, OPTIONS, WORD = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
CLASSES = {"pdsh": "PDSHRunner", "openmpi": "OpenMPIRunner", "slurm": "SlurmRunner", "mpich": "MPICHRunner"}

arguments: argparse.Namespace = runner.parse_args(["--launcher", LAUNCHER, *OPTIONS, "train.py"])
arguments.master_addr = arguments.master_addr or "node1"
nodes = {"node1": 2, "node2": 2}
of_pdsh = LAUNCHER == "pdsh"
made = getattr(multinode_runner, CLASSES[LAUNCHER])(arguments, "e30=", *([] if of_pdsh else [nodes]))
made.add_export("NCCL_DEBUG", "INFO")
command = made.get_cmd({}, nodes)
words = command[0] if of_pdsh else command
print(f"{float(any(word == WORD or WORD in word.split(',') for word in words)):.3f}")
