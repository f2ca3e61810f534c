"""What rules say about how a launch starts its ranks, and where they are silent."""

from __future__ import annotations

import json
import subprocess

import pytest
from command_line import write_into

from ds_lint.cli import run

STAGE_3 = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3}}
CONFIG = "--deepspeed_config ds.json"
TRAINER = "--deepspeed ds.json --bf16 --output_dir out --learning_rate 1e-5 --save_steps 9"
ON_1234 = "torchrun --master_port 1234"
LOOP = "for gpu in 0 1; do\ndeepspeed --include localhost:$gpu {} train.py {} &\n{}\ndone\nwait"
TWO = "--num_machines 2 --num_processes 16 --main_process_ip $H --main_process_port 29500"
TWO_BY_TASK = "--nnodes 2 --node_rank $SLURM_NODEID --master_addr $H --nproc_per_node 8"
MULTI_GPU = "distributed_type: MULTI_GPU\nnum_machines: 2\nnum_processes: 16\nmachine_rank: 0\nmain_process_ip: a\n"
RDZV = "--rdzv_backend c10d --rdzv_endpoint $H:29400"
TORCHRUN = "torchrun --nnodes 2 --nproc_per_node 8"
WITHIN = "srun bash -c {0}{1} train.py --deepspeed_config ds.json{0}"
HOSTS = "a slots=4\nb slots=4\n"
JOB = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gres=gpu:a100:8\n#SBATCH --ntasks-per-node={}\n"
PLAIN = "import deepspeed\nengine, *_ = deepspeed.initialize(model=model, config='ds.json')\n"
LOADS = PLAIN + "engine.load_checkpoint({})\n"
FIVE = "RANK=0 LOCAL_RANK=0 WORLD_SIZE=1 MASTER_ADDR=localhost MASTER_PORT=2950"


@pytest.fixture
def found(monkeypatch, capsys, tmp_path):
    """A function that says which rules about launching find something in a project."""
    monkeypatch.chdir(tmp_path)

    def check(launch, *arguments, files=None, config=STAGE_3, codes=("DS83", "DS88", "DS894")):
        write_into(tmp_path)({"ds.json": config, "run.sh": launch, **(files or {})})
        run(["check", ".", *arguments, "--output-format", "json"])
        report = json.loads(capsys.readouterr().out)
        return [finding for finding in report["findings"] if finding["code"].startswith(codes)]

    return check


def codes(findings):
    return [finding["code"] for finding in findings]


