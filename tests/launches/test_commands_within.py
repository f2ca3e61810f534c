"""Launches within other commands: texts for another shell, scripts that a script calls, programs that run others."""

from __future__ import annotations

import posixpath

import pytest

from ds_lint.launches.scripts import launches_in
from ds_lint.source.project_texts import ProjectTexts

JOB = "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=1 --gres=gpu:8\n"
TRAIN = "train.py --deepspeed_config ds.json"
TEXT = f"deepspeed --num_gpus 4 {TRAIN}"
WORDS = TEXT.split()


def found(script, files=None, path="run.sh"):
    """The launches of a script in a project with these files."""
    texts = files or {}
    read = ProjectTexts(lambda name: name if name in texts else None, texts.get)
    return launches_in(script, path, read).launches


@pytest.mark.parametrize(
    "script",
    [
        f'srun bash -c "{TEXT}"',
        f"srun -u --jobid $SLURM_JOBID bash -lc '{TEXT}'",
        f'bash -euo pipefail -c "{TEXT}"',
        f'CMD="{TEXT}"\nsrun bash -c "$CMD 2>&1 | tee log"',
        f'ssh node1 "cd /w && {TEXT}"',
        f"ssh -p 22 -o StrictHostKeyChecking=no me@node1 {TEXT} &",
        f"ssh node1 <<EOF\n{TEXT}\nEOF",
        f"ssh node1 'bash -s' <<'EOF'\n{TEXT}\nEOF",
        f"bash <<EOF\n{TEXT}\nEOF",
        f'pdsh -w n[1-2] "{TEXT}"',
        f'su - me -c "{TEXT}"',
        f'tmux new-session -d -s ds "{TEXT}"',
        f'tmux send-keys -t x "{TEXT}" Enter',
        f'tmux new -d -s x \\; send-keys "{TEXT}" C-m',
        f'screen -dmS deepspeed bash -c "{TEXT}"',
        f"screen -dmS ds {TEXT}",
        f'sbatch --wrap "{TEXT}"',
        f'sbatch -N 1 --wrap="{TEXT}"',
        f'docker run --gpus all --name deepspeed -v $PWD:/w img:1 bash -c "{TEXT}"',
        f'docker run --rm --entrypoint bash img -c "{TEXT}"',
        f'docker exec -it box bash -lc "cd /w; {TEXT}"',
        f'kubectl exec -it pod-0 -c main -- bash -c "{TEXT}"',
        f'nsys profile -t cuda,nvtx -o out bash -c "{TEXT}"',
        f'timeout 3600 bash -c "{TEXT}"',
        f'conda run -n ds bash -c "{TEXT}"',
        f'uv run --with deepspeed bash -c "{TEXT}"',
        f'srun singularity exec --nv img.sif bash -c "{TEXT}"',
    ],
)
def test_a_text_for_another_shell_holds_the_launch(script):
    (launch,) = found(script)
    assert launch.command == WORDS
    assert (launch.launcher, launch.world_size, launch.deepspeed_config) == ("deepspeed", 4, "ds.json")
    assert launch.line == script.count(
        "\n", 0, script.index("deepspeed --num" if "CMD" not in script else "srun")
    ) + 1 - ("EOF" in script)


@pytest.mark.parametrize(
    "before",
    [
        *("uv run", "poetry run", "pixi run -e gpu", "conda run -n ds", "conda run --no-capture-output -p /env"),
        *("nohup", "time -p", "setsid", "nice -n 10", "timeout -k 5 3600", "sudo -u ds -E", "env A=1 B=ds"),
        *("taskset -c 0-7", "numactl --cpunodebind=0 --membind 0", "docker run --gpus all --name ds -e A=b img:1"),
        *("docker compose run --rm train", "singularity exec --nv -B /d:/d ds.sif", "kubectl exec pod -c ds --"),
        *("nsys profile -o ds", "stdbuf -oL", "uv run --with deepspeed --no-sync"),
    ],
)
def test_the_command_behind_a_program_is_the_launch(before):
    (launch,) = found(f"{before} {TEXT}")
    assert launch.command == [*before.split(), *WORDS]
    assert launch.world_size == 4


@pytest.mark.parametrize(
    "script",
    [
        *("conda activate ds", "uv pip install deepspeed", "uv add deepspeed", "poetry add deepspeed"),
        *("docker build -t deepspeed .", "docker rm -f deepspeed", "sudo pip install deepspeed"),
        *("tmux attach -t deepspeed", "tmux kill-session -t ds", "screen -r ds", "kubectl delete pod deepspeed"),
        *("ssh deepspeed", "watch -n 1 nvidia-smi", "srun --job-name deepspeed hostname", "bash -c 'echo deepspeed'"),
        *("deepspeed --version", "deepspeed --help | less", "torchrun -h", "accelerate launch --help"),
    ],
)
def test_a_name_among_the_words_is_no_launch(script):
    assert found(script) == []


def test_srun_around_a_text_has_the_nodes_and_tasks():
    torchrun = f'srun bash -c "torchrun --nproc_per_node 8 --nnodes \\$SLURM_NNODES {TRAIN}"'
    (launch,) = found(JOB + torchrun)
    assert (launch.nodes, launch.processes_per_node) == (2, 8)
    assert (launch.surroundings.around, launch.surroundings.starts) == ("srun", 1)
    (launch,) = found(f'srun -N 2 --ntasks-per-node=8 bash -c "python {TRAIN}"')
    assert (launch.launcher, launch.nodes, launch.processes_per_node) == ("srun", 2, 8)
    assert launch.around[0] == "srun"
    (launch,) = found(f'mpirun -np 8 bash -c "python {TRAIN}"')
    assert (launch.launcher, launch.world_size) == ("mpirun", 8)
    (launch,) = found(f'mpirun -np 16 -H a:8,b:8 bash -c "python {TRAIN}"')
    assert launch.world_size is None


