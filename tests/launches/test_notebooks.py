"""What the cells of a notebook start and write, in which folder and with which variables."""

from __future__ import annotations

import json

import pytest

from ds_lint.launches.notebook import reading
from ds_lint.launches.notebook_kernel import environment_at


def read(*cells, **metadata):
    """What a notebook with these cells of code does."""
    found = [{"cell_type": "code", "source": source.splitlines(keepends=True)} for source in cells]
    return reading(json.dumps({"cells": found, "metadata": metadata}), "a.ipynb", lambda _: None)


def commands(*cells):
    return [" ".join(word or "?" for word in launch.command) for launch in read(*cells).launches]


@pytest.mark.parametrize(
    ("cells", "started"),
    [
        (["!deepspeed a.py \\\n  --seed 1"], ["deepspeed a.py --seed 1"]),
        (["if True:\n    !deepspeed a.py", "x = !torchrun a.py", "%sx deepspeed a.py"], None),
        (["%%bash --out log\nN=2\ntorchrun --nproc_per_node $N a.py"], ["torchrun --nproc_per_node 2 a.py"]),
        (["%%time\n!deepspeed a.py"], ["deepspeed a.py"]),
        (["get_ipython().system('deepspeed a.py')"], ["deepspeed a.py"]),
        (["import os, subprocess\nos.system('deepspeed a.py')"], ["deepspeed a.py"]),
        (["import subprocess\nsubprocess.run(['torchrun', 'a.py', x])"], ["torchrun a.py ?"]),
        (["N = 2\nM = f()\n", "!deepspeed --num_gpus {N} a.py $M $HOME"], ["deepspeed --num_gpus 2 a.py ? ?"]),
        (["N = 2", "!deepspeed --num_gpus {N} a.py ${HOME}"], ["deepspeed --num_gpus {N} a.py ?"]),
        (["N = 2", "N = 4", "!deepspeed --num_gpus $N a.py"], ["deepspeed --num_gpus 4 a.py"]),
        (["deepspeed --num_gpus 2 a.py \\\n  --seed 1"], ["deepspeed --num_gpus 2 a.py --seed 1"]),  # no magic
        (["%sh deepspeed a.py", "%sh\ntorchrun a.py"], ["deepspeed a.py", "torchrun a.py"]),  # of Databricks
        (["s = '''\n!deepspeed a.py\n'''\n!ls"], []),
        (["%%html\n!deepspeed a.py", "%%R\n!deepspeed a.py", "print(deepspeed a.py)"], []),
    ],
)
def test_cells_start_programs(cells, started):
    expected = ["deepspeed a.py", "torchrun a.py", "deepspeed a.py"] if started is None else started
    assert commands(*cells) == expected


@pytest.mark.parametrize(
    ("cells", "folder", "written"),
    [
        (["%cd w", "%%writefile ds.json\n{}", "!deepspeed a.py"], "w", ["w/ds.json"]),
        (["cd w", "%cd -q 'v'\n%cd u # no such folder", "!deepspeed a.py"], "w/v", []),
        (["!cd w && deepspeed a.py"], "w", []),
        (["!cd w", "!deepspeed a.py"], ".", []),
        (["import os\nos.chdir('w')", "!deepspeed a.py"], "w", []),
        (["%cd /content/w", "%%file /content/ds.json\n{}", "!deepspeed a.py"], "w", ["ds.json"]),
        (["%cd {folder()}", "!deepspeed a.py"], None, []),
        (["%%bash\ncat <<E > ds.json\n{}\nE", "!deepspeed a.py"], ".", ["ds.json"]),
        (["import json\nwith open('ds.json', 'w') as f:\n    json.dump({}, f)\n!deepspeed a.py"], ".", ["ds.json"]),
        (["t = '''\n{}\n'''\nopen('ds.json', 'w').write(t)\n!deepspeed a.py"], ".", ["ds.json"]),
    ],
)
def test_files_are_written_where_the_notebook_is(cells, folder, written):
    found = read(*cells)
    assert [launch.cwd for launch in found.launches] == [folder]
    assert [one.place for one in found.written] == written


@pytest.mark.parametrize(
    ("source", "value", "is_certain"),
    [
        ("import os\nos.environ['RANK'] = '0'", "0", True),
        ("import os\nos.environ['RANK'] = str(1)", "1", True),
        ("import os\nos.environ.update({'RANK': '0'})", "0", True),
        ("import os\nos.environ.update(RANK='0')", "0", True),
        ("import os\nos.environ |= {'RANK': '0'}", "0", True),
        ("import os\nos.environ['RANK'] = '0'\nos.environ.setdefault('RANK', '1')", "0", True),
        ("import os\nif cluster():\n    os.environ['RANK'] = '0'", None, True),
        ("%env RANK=0", "0", True),
        ("%set_env RANK 0", "0", True),
        ("%env RANK = 0", "0", True),
        ("import os\nfor name in names:\n    os.environ[name] = '0'", "missing", False),
        ("from mine import setup\nsetup()", "missing", False),
        ("from dotenv import load_dotenv\nload_dotenv()", "missing", False),
        ("%run setup.py", "missing", False),
        ("import os\nos.environ['RANK'] = '0'\ndel os.environ['RANK']", "missing", True),
        ("import wandb\nwandb.init()", "missing", True),
    ],
)
def test_variables_of_the_kernel(source, value, is_certain):
    environment = environment_at(99, read(source).changes)
    assert environment.variables.get("RANK", "missing") == value
    assert environment.is_certain is is_certain


def test_a_launch_has_the_variables_that_were_set_before():
    found = read("%env CUDA_VISIBLE_DEVICES=0", "!deepspeed a.py", "%env CUDA_VISIBLE_DEVICES=1")
    assert [launch.environment["CUDA_VISIBLE_DEVICES"] for launch in found.launches] == ["0"]


@pytest.mark.parametrize("language", ["R", "julia"])
def test_a_notebook_in_another_language_starts_nothing(language):
    assert read("!deepspeed a.py", kernelspec={"language": language}) is None