@pytest.mark.parametrize(
    ("launch", "code"),
    [
        (f"python finetune.py {TRAINER}", "DS830"),
        (f"nohup python3 -u -m src.train {TRAINER} &", "DS830"),
        (f"export RANK=0 WORLD_SIZE=1\npython finetune.py {TRAINER}", "DS830"),
        (f"srun -n1 --gres=gpu:1 python finetune.py {TRAINER}", "DS830"),
        (f"mpirun -np 8 -x WORLD_SIZE=8 python finetune.py {TRAINER}", "DS830"),
        (f"accelerate launch --num_processes 4 torchrun train.py {CONFIG}", "DS831"),
        (f"torchrun --no-python --nproc_per_node 2 deepspeed train.py {CONFIG}", "DS831"),
        (JOB.format(8) + f"srun torchrun --nnodes $SLURM_NNODES --nproc_per_node 8 train.py {CONFIG}", "DS831"),
        (JOB.format(8) + f"srun --ntasks-per-node=1 torchrun --nproc_per_node 8 train.py {CONFIG}", "DS831"),
        (f"mpiexec -n 4 accelerate launch --num_processes 4 --num_machines 1 train.py {CONFIG}", "DS831"),
        (f"CUDA_VISIBLE_DEVICES=3 torchrun --nproc_per_node=2 train.py {CONFIG}", "DS832"),
        (f"accelerate launch --gpu_ids 0,1 --num_processes 4 train.py {CONFIG}", "DS832"),
        (JOB.format(1) + f"srun -N1 torchrun --nproc_per_node 16 train.py {CONFIG}", "DS832"),
        (f"deepspeed --hostfile hosts --num_gpus 8 train.py {CONFIG}", "DS832"),
        (f"CUDA_VISIBLE_DEVICES=GPU-8932f937,GPU-2aa08dda torchrun --nproc_per_node=4 train.py {CONFIG}", "DS832"),
        (f"CUDA_VISIBLE_DEVICES=GPU-8932f937,GPU-2aa08dda deepspeed --num_gpus 2 train.py {CONFIG}", "DS833"),
        (f"CUDA_VISIBLE_DEVICES=2,3 deepspeed --include=localhost:0,1 train.py {CONFIG}", "DS833"),
        (f"deepspeed -i localhost:0 --num_nodes 1 train.py {CONFIG}", "DS834"),
        (f"deepspeed --hostfile hosts --include a:0@c train.py {CONFIG}", "DS834"),
        (f"deepspeed --hostfile hosts --exclude b:4 train.py {CONFIG}", "DS834"),
        (f"deepspeed --num_gpus 8 --num_nodes 2 --master_addr a train.py {CONFIG}", "DS834"),
        (f"torchrun --nnodes=2 --nproc_per_node=8 --rdzv_endpoint=localhost:29400 train.py {CONFIG}", "DS835"),
        (f"export MASTER_ADDR=n1\ntorchrun --nnodes=2 --nproc_per_node=8 train.py {CONFIG}", "DS835"),
        (f"torchrun --standalone --nnodes=2 --nproc_per_node=8 train.py {CONFIG}", "DS835"),
        (f"deepspeed --hostfile hosts --master_addr localhost train.py {CONFIG}", "DS835"),
        (f"CUDA_VISIBLE_DEVICES=GPU-8932f937,GPU-2aa08dda deepspeed train.py {CONFIG}", "DS834"),
        (f"export CUDA_VISIBLE_DEVICES=0,1\ndeepspeed --num_nodes 1 train.py {CONFIG}", "DS834"),
        (f"deepspeed --include 127.0.0.1:0,1 train.py {CONFIG}", "DS834"),
        (f"deepspeed --include localhost:0-3 train.py {CONFIG}", "DS834"),
        (f"deepspeed --hostfile hosts --exclude a@b train.py {CONFIG}", "DS834"),
        (f"deepspeed --hostfile hosts --no_ssh train.py {CONFIG}", "DS834"),
        (f"deepspeed --hostfile hosts --no_ssh --node_rank 2 train.py {CONFIG}", "DS834"),
        (f"deepspeed --hostfile hosts --launcher mpirun train.py {CONFIG}", "DS834"),
        (f"deepspeed --hostfile hosts --launcher openmpi --num_gpus 4 train.py {CONFIG}", "DS834"),
        (f"deepspeed --hostfile hosts --launcher slurm --include a:1@b:1 train.py {CONFIG}", "DS834"),
        (f"deepspeed --hostfile hosts --num_nodes 3 train.py {CONFIG}", "DS834"),
        (f"deepspeed --hostfile None --num_nodes 2 train.py {CONFIG}", "DS834"),
        (f"deepspeed --master_port 70000 train.py {CONFIG}", "DS887"),
        (f"deepspeed --num_gpus 1 train.py {CONFIG} &\ndeepspeed --include localhost:1 train.py {CONFIG} &", "DS887"),
        (
            f"nohup torchrun --master_port 1234 train.py \\\n {CONFIG} > a &\nsleep 5\n{ON_1234} train.py {CONFIG}",
            "DS887",
        ),
        (JOB.format(1) + f"srun deepspeed --num_gpus 8 train.py {CONFIG}", "DS884"),
        (JOB.format(1) + f"srun torchrun --nproc_per_node 8 train.py {CONFIG}", "DS884"),
        (JOB.format(1) + f"srun --jobid $SLURM_JOB_ID torchrun --nproc_per_node 8 train.py {CONFIG}", "DS884"),
        (JOB.format(1) + f"srun accelerate launch --use_deepspeed --num_processes 8 train.py {CONFIG}", "DS884"),
        (JOB.format(1) + f"srun deepspeed --hostfile hosts train.py {CONFIG}", "DS884"),
        (JOB.format(8) + f"torchrun --nproc_per_node 8 train.py {CONFIG}", "DS884"),
        (JOB.format(1) + f"deepspeed --num_gpus 8 train.py {CONFIG}", "DS884"),
        (JOB.format(1) + f"accelerate launch --multi_gpu {TWO} --machine_rank 0 train.py {CONFIG}", "DS885"),
        (f"accelerate launch --use_deepspeed {TWO} --machine_rank 0 train.py {CONFIG}", "DS884"),
        (JOB.format(1) + f"srun accelerate launch --multi_gpu {TWO} --machine_rank 0 train.py {CONFIG}", "DS885"),
        (JOB.format(1) + f"srun accelerate launch --config_file acc.yaml train.py {CONFIG}", "DS885"),
        (JOB.format(1) + f"srun torchrun --nnodes 2 --master_addr $H --nproc_per_node 8 train.py {CONFIG}", "DS885"),
        (f"docker run --gpus all -v $PWD:/w img torchrun --nproc_per_node 8 train.py {CONFIG}", "DS894"),
        (f"docker run --rm --shm-size 64m img bash -c 'deepspeed --num_gpus 2 train.py {CONFIG}'", "DS894"),
        (JOB.format(1) + WITHIN.format('"', f"{TORCHRUN} --node_rank $SLURM_NODEID --master_addr $H"), "DS885"),
        (JOB.format(1) + WITHIN.format("'", f"{TORCHRUN} {RDZV.replace('$H', '$(hostname)')}"), "DS835"),
        (
            JOB.format(1)
            + f"srun torchrun --nnodes 2 --node_rank $SLURM_NODEID --master_addr $H --nproc_per_node 8 t.py {CONFIG}",
            "DS885",
        ),
        (
            JOB.format(1)
            + f'srun bash -c "torchrun --nnodes 2 --node_rank $SLURM_PROCID --master_addr $H --nproc_per_node 8 '
            f't.py {CONFIG}"',
            "DS885",
        ),
        (
            JOB.format(1)
            + f"srun torchrun --nnodes=2 --node_rank=0 --rdzv_endpoint=$H:29500 --nproc_per_node=8 t.py {CONFIG}",
            "DS885",
        ),
        (JOB.format(1) + f"torchrun --nnodes $SLURM_NNODES --master_addr $H --nproc_per_node 8 t.py {CONFIG}", "DS885"),
    ],
)
def test_a_launch_that_does_not_start_what_it_should(found, launch, code):
    (finding,) = found(launch, files={"hosts": HOSTS, "acc.yaml": MULTI_GPU})
    assert finding["code"] == code
    assert (finding["path"], finding["related"][0]["path"]) == ("./run.sh", "./ds.json")
    assert finding["span"]["start"]["line"] == launch.count("\n") + 1