@pytest.mark.parametrize(
    ("options", "nodes"), [("--jobid $SLURM_JOBID", "2"), ("-u", "2"), ("-N 1", None), ("-n1", None)]
)
def test_a_step_with_tasks_of_its_own_has_variables_of_its_own(options, nodes):
    (launch,) = found(f"{JOB}srun {options} bash -c 'torchrun --nnodes $SLURM_NNODES {TRAIN}'")
    assert launch.command[2] == nodes


@pytest.mark.parametrize("call", ["sbatch --nodes=4 job.sh", "N=4; sbatch -N $N job.sh 1"])
def test_sbatch_calls_a_script_with_options(call):
    (launch,) = found(call, {"job.sh": f"{JOB}srun torchrun --nnodes $SLURM_NNODES --nproc_per_node 8 {TRAIN}"})
    assert (launch.path, launch.nodes, launch.world_size) == ("job.sh", 4, 32)


def test_sbatch_makes_the_job():
    (launch,) = found(f'sbatch -N 2 --ntasks-per-node=8 --wrap "srun python {TRAIN} --n $SLURM_NNODES"')
    assert (launch.nodes, launch.processes_per_node) == (2, 8)
    script = f"sbatch <<EOF\n#!/bin/bash\n#SBATCH --nodes=4\n#SBATCH --ntasks-per-node=8\nsrun python {TRAIN}\nEOF"
    (launch,) = found(script)
    assert (launch.nodes, launch.processes_per_node) == (4, 8)


@pytest.mark.parametrize(
    ("script", "config"),
    [
        (f'srun bash -c "$LAUNCHER --node_rank \\$SLURM_PROCID {TRAIN}"', "ds.json"),
        (f"$LAUNCHER {TRAIN}", "ds.json"),
        ("$LAUNCHER $SCRIPT --deepspeed ds.json", "ds.json"),
    ],
)
def test_a_launcher_that_is_not_known_still_has_its_config(script, config):
    (launch,) = found(script)
    assert (launch.launcher, launch.record, launch.world_size) == ("?", None, None)
    assert launch.deepspeed_config == config


@pytest.mark.parametrize(
    ("script", "launcher"),
    [
        ("$CONDA_PREFIX/bin/deepspeed --num_gpus 2 train.py", "deepspeed"),
        ("python $(which torchrun) --nproc_per_node 2 train.py", "torchrun"),
        ("$(command -v torchrun) --nproc_per_node 2 train.py", "torchrun"),
        ('"$PYTHON" -u -m torch.distributed.run --nproc_per_node 2 train.py', "torchrun"),
        ("$PREFIX torchrun --nproc_per_node 2 train.py", "torchrun"),
    ],
)
def test_a_launcher_in_an_unknown_folder_or_behind_an_unknown_word_is_known(script, launcher):
    (launch,) = found(script)
    assert (launch.launcher, launch.world_size, launch.script) == (launcher, 2, "train.py")


def test_a_word_that_is_not_known_starts_nothing_without_deepspeed():
    assert found("$RUN train.py --epochs 3\n$EDITOR notes.py\n$CMD --verbose\n$CMD --backend deepspeed") == []
    assert found("$CMD --cache $HOME/ds\n$ROOT/deepspeed/build.sh\nls $HOME/deepspeed") == []


def test_the_environment_of_ssh_is_another_one():
    exported = "export CUDA_VISIBLE_DEVICES=0,1\n"
    (launch,) = found(f'{exported}ssh host "deepspeed {TRAIN}"')
    assert launch.environment == {}
    (launch,) = found(f'{exported}bash -c "deepspeed {TRAIN}"')
    assert launch.environment == {"CUDA_VISIBLE_DEVICES": "0,1"}
    (launch,) = found(f"env CUDA_VISIBLE_DEVICES=0,1 deepspeed {TRAIN}")
    assert launch.world_size == 2


INNER = f"deepspeed --num_gpus ${{1:-8}} {TRAIN} --lr $LR"


@pytest.mark.parametrize(
    ("call", "gpus"),
    [
        ("bash inner.sh", "8"),
        ("bash inner.sh 2", "2"),
        ("sh ./scripts/../inner.sh 2 more", "2"),
        ("bash -x inner.sh 3", "3"),
        ("./inner.sh 4 &", "4"),
        ("nohup bash inner.sh 5 > log", "5"),
        ("for n in 6; do bash inner.sh $n; done", "6"),
        ("source inner.sh 7", "7"),
    ],
)
def test_a_script_is_known_as_it_is_called(call, gpus):
    (launch,) = found(f"export LR=1e-5\nHIDDEN=1\n{call}", {"inner.sh": f"\n{INNER}"})
    assert (launch.path, launch.line) == ("inner.sh", 2)
    assert launch.command[2] == gpus
    assert launch.arguments["lr"] == "1e-5"


def test_a_script_that_calls_itself_ends():
    (launch,) = found(f"bash run.sh\n{TEXT}", {"run.sh": f"bash run.sh\n{TEXT}"})
    assert (posixpath.basename(launch.path), launch.line) == ("run.sh", 2)


def test_srun_around_a_script_counts():
    (launch,) = found(JOB + "srun bash inner.sh", {"inner.sh": f"torchrun --nnodes 2 --nproc_per_node 8 {TRAIN}"})
    assert (launch.nodes, launch.surroundings.around) == (2, "srun")
