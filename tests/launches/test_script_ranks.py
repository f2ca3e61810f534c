"""How many ranks a script starts itself that Python starts: a number that it says, unknown ("?"), or none."""

from __future__ import annotations

import ast

import pytest

from ds_lint.launches.script_code import ImportedNames
from ds_lint.launches.script_ranks import own_ranks
from ds_lint.source.python_names import ModuleNames

TRAIN = "import deepspeed\n\ndef work(rank=0):\n    engine, *_ = deepspeed.initialize(model=model, config={})\n\n"
MAIN = 'if __name__ == "__main__":\n    '


def ranks(script):
    names = ModuleNames(ast.parse(script))
    own = own_ranks(names, ImportedNames(names))
    return None if own is None else own.world_size or "?"


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("work()", None),
        (f"{MAIN}work()", None),
        ("def main(args):\n    work()\n\nmain(None)", None),
        ("import fire\nfire.Fire(work)", None),
        ("import typer\ntyper.run(work)", None),
        ("import hydra\n@hydra.main(config_path=None)\ndef main(cfg):\n    work()\n\nmain()", None),
        ("class Run:\n    def go(self):\n        work()\n\nRun().go()", None),
        ("import subprocess\ncommit = subprocess.check_output(['git', 'rev-parse', 'HEAD'])\nwork()", None),
        ("import os\nos.system('nvidia-smi')\nos.makedirs('out')\nwork()", None),
        ("from multiprocessing import Pool\nwith Pool(8) as pool:\n    rows = pool.map(tokenize, files)\nwork()", None),
        ("from torch.utils.data import DataLoader\nDataLoader(rows, num_workers=8)\nwork()", None),
    ],
)
def test_a_script_that_trains_in_its_own_process(script, expected):
    assert ranks(TRAIN + script) is expected


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (f"{MAIN}import torch.multiprocessing as mp\n    mp.spawn(work, nprocs=4)", 4),
        ("import torch\ntorch.multiprocessing.spawn(work, (), 4)", 4),
        ("from torch.multiprocessing import spawn\nN = 2\nspawn(work, args=(N,), nprocs=N)", 2),
        ("import torch.multiprocessing as mp\nmp.start_processes(work, nprocs=3, start_method='fork')", 3),
        ("import torch, torch.multiprocessing as mp\nmp.spawn(work, nprocs=torch.cuda.device_count())", "?"),
        ("import torch.multiprocessing as mp\nrank = node_rank * 4\nmp.spawn(work, nprocs=4)", "?"),
        ("import torch.multiprocessing as mp\nif many:\n    mp.spawn(work, nprocs=4)\nelse:\n    work()", "?"),
        ("import torch.multiprocessing as mp\ndef main():\n    mp.spawn(work, nprocs=4)\n\nmain()", 4),
        ("from accelerate import notebook_launcher\nnotebook_launcher(work, num_processes=4)", 4),
        ("from accelerate import notebook_launcher\nnotebook_launcher(work, (), 4, num_nodes=2)", 8),
        ("from accelerate import notebook_launcher\nnotebook_launcher(work)", "?"),
        ("from accelerate import debug_launcher\ndebug_launcher(work)", 2),
        (
            "from torch.distributed.launcher.api import LaunchConfig\nLaunchConfig(1, 1, 4)",
            4,
        ),
        ("from torch.distributed.run import main\nmain(['--nproc_per_node', '4', 'x.py'])", "?"),
        ("from ray.train import ScalingConfig\nTorchTrainer(work, scaling_config=ScalingConfig(num_workers=8))", 8),
        ("from ray.train import ScalingConfig\nScalingConfig(num_workers=args.workers)", "?"),
        (
            "import ray\n@ray.remote(num_gpus=1)\ndef task():\n    work()\n\nray.get([task.remote(), task.remote()])",
            "?",
        ),
        ("import ray\n@ray.remote\nclass Actor:\n    def go(self):\n        work()\n\na = Actor.remote()", "?"),
        ("import submitit\nx.update_parameters(nodes=2, tasks_per_node=4)\nx.submit(work)", 8),
        ("import submitit\nexecutor = submitit.AutoExecutor('logs')\nexecutor.submit(work)", "?"),
        ("import multiprocessing as mp\nfor rank in range(4):\n    mp.Process(target=work, args=(rank,)).start()", "?"),
        ("import multiprocessing as mp\nctx = mp.get_context('spawn')\nctx.Process(target=work).start()", "?"),
        ("from concurrent.futures import ProcessPoolExecutor\nProcessPoolExecutor().map(work, range(4))", "?"),
        ("from joblib import Parallel, delayed\nParallel(4)(delayed(work)(rank) for rank in range(4))", "?"),
        ("from dask_pytorch_ddp import dispatch\ndispatch.run(client, work)", "?"),
        ("import horovod\nhorovod.run(work, np=4)", "?"),
        ("from pyspark.ml.torch.distributor import TorchDistributor\nTorchDistributor(num_processes=4).run(work)", 4),
        ("import modal\n@app.function(gpu='H100:8')\ndef main():\n    work()\n\nmain()", "?"),
        ("import subprocess, sys\nsubprocess.run([sys.executable, '-m', 'torch.distributed.run', __file__])", "?"),
        ("import os\nos.system('deepspeed --num_gpus 4 x.py')\nwork()", "?"),
        ("import os\nos.execvp('torchrun', ['torchrun', '--nproc_per_node', '4', __file__])", "?"),
        ("import subprocess\ncommand = build()\nsubprocess.run(command)\nwork()", "?"),
    ],
)
def test_a_script_that_starts_the_ranks(script, expected):
    assert ranks(TRAIN + script) == expected


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("import os\nos.environ['WORLD_SIZE'] = '4'\nwork()", 4),
        ("import os\nos.environ.setdefault('WORLD_SIZE', str(2))\nwork()", 2),
        ("import os\nos.environ.update(RANK='0', WORLD_SIZE='8')\nwork()", 8),
        ("import os\nos.environ.update({'RANK': '0', 'WORLD_SIZE': '8'})\nwork()", 8),
        ("import os\nos.environ['WORLD_SIZE'] = os.environ['SLURM_NTASKS']\nwork()", "?"),
        ("import os\nif many:\n    os.environ['WORLD_SIZE'] = '4'\nos.environ['WORLD_SIZE'] = '2'\nwork()", "?"),
        ("import os\nos.environ['WORLD_SIZE'] = '1'\nwork()", None),
        ("import os\nprint(os.environ['WORLD_SIZE'])\nwork()", None),
        ("import os\nfor rank in range(4):\n    if os.fork() == 0:\n        work()", "?"),
    ],
)
def test_a_script_that_sets_the_world_size(script, expected):
    assert ranks(TRAIN + script) == expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("L.Trainer(devices=8, strategy='deepspeed')", 8),
        ("L.Trainer(devices=8, num_nodes=2)", 16),
        ("L.Trainer(devices=[0, 1])", 2),
        ("L.Trainer(devices='auto')", "?"),
        ("L.Trainer(devices=-1)", "?"),
        ("L.Trainer()", "?"),
        ("L.Fabric(devices=2)", 2),
    ],
)
def test_lightning_starts_the_ranks(call, expected):
    assert ranks(f"import lightning as L\ntrainer = {call}\n") == expected


def test_the_loop_may_be_in_a_module_of_the_project():
    assert ranks("from project import main\nmain()\n") == "?"
    assert ranks("import deepspeed\nprint(deepspeed.__version__)\n") is None