def test_machines_of_accelerate_without_a_number(found):
    """DS885: ``int(None)`` raises before any machine waits."""
    (finding,) = found(JOB.format(1) + f"srun accelerate launch --multi_gpu {TWO} train.py {CONFIG}")
    assert (finding["code"], finding["effect"]) == ("DS885", "rejected")
    assert "without `--machine_rank` raises a TypeError" in finding["message"]


def test_runs_of_a_loop_at_one_port(found):
    """DS887."""
    (finding,) = found(LOOP.format("", CONFIG, ""))
    assert (finding["code"], finding["span"]["start"]["line"]) == ("DS887", 2)
    assert found(LOOP.format("", CONFIG, "wait")) == []
    assert found(LOOP.format("--master_port $((29500 + gpu))", CONFIG, "")) == []


def test_a_host_that_the_hostfile_of_a_cluster_may_name(found):
    (finding,) = found(f"deepspeed --include worker-0:0,1 train.py {CONFIG}")
    assert (finding["code"], finding["severity"]) == ("DS834", "info")


@pytest.mark.parametrize(
    ("release", "filter_", "found_"),
    [
        ("0.15.1", "a:9", [("DS834", "rejected")]),
        ("0.16.9", "a:9", []),
        ("0.19.7", "a:9", [("DS834", "rejected")]),
        ("0.15.1", "a@b:0", []),
        ("0.16.9", "a@b:0", [("DS834", "risk")]),
        ("0.16.9", "a", [("DS834", "rejected")]),
        ("0.19.7", "a@b:0", []),
    ],
)
def test_what_a_release_makes_of_hosts_without_slots(found, release, filter_, found_):
    """``parse_inclusion_exclusion`` of 0.15.2 to 0.19.6 filters the filter against itself."""
    launch = f"deepspeed --hostfile hosts --include {filter_} train.py {CONFIG}"
    findings = found(launch, "--deepspeed-version", release, files={"hosts": HOSTS})
    assert [(one["code"], one["effect"]) for one in findings] == found_


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("n1 slots=8\nn1 slots=8\n", "line 2 of the hostfile `hosts` repeats the host n1"),
        ("# ours\n\nn1 slots=8\nn2 lots=8\n", "line 4 of the hostfile `hosts` is `n2 lots=8`, not `HOST slots=N`"),
        ("n1\nn2\n", "line 1 of the hostfile `hosts` is `n1`, not `HOST slots=N`"),
        ("n1 slots = 8\n", "line 1 of the hostfile `hosts` is `n1 slots = 8`, not `HOST slots=N`"),
        ("\n# n1 slots=8\n", "the hostfile `hosts` names no host"),
    ],
)
def test_a_hostfile_that_deepspeed_cannot_read(found, text, line):
    (finding,) = found(f"deepspeed -H hosts train.py {CONFIG}", files={"hosts": text})
    assert (finding["code"], finding["path"]) == ("DS883", "./run.sh")
    assert finding["message"] == f"{line}: `deepspeed` raises a ValueError"


def test_older_releases_read_other_lines_of_a_hostfile(found):
    launch, hosts = f"deepspeed -H hosts train.py {CONFIG}", "n1 slots=8\nn2 lots=8\n"
    assert found(launch, "--deepspeed-version", "0.7.7", files={"hosts": hosts}) == []


YAML = {
    "compute_environment": "LOCAL_MACHINE",
    "distributed_type": "DEEPSPEED",
    "mixed_precision": "bf16",
    "num_machines": 2,
    "num_processes": 16,
    "machine_rank": 0,
    "main_process_ip": "10.0.0.1",
    "main_process_port": 29500,
}


def test_nodes_of_machines_that_train_alone(found):
    """DS884 is silent where DS886 reports the file."""
    text = json.dumps({**YAML, "deepspeed_config": {"zero_stage": 2}})
    launch = JOB.format(1) + "srun accelerate launch --config_file acc.yaml train.py\n"
    findings = found(launch, files={"acc.yaml": text, "train.py": "import accelerate\n"})
    assert codes(findings) == ["DS886"]


@pytest.mark.parametrize(
    ("options", "section", "message"),
    [
        ("", {}, "each machine trains alone on 8 ranks"),
        (
            "--num_machines 4",
            {},
            "`num_machines` is 4 without `deepspeed_hostfile`: each machine trains alone on 4 ranks",
        ),
        ("--machine_rank $SLURM_NODEID", {}, "each machine trains alone on 8 ranks"),
        ("--machine_rank $SLURM_NODEID", {"deepspeed_multinode_launcher": "nossh"}, None),
        ("", {"deepspeed_multinode_launcher": "nossh"}, "machine 0 trains alone on 8 ranks, the others raise"),
        (
            "",
            {"deepspeed_multinode_launcher": "openmpi", "deepspeed_hostfile": "hosts"},
            "does not support `--num_gpus`",
        ),
        ("--deepspeed_hostfile hosts", {"deepspeed_inclusion_filter": "c:0"}, "names c, which is not in the hostfile"),
        ("", {"deepspeed_multinode_launcher": "standard"}, None),
        ("", {"deepspeed_hostfile": "hosts"}, None),
        ("--deepspeed_hostfile hosts", {}, None),
        ("--deepspeed_hostfile $HOSTS", {}, None),
        ("--num_machines 1", {}, None),
        ("$MORE", {}, None),
    ],
)
def test_machines_of_accelerate(found, options, section, message):
    """DS886: the options of the command line win over the file."""
    text = json.dumps({**YAML, "deepspeed_config": {"zero_stage": 2, **section}})
    launch = f"accelerate launch --config_file acc.yaml {options} train.py\n"
    findings = found(launch, files={"acc.yaml": text, "hosts": HOSTS, "train.py": "import accelerate\n"}, codes="DS886")
    assert [one["path"] for one in findings] == ["./acc.yaml"] * (message is not None)
    assert all(message in one["message"] for one in findings)


PLACEHOLDER = "torchrun train.py <normal cl args> --deepspeed ds.json --bf16"


def test_an_option_behind_a_placeholder_is_a_file_for_bash(tmp_path):
    """DS839: without the file that is read nothing starts, with it the option is gone."""

    def words():
        script = f'torchrun() {{ printf "%s " "$@"; }}\n{PLACEHOLDER}; cat ./--deepspeed'
        return subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False).stdout

    assert words() == ""
    (tmp_path / "normal").touch()
    assert words() == "train.py cl args ds.json --bf16 "


def test_an_option_in_a_redirection_is_said_of_the_config_behind_it(found):
    (finding,) = found(PLACEHOLDER, codes="DS839")
    assert "`<normal` and `>--deepspeed`" in finding["message"]
    assert "the script does not get `--deepspeed`" in finding["message"]
    assert found(f"torchrun train.py {CONFIG} > log 2>&1 < /dev/null --bf16", codes="DS839") == []


CUT_OFF = "torchrun train.py \\\n  {}\n  --deepspeed ds.json --bf16"


@pytest.mark.parametrize("between", ["# --fp16 \\", "", "--seed 1 \\ ", "--seed 1"])
def test_lines_behind_a_comment_are_another_command_for_bash(found, between):
    """DS893: the config and ``--bf16`` do not arrive."""
    script = CUT_OFF.format(between)
    printing = f'torchrun() {{ printf "<%s>" "$@"; }}\n{script}'
    ran = subprocess.run(["bash", "-c", printing], capture_output=True, text=True, check=False)
    assert "<--bf16>" not in ran.stdout
    assert "--deepspeed: command not found" in ran.stderr
    (finding,) = found(script, codes="DS893")
    assert finding["message"].startswith("the shell ends the launch before `--deepspeed`: ")
    assert finding["message"].endswith("the script does not get `--deepspeed` and `--bf16`")


@pytest.mark.parametrize(
    "launch",
    [
        f"torchrun train.py {CONFIG} \\\n  --bf16 # --fp16",
        f"torchrun train.py {CONFIG}  # --fp16",
        f"torchrun train.py {CONFIG} \\\n  # --fp16",
        f"ARGS='--bf16 \n --fp16'\ntorchrun train.py {CONFIG} $ARGS",
    ],
)
def test_a_command_that_has_all_its_lines_is_whole(found, launch):
    assert found(launch, codes="DS893") == []


@pytest.mark.parametrize(
    "launch",
    [
        f"torchrun --nproc_per_node 1 finetune.py {TRAINER}",
        f"{FIVE} python finetune.py {TRAINER}",
        f"srun -n 8 python finetune.py {TRAINER}",
        f"mpirun -np 8 python train.py {CONFIG}",
        f"python launch_all.py {CONFIG}",
        f"docker run --gpus all --shm-size=8g img torchrun --nproc_per_node 8 train.py {CONFIG}",
        f"docker run --ipc host img torchrun --nproc_per_node 8 train.py {CONFIG}",
        f"docker run $OPTIONS img torchrun --nproc_per_node 8 train.py {CONFIG}",
        f"docker run -v /dev/shm:/dev/shm img torchrun --nproc_per_node 8 train.py {CONFIG}",
        f"docker run img torchrun --nproc_per_node 1 train.py {CONFIG}",
        f"docker compose run train torchrun --nproc_per_node 8 train.py {CONFIG}",
        f"docker exec box torchrun --nproc_per_node 8 train.py {CONFIG}",
        JOB.format(1) + f"srun torchrun {RDZV} --nnodes 2 --nproc_per_node 8 train.py {CONFIG}",
        JOB.format(1) + WITHIN.format('"', f"{TORCHRUN} --node_rank \\$SLURM_NODEID --master_addr $H"),
        JOB.format(1) + WITHIN.format("'", f"{TORCHRUN} --node_rank $SLURM_NODEID --master_addr $H"),
        JOB.format(1) + WITHIN.format('"', f"{TORCHRUN} {RDZV.replace('$H', '$(hostname)')}"),
        JOB.format(8) + f"srun --ntasks=2 torchrun {RDZV} --nnodes 2 --nproc_per_node 8 train.py {CONFIG}",
        JOB.format(8)
        + "srun -N 2 --ntasks-per-node=1 "
        + f"torchrun {RDZV} --nnodes 2 --nproc_per_node 8 train.py {CONFIG}",
        JOB.format(8) + f"srun torchrun --nnodes 16 --nproc_per_node 1 --rdzv_endpoint $H:1 train.py {CONFIG}",
        f"mpirun -np 2 -H a,b torchrun --nnodes 2 --nproc_per_node 8 --rdzv_endpoint a:1 train.py {CONFIG}",
        f"mpirun -np 2 --map-by ppr:1:node torchrun --nproc_per_node 8 train.py {CONFIG}",
        f"CUDA_VISIBLE_DEVICES=0,1,2,3 torchrun --nproc_per_node 4 train.py {CONFIG}",
        f"CUDA_VISIBLE_DEVICES=$GPUS torchrun --nproc_per_node 4 train.py {CONFIG}",
        f"CUDA_VISIBLE_DEVICES=0 accelerate launch --gpu_ids 0,1 --num_processes 2 train.py {CONFIG}",
        f"CUDA_VISIBLE_DEVICES=0,1,2,3 deepspeed --num_gpus 2 train.py {CONFIG}",
        f"CUDA_VISIBLE_DEVICES=4,5 deepspeed --include localhost:4,5 train.py {CONFIG}",
        f"CUDA_VISIBLE_DEVICES=4,5 deepspeed train.py {CONFIG}",
        f"deepspeed --hostfile hosts --include a:0,1@b train.py {CONFIG}",
        f"deepspeed --num_gpus 1 train.py {CONFIG} &\nwait\ndeepspeed --num_gpus 1 train.py {CONFIG} &",
        f"deepspeed --num_gpus 1 train.py {CONFIG} &&\ndeepspeed --num_gpus 1 train.py {CONFIG}",
        f"if a; then\ndeepspeed train.py {CONFIG} &\nelse\ndeepspeed train.py {CONFIG} &\nfi",
        f"deepspeed train.py {CONFIG} &\ndeepspeed --master_port 29501 train.py {CONFIG} &",
        f"deepspeed train.py {CONFIG} &\ntorchrun train.py {CONFIG} &",
        f"torchrun train.py {CONFIG} &\ntorchrun train.py {CONFIG} &",
        f"deepspeed --hostfile hosts --master_addr a train.py {CONFIG}",
        f"export PET_MASTER_ADDR=n1\ntorchrun --nnodes=2 --nproc_per_node=8 train.py {CONFIG}",
        JOB.format(1) + f"export PET_NNODES=2\nsrun torchrun --nproc_per_node 8 train.py {CONFIG}",
        f"accelerate launch --use_deepspeed {TWO} --deepspeed_hostfile hosts --machine_rank 0 train.py {CONFIG}",
        JOB.format(1) + f"srun accelerate launch --config_file acc.yaml --rdzv_backend c10d train.py {CONFIG}",
        JOB.format(1) + f"srun accelerate launch --config_file acc.yaml --machine_rank $N train.py {CONFIG}",
        f"deepspeed --hostfile hosts --num_nodes 1 --master_addr localhost train.py {CONFIG}",
        f"deepspeed --hostfile hosts --no_ssh --node_rank $RANK train.py {CONFIG}",
        f"deepspeed --hostfile hosts $MORE --no_ssh train.py {CONFIG}",
        f"deepspeed --hostfile hosts --launcher $LAUNCHER --num_gpus 4 train.py {CONFIG}",
        f"deepspeed --hostfile /data/other --include c train.py {CONFIG}",
        f"CUDA_VISIBLE_DEVICES=GPU-8932f937 torchrun --nproc_per_node 1 train.py {CONFIG}",
        f"CUDA_VISIBLE_DEVICES=$GPUS deepspeed train.py {CONFIG}",
        JOB.format(1) + f"srun -N1 torchrun --nproc_per_node 8 train.py {CONFIG}",
        JOB.format(1) + f"srun -n1 torchrun --nproc_per_node 8 train.py {CONFIG}",
        JOB.format(1) + f"srun --nodelist $NODE torchrun --nproc_per_node 8 train.py {CONFIG}",
        JOB.format(1) + f"srun $STEP torchrun --nproc_per_node 8 train.py {CONFIG}",
        JOB.format(1) + f"srun torchrun $RDZV --nproc_per_node 8 train.py {CONFIG}",
        JOB.format(1) + f"srun deepspeed --hostfile hosts --no_ssh --node_rank $N train.py {CONFIG}",
        JOB.format(1) + f"srun torchrun --nnodes 2 --node_rank $N --master_addr $H --nproc_per_node 8 t.py {CONFIG}",
        JOB.format(1) + f"srun bash -c 'torchrun {TWO_BY_TASK} t.py {CONFIG}'",
        JOB.format(1) + f'srun bash -c "torchrun {TWO_BY_TASK} t.py {CONFIG}"'.replace("$S", "\\$S"),
        JOB.format(1) + f"srun bash -c \"echo $SLURM_NODEID; \"'torchrun {TWO_BY_TASK} t.py {CONFIG}'",
        JOB.format(1) + f"ssh $OTHER torchrun\ntorchrun --nproc_per_node 8 train.py {CONFIG}",
        JOB.format(1) + f"deepspeed --hostfile hosts train.py {CONFIG}",
        JOB.format(1) + f"deepspeed --hostfile $HOSTS --num_gpus 8 train.py {CONFIG}",
        JOB.format(1)
        + f"for n in $ALL; do ssh $n ls; done\ntorchrun --nnodes 2 --master_addr $H --nproc_per_node 8 t.py {CONFIG}",
        f"deepspeed --hostfile hosts --num_nodes 2 --num_gpus 4 train.py {CONFIG}",
        f"deepspeed --hostfile $HOSTS --num_nodes 2 --num_gpus 4 train.py {CONFIG}",
        f"deepspeed --num_nodes $N --num_gpus 4 train.py {CONFIG}",
        f"cp hosts /job/hostfile; deepspeed --num_nodes 2 --num_gpus 4 train.py {CONFIG}",
        f"torchrun --nnodes 2 --nproc_per_node 8 --master_addr $HOST --node_rank 0 train.py {CONFIG}",
        f"torchrun --nnodes 2 $RDZV --nproc_per_node 8 train.py {CONFIG}",
        f"torchrun --nnodes $N --nproc_per_node 8 train.py {CONFIG}",
        f"torchrun --nproc_per_node 8 --module deepspeed.train {CONFIG}",
    ],
)
def test_silence_on_a_launch_that_starts_its_ranks(found, launch):
    assert found(launch, files={"hosts": HOSTS, "acc.yaml": MULTI_GPU}) == []


@pytest.mark.parametrize("name", ["WORLD_SIZE", "TOKENIZERS_PARALLELISM", "CUDA_VISIBLE_DEVICES"])
def test_other_variables_that_a_script_sets_leave_it_without_a_rank(found, name):
    files = {"train.py": f"import os\nos.environ.setdefault('{name}', '1')\n" + PLAIN}
    assert codes(found(f"python train.py {CONFIG}", files=files)) == ["DS830"]


@pytest.mark.parametrize(
    "script",
    [
        "import os\nos.environ['RANK'] = '0'\n",
        "for name, value in ranks: os.environ.setdefault(name, value)\n",
        "os.environ.setdefault('MASTER_ADDR', 'localhost')\n",
        "from mpi4py import MPI\n",
        "from utils import init_distributed_mode\ninit_distributed_mode(args)\n",
        "torch.multiprocessing.spawn(main, nprocs=8)\n",
        "import subprocess\n",
    ],
)
def test_a_script_that_may_set_its_rank_needs_no_launcher(found, script):
    launch = f"python train.py {CONFIG}"
    assert codes(found(launch, files={"train.py": PLAIN})) == ["DS830"]
    assert found(launch, files={"train.py": script + PLAIN}) == []


def test_the_environment_of_a_container_is_not_known(found):
    dockerfile = f"FROM x\nCMD python finetune.py {TRAINER}\n"
    assert found("true", files={"Dockerfile": dockerfile}) == []


@pytest.mark.parametrize(
    ("release", "config", "effect"),
    [
        ("0.28.0", {}, "risk"),
        ("0.29.0", {}, "no-effect"),
        ("0.34.2", {"optimizer": {"type": "AdamW"}}, "rejected"),
        ("1.0.0", {}, "risk"),
    ],
)
def test_accelerate_that_leaves_deepspeed_out(found, release, config, effect):
    two = {"zero_optimization": {"stage": 2}, **config}
    (finding,) = found(f"python finetune.py {TRAINER}", "--accelerate-version", release, config=two)
    assert finding["effect"] == effect


def test_a_finding_is_reported_once(found):
    launch = f"python a.py {TRAINER}\npython a.py {TRAINER}\n"
    (finding,) = found(launch)
    assert any("1 more launch" in place["label"] for place in finding["related"])


def states(ranks, folder="ckpt"):
    names = [f"{folder}/global_step9/zero_pp_rank_{rank}_mp_rank_00_optim_states.pt" for rank in range(ranks)]
    return {f"{folder}/latest": "global_step9", **dict.fromkeys(names, "")}


@pytest.mark.parametrize(
    ("script", "flags"),
    [
        (LOADS.format("'ckpt'"), ""),
        (LOADS.format("load_dir=args.load, tag='global_step9'"), "--load ckpt"),
        ("parser.add_argument('--load', default='ckpt')\n" + LOADS.format("args.load"), ""),
        (LOADS.format("'ckpt'").replace("engine.load", "if os.path.isdir('ckpt'):\n    engine.load"), ""),
        (LOADS.format("args.load").replace("engine.load", "if args.load is not None:\n    engine.load"), "--load ckpt"),
    ],
)
def test_a_checkpoint_of_other_ranks(found, script, flags):
    files = {"train.py": script, **states(4)}
    (finding,) = found(f"deepspeed --num_gpus 2 train.py {flags}", files=files)
    assert finding["code"] == "DS836"
    assert [one["path"] for one in (finding, *finding["related"])] == ["./train.py", "./ds.json", "./run.sh"]
    assert found(f"deepspeed --num_gpus 4 train.py {flags}", files=files) == []
    assert found(f"deepspeed --num_gpus 2 train.py {flags}", "--world-size", "4", files=files) == []
    universal = {**STAGE_3, "checkpoint": {"load_universal": True}}
    assert found(f"deepspeed --num_gpus 2 train.py {flags}", files=files, config=universal) == []


@pytest.mark.parametrize(
    ("script", "files"),
    [
        (LOADS.format("'ckpt', load_optimizer_states=False"), states(4)),
        (LOADS.format("'ckpt', tag=tag"), states(4)),
        (LOADS.format("'ckpt'").replace("engine.load", "if args.resume:\n    engine.load"), states(4)),
        (
            LOADS.format("'ckpt'").replace("engine.load", "try:\n    engine.load") + "except Exception:\n    pass\n",
            states(4),
        ),
        (LOADS.format("'ckpt'"), states(4) | {"ckpt/global_step9/zero_pp_rank_0_mp_rank_01_optim_states.pt": ""}),
        (LOADS.format("'ckpt'"), states(4) | {"ckpt/global_step9/layer_00-model_states.pt": ""}),
        (LOADS.format("'ckpt'"), {"ckpt/latest": "global_step9"}),
    ],
    ids=["weights", "tag", "condition", "may fail", "model parallel", "pipeline", "no states"],
)
def test_silence_on_what_is_not_certainly_resumed(found, script, files):
    assert found("deepspeed --num_gpus 2 train.py", files={"train.py": script, **files}) == []


def test_the_trainer_resumes_from_a_checkpoint_of_other_ranks(found):
    files = states(4, "out/checkpoint-20") | states(2, "out/checkpoint-3")
    launch = "torchrun --nproc_per_node 2 finetune.py {} " + TRAINER
    assert codes(found(launch.format("--resume_from_checkpoint out/checkpoint-20"), files=files)) == ["DS836"]
    assert codes(found(launch.format("--resume_from_checkpoint True"), files=files)) == ["DS836"]
    assert found(launch.format("--resume_from_checkpoint out/checkpoint-3"), files=files) == []
    assert found(launch.format(""), files=files) == []


NODES = "torchrun --nnodes 2 --nproc_per_node 8 --rdzv_endpoint $H:1 finetune.py " + TRAINER.replace("out ", "{} ")


@pytest.mark.parametrize(
    ("folder", "flags", "is_found"),
    [
        ("/tmp/out", "", True),
        ('"$TMPDIR/out"', "", True),
        ("/tmp/out", "--save_on_each_node", False),
        ("/data/nfs/out", "--save_on_each_node True", True),
        ("/data/nfs/out", "", False),
        ("/data/confs/out", "--save_on_each_node", False),
        ("out", "--save_on_each_node", False),
        ("$OUT", "", False),
        ("/local_scratch/out", "", True),
        ("/scratch/local/me/out", "", True),
        ("/mnt/nvme0", "", True),
        ("/raid/me/out", "", True),
        ("/raid5/out", "", False),
        ("/scratch/me/out", "", False),
        ("/local_scratch/out", "--save_on_each_node", False),
    ],
)
def test_storage_of_several_nodes(found, folder, flags, is_found):
    assert codes(found(NODES.format(folder) + " " + flags)) == (["DS837"] if is_found else [])
    assert found(f"torchrun --nproc_per_node 8 {NODES.format(folder).partition('$H:1 ')[2]} {flags}") == []


def test_the_folder_of_a_variable(found):
    assert codes(found("OUT=/local_scratch/$USER\n" + NODES.format("$OUT"))) == []  # a part of it is unknown
    assert codes(found("OUT=/local_scratch/me\n" + NODES.format("$OUT/run"))) == ["DS837"]


def test_the_folder_that_a_script_of_deepspeed_saves_to(found):
    launch = "deepspeed --hostfile hosts train.py --save_to /tmp/out"
    files = {"hosts": "a slots=4\nb slots=4\n", "train.py": PLAIN + "engine.save_checkpoint(args.save_to)\n"}
    assert codes(found(launch, files=files)) == ["DS837"]
    local = {**STAGE_3, "checkpoint": {"use_node_local_storage": True}}
    assert found(launch, files=files, config=local) == []


def test_one_rank_has_nothing_to_partition(found):
    (finding,) = found(f"deepspeed --num_gpus 1 train.py {CONFIG}", codes="DS803")
    assert finding["severity"] == "info"
    assert found(f"deepspeed --num_gpus 2 train.py {CONFIG}", codes="DS803") == []
    offload = {"zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}}
    assert found(f"deepspeed --num_gpus 1 train.py {CONFIG}", config=offload, codes="DS803") == []


MODEL = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "num_hidden_layers": 32}
LLAMA = {**MODEL, "intermediate_size": 11008, "num_attention_heads": 32, "vocab_size": 32000}
OFFLOAD = {
    "train_micro_batch_size_per_gpu": 1,
    "bf16": {"enabled": True},
    "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "cpu"}},
}


@pytest.mark.parametrize(("memory", "is_found"), [("64G", True), ("65536", True), ("2T", False), ("0", False)])
def test_the_memory_of_a_job_is_that_of_its_nodes(found, memory, is_found):
    job = f"#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --mem={memory}\n"
    launch = job + f"torchrun --nproc_per_node 8 train.py {TRAINER} --model_name_or_path model\n"
    files = {"model/config.json": LLAMA}
    findings = found(launch, files=files, config=OFFLOAD, codes="DS851")
    assert codes(findings) == (["DS851"] if is_found else [])
    assert not is_found or findings[0]["related"][-1]["path"] == "./run.sh"
    assert found(launch, "--host-memory", "2TB", files=files, config=OFFLOAD, codes="DS851") == []


@pytest.mark.parametrize(
    ("asked", "codes_found"),
    [
        ("--gres=gpu:v100:4", ["DS850"]),
        ("--gpus-per-node=t4:1", ["DS850"]),
        ("--gres=gpu:a100:4", []),
        ("--gres=gpu:4", []),
        ("--gres=gpu:fast:4", []),
    ],
)
def test_the_gpus_of_a_job_may_have_no_bf16(found, asked, codes_found):
    launch = f"#!/bin/bash\n#SBATCH {asked}\ntorchrun --nproc_per_node 1 train.py {TRAINER}\n"
    config = {"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True}, "zero_optimization": {"stage": 2}}
    assert codes(found(launch, config=config, codes="DS850")) == codes_found
    assert found(launch, "--gpu", "h100", config=config, codes="DS850") == []


PARSES = """\
import argparse
import deepspeed
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
{}
parser = deepspeed.add_config_arguments(parser)
args = parser.parse_args()
"""
LOCAL_RANK = 'parser.add_argument("--local_rank", type=int)'
OLDER = f"python -m torch.distributed.launch --nproc_per_node 2 train.py {CONFIG}"


@pytest.mark.parametrize(
    ("launch", "script", "severity"),
    [
        (f"deepspeed --num_gpus 2 train.py {CONFIG}", "", "error"),
        (f"deepspeed --launcher pdsh --hostfile h train.py {CONFIG}", "", "error"),
        (f"deepspeed --module train {CONFIG}", "", "error"),
        (f"deepspeed --no_local_rank train.py {CONFIG}", "", None),
        (f"deepspeed --launcher openmpi --hostfile h train.py {CONFIG}", "", None),
        (f"deepspeed $OPTIONS train.py {CONFIG}", "", None),
        (f"deepspeed train.py {CONFIG}", LOCAL_RANK, None),
        (OLDER, "", "error"),
        (OLDER, LOCAL_RANK.replace("_r", "-r"), None),
        (OLDER.replace("launch ", "launch --use_env "), "", None),
        (OLDER.replace("launch ", "launch --use-env "), "", None),
        (OLDER.replace(".launch", ".run"), "", None),
        (f"torchrun --nproc_per_node 2 train.py {CONFIG}", "", None),
        (f"accelerate launch --num_processes 2 train.py {CONFIG}", "", None),
    ],
)
def test_a_parser_that_does_not_know_what_the_launcher_adds(found, launch, script, severity):
    findings = found(launch, files={"train.py": PARSES.format(script) + PLAIN}, codes="DS866")
    assert [one["severity"] for one in findings] == ([severity] if severity else [])


@pytest.mark.parametrize(("pin", "severity"), [("==1.13.1", None), (">=1.13,<2.4", "warning"), ("==2.4.0", "error")])
def test_how_pytorch_writes_the_local_rank(found, pin, severity):
    files = {"train.py": PARSES.format(LOCAL_RANK) + PLAIN, "requirements.txt": f"deepspeed\ntorch{pin}\n"}
    findings = found(OLDER, files=files, codes="DS866")
    assert [one["severity"] for one in findings] == ([severity] if severity else [])


ARGUMENT_FILE = """\
import sys
from transformers import HfArgumentParser, Trainer, TrainingArguments
parser = HfArgumentParser(TrainingArguments)
if len(sys.argv) == 2 and sys.argv[1].endswith(".json"):
    (args,) = parser.parse_json_file(sys.argv[1])
else:
    (args,) = parser.parse_args_into_dataclasses()
Trainer(model, args).train()
"""


@pytest.mark.parametrize(
    ("launch", "is_found"),
    [
        ("deepspeed train.py args.json", True),
        ("deepspeed --no_local_rank train.py args.json", False),
        ("torchrun --nproc_per_node 2 train.py args.json", False),
        ("deepspeed train.py --output_dir out --deepspeed ds.json", False),
    ],
)
def test_a_file_of_arguments_that_is_no_longer_the_only_word(found, launch, is_found):
    arguments = dict.fromkeys(("logging_steps", "num_train_epochs", "per_device_train_batch_size", "save_steps"), 1)
    arguments |= {"output_dir": "out", "deepspeed": "ds.json", "learning_rate": 1e-5, "model_name_or_path": "m"}
    findings = found(launch, files={"train.py": ARGUMENT_FILE, "args.json": arguments}, codes="DS866")
    assert codes(findings) == ["DS866"] * is_found


def test_launches_that_differ_only_in_the_option_that_is_added(found):
    """The older launcher of PyTorch among launches by the newer one."""
    files = {"train.py": PARSES.format("") + PLAIN, "b.sh": OLDER}
    findings = found(OLDER.replace(".launch", ".run"), files=files, codes="DS866")
    assert ["b.sh:1" in one["message"] for one in findings] == [True]


@pytest.mark.parametrize(
    ("launch", "before", "is_found"),
    [
        ("deepspeed train.py corpus.txt", "corpus = sys.argv[1]", True),
        (OLDER.replace(CONFIG, "corpus.txt 3"), "corpus, steps = sys.argv[1], int(sys.argv[2])", True),
        ("torchrun --nproc_per_node 2 train.py corpus.txt", "corpus = sys.argv[1]", False),
        ("deepspeed --no_local_rank train.py corpus.txt", "corpus = sys.argv[1]", False),
        ("deepspeed train.py --corpus corpus.txt", "corpus = sys.argv[1]", False),
        ("deepspeed train.py $FILES", "corpus = sys.argv[1]", False),
        ("deepspeed train.py corpus.txt", "corpus = sys.argv[-1]", False),
        ("deepspeed train.py corpus.txt", "if len(sys.argv) == 2:\n    corpus = sys.argv[1]", False),
        ("deepspeed train.py corpus.txt", "rank = sys.argv[1].replace('--local_rank=', '')", False),
        ("deepspeed train.py corpus.txt", "corpus = [one for one in sys.argv if one[:1] != '-'][1]", False),
        ("deepspeed train.py corpus.txt", "corpus = sys.argv[1:]", False),
    ],
)
def test_a_word_that_is_taken_by_its_place(found, launch, before, is_found):
    findings = found(launch, files={"train.py": f"import sys\n{before}\n{PLAIN}"}, codes="DS866")
    assert [one["severity"] for one in findings] == ["error"] * is_found


POD = "apiVersion: v1\nkind: Pod\nspec:\n{}  containers:\n  - command: [{}]\n"
IN_POD = ", ".join(f"torchrun --nproc_per_node 8 train.py {CONFIG}".split())
SERVICE = f"services:\n  train:\n    command: torchrun --nproc_per_node 8 train.py {CONFIG}\n"


@pytest.mark.parametrize(
    ("files", "is_small"),
    [
        ({"pod.yaml": POD.format("", IN_POD)}, True),
        ({"pod.yaml": POD.format("  hostIPC: true\n", IN_POD)}, False),
        ({"compose.yaml": SERVICE}, True),
        ({"compose.yaml": f"{SERVICE}    shm_size: 8gb\n"}, False),
    ],
)
def test_containers_of_pods_and_services_have_little_shared_memory(found, files, is_small):
    assert ("DS894" in codes(found("", files=files))) == is_small
