"""What rules say about the environment variables of a launch, and where they are silent."""

from __future__ import annotations

import json

import pytest
from command_line import write_into

from ds_lint.cli import run
from ds_lint.knowledge.environment import is_known, meant

STAGE_2 = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2}}
TRAIN = "train.py --deepspeed_config ds.json"
DEEPSPEED = f"deepspeed --num_gpus 2 {TRAIN}"
SCRIPT = "import deepspeed\nengine, *_ = deepspeed.initialize(model=model, config='ds.json')\n"
RANKS = "MASTER_ADDR=localhost MASTER_PORT=29501 RANK=0 LOCAL_RANK=0"


@pytest.fixture
def found(monkeypatch, capsys, tmp_path):
    """A function that says which rules about variables find something in a project, and where."""
    monkeypatch.chdir(tmp_path)

    def check(launch, files=None, config=STAGE_2):
        write_into(tmp_path)({"ds.json": config, "run.sh": launch, **(files or {})})
        run(["check", ".", "--output-format", "json"])
        report = json.loads(capsys.readouterr().out)
        return [one for one in report["findings"] if one["code"] in ("DS888", "DS889", "DS890", "DS891", "DS892")]

    return check


def codes(findings):
    return [finding["code"] for finding in findings]


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("NCCL_SOKET_IFNAME", "NCCL_SOCKET_IFNAME"),
        ("NCCL_SOCKET_IF_NAME", "NCCL_SOCKET_IFNAME"),
        ("NCCL_IB_DISBALE", "NCCL_IB_DISABLE"),
        ("NCCL_DISABLE_IB", "NCCL_IB_DISABLE"),
        ("NCLL_DEBUG", "NCCL_DEBUG"),
        ("nccl_debug", "NCCL_DEBUG"),
        ("CUDA_VISIBLE_DEVICE", "CUDA_VISIBLE_DEVICES"),
        ("CUDA_LAUNCH_BLOKING", "CUDA_LAUNCH_BLOCKING"),
        ("PYTORCH_CUDA_ALLOCATION_CONF", "PYTORCH_CUDA_ALLOC_CONF"),
        ("PYTOCH_CUDA_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"),
        ("ACCELERATE_DEEPSPEED_ZERO_STAG", "ACCELERATE_DEEPSPEED_ZERO_STAGE"),
        ("TORCH_DISTRIBUTED_DEBUGG", "TORCH_DISTRIBUTED_DEBUG"),
        ("OMP_NUM_THREAD", "OMP_NUM_THREADS"),
        ("TOKENIZER_PARALLELISM", "TOKENIZERS_PARALLELISM"),
        ("MASTER_ADDRESS", "MASTER_ADDR"),
        ("WORLD_SZIE", "WORLD_SIZE"),
    ],
)
def test_a_slip_is_known_by_what_was_meant(name, known):
    assert meant(name) == known


@pytest.mark.parametrize(
    "name",
    [
        "NCCL_IBEXT_DISABLE",  # of a plugin
        "NCCL_FASTRAK_CTRL_DEV",
        "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME",
        "NCCL_VERSION",  # of NVIDIA's images
        "CUDA_VERSION",
        "CUDA_ROOT",
        "MASTER_IP",
        "DS_CONFIG",
        "HF_CACHE",
        "OUTPUT_DIR",
        "RANK",
        "HIP_VISIBLE_DEVICES",
        "HCCL_SOCKET_IFNAME",
        "NCCL_ASYNC_ERROR_HANDLING",  # of older releases
        "TORCH_NCCL_ASYNC_ERROR_HANDLING",
        "TRANSFORMERS_CACHE",
        "HF_DATASETS_CACHE",
        "FSDP_CPU_RAM_EFFICIENT_LOADING",
        "CUDA_DEVICE_MAX_CONNECTIONS",
    ],
)
def test_no_slip(name):
    assert meant(name) is None


@pytest.mark.parametrize("name", ["NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_BLOCKING_WAIT", "PYTORCH_ALLOC_CONF"])
def test_a_name_of_some_release_is_known(name):
    assert is_known(name)


@pytest.mark.parametrize(
    ("launch", "files"),
    [
        (f"export NCCL_IB_DISBALE=1\n{DEEPSPEED}", {}),
        (f"NCCL_IB_DISBALE=1\nexport NCCL_IB_DISBALE\n{DEEPSPEED}", {}),
        (f"NCCL_IB_DISBALE=1 {DEEPSPEED}", {}),
        (f"env NCCL_IB_DISBALE=1 {DEEPSPEED}", {}),
        (f"mpirun -np 2 -x NCCL_IB_DISBALE=1 python {TRAIN}", {}),
        (f"docker run -e NCCL_IB_DISBALE=1 image {DEEPSPEED}", {}),
        (f"srun --export=ALL,NCCL_IB_DISBALE=1 torchrun --nproc_per_node 2 {TRAIN}", {}),
        (f"#!/bin/bash\n#SBATCH --export=ALL,NCCL_IB_DISBALE=1\n{DEEPSPEED}", {}),
        (f"set -a\nsource .env\nset +a\n{DEEPSPEED}", {".env": "NCCL_IB_DISBALE=1\n"}),
        (f"source env.sh\n{DEEPSPEED}", {"env.sh": "export NCCL_IB_DISBALE=1\n"}),
        (DEEPSPEED, {"train.py": f"import os\nos.environ['NCCL_IB_DISBALE'] = '1'\n{SCRIPT}"}),
        (
            f"deepspeed --hostfile hosts {TRAIN}",
            {".deepspeed_env": "NCCL_IB_DISBALE=1\n", "hosts": "a slots=1\nb slots=1\n"},
        ),
        (DEEPSPEED, {"train.py": f"import os\nos.environ.setdefault('NCCL_IB_DISBALE', '1')\n{SCRIPT}"}),
        ("", {"Dockerfile": f"FROM image\nENV NCCL_IB_DISBALE=1\nCMD {DEEPSPEED}\n"}),
    ],
)
def test_a_misspelled_variable_is_found_where_it_is_set(found, launch, files):
    """DS888."""
    (finding,) = found(launch, files)
    path = finding["path"]
    text = {"run.sh": launch, **files}[path.removeprefix("./")]
    start, end = finding["span"]["start"]["offset"], finding["span"]["end"]["offset"]
    assert (finding["code"], text[start:end]) == ("DS888", "NCCL_IB_DISBALE")
    assert "NCCL_IB_DISABLE" in finding["help"]


@pytest.mark.parametrize(
    ("launch", "files"),
    [
        (f"export NCCL_IB_DISABLE=1 OUTPUT=/tmp CLUSTER_NCCL=1\n{DEEPSPEED}", {}),
        (f"source .env\n{DEEPSPEED}", {".env": "NCCL_IB_DISBALE=1\n"}),
        (f"set -a\nset +a\nNCCL_IB_DISBALE=1\n{DEEPSPEED}", {}),
        (f"set -- -a\nNCCL_IB_DISBALE=1\n{DEEPSPEED}", {}),
        (f"set -euo pipefail\nNCCL_IB_DISBALE=1\n{DEEPSPEED}", {}),
        (f"NCCL_IB_DISBALE=1\n{DEEPSPEED}", {}),  # which the launch does not get
        (f"export CUDA_VISIBLE_DEVICE=0,1\ndeepspeed --include localhost:$CUDA_VISIBLE_DEVICE {TRAIN}", {}),
        (f"export NCCL_IB_DISBALE=1\n{DEEPSPEED}", {"other.py": "import os\nprint(os.environ['NCCL_IB_DISBALE'])\n"}),
        (f"export NCCL_IB_DISBALE=1\n{DEEPSPEED}", {"x/y.sh": 'if [ "${NCCL_IB_DISBALE}" = 1 ]; then :; fi\n'}),
        (f"export NCCL_IB_DISBALE=1\n{DEEPSPEED}", {"train.py": f"import os\nos.getenv('NCCL_IB_DISBALE')\n{SCRIPT}"}),
    ],
)
def test_no_variable_is_misspelled(found, launch, files):
    """DS888 is silent."""
    assert found(launch, files) == []


@pytest.mark.parametrize(
    ("variable", "code"),
    [
        ("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:true", "DS889"),
        ("PYTORCH_CUDA_ALLOC_CONF=max_split_size:512", "DS889"),
        ("PYTORCH_ALLOC_CONF=expandable_segments=True", "DS889"),
        ("TORCH_DISTRIBUTED_DEBUG=DETIAL", "DS889"),
        ("DS_ACCELERATOR=gpu", "DS889"),
        ("DEEPSPEED_TIMEOUT=1h", "DS889"),
        ("ACCELERATE_DEEPSPEED_ZERO_STAGE=3", "DS890"),
        ("ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE=cpu", "DS890"),
        ("ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE=none", None),
        ("ACCELERATE_DEEPSPEED_ZERO_STAGE=2", None),
        ("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,max_split_size_mb:128", None),
        ("PYTORCH_CUDA_ALLOC_CONF=$CONF", None),
        ("TORCH_DISTRIBUTED_DEBUG=INFO", None),
        ("DS_ACCELERATOR=cuda", None),
        ("TORCH_CUDA_ARCH_LIST=9.0a", None),  # without an optimizer that DeepSpeed builds
        ("MASTER_PORT=29501", "DS891"),
        ("MASTER_PORT=29500", None),
        ("MASTER_PORT=$RANDOM", None),
        ("WORLD_SIZE=8", "DS891"),
        ("WORLD_SIZE=2", None),
    ],
)
def test_a_value(found, variable, code):
    assert codes(found(f"export {variable}\n{DEEPSPEED}")) == ([] if code is None else [code])


@pytest.mark.parametrize(
    ("statement", "is_found"),
    [
        ("os.environ['PYTORCH_CUDA_ALLOC_CONF'] = 'expandable_segments:True'", False),  # in its place
        ("os.environ.setdefault('PYTORCH_CUDA_ALLOC_CONF', 'expandable_segments:True')", True),
    ],
)
def test_a_script_may_replace_a_value(found, statement, is_found):
    """DS889."""
    script = f"import os\n{statement}\n{SCRIPT}"
    launch = f"export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:true\n{DEEPSPEED}"
    assert codes(found(launch, {"train.py": script})) == (["DS889"] if is_found else [])


def test_a_default_of_a_script_is_not_taken_beside_a_variable(found):
    """DS889 is silent."""
    script = f"import os\nos.environ.setdefault('PYTORCH_CUDA_ALLOC_CONF', 'expandable_segments:true')\n{SCRIPT}"
    launch = f"export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n{DEEPSPEED}"
    assert found(launch, {"train.py": script}) == []


@pytest.mark.parametrize(("value", "is_found"), [("9.0a", True), ('"8.0;9.0+PTX"', False), ("$ARCH", False)])
def test_an_architecture_with_a_letter(found, value, is_found):
    """DS889."""
    config = {**STAGE_2, "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}}}
    findings = found(f"export TORCH_CUDA_ARCH_LIST={value}\n{DEEPSPEED}", config=config)
    assert codes(findings) == (["DS889"] if is_found else [])


@pytest.mark.parametrize(
    "launch",
    [
        f"export MASTER_PORT=29501\ndeepspeed --num_gpus 2 --master_port $MASTER_PORT {TRAIN}",
        f"export MASTER_PORT=29501\ntorchrun --standalone --nproc_per_node 2 {TRAIN}",
        f"export WORLD_SIZE=16\ntorchrun --nnodes $((WORLD_SIZE / 8)) --nproc_per_node 8 {TRAIN} $WORLD_SIZE",
        f"export MASTER_PORT=29501\npython {TRAIN}",
    ],
)
def test_a_variable_that_the_script_uses_is_not_overwritten(found, launch):
    """DS891 is silent."""
    assert [one for one in found(launch) if one["code"] == "DS891"] == []


@pytest.mark.parametrize(
    ("launch", "code"),
    [
        (f"export {RANKS} WORLD_SIZE=1 MASTER_PORT=29xxx\npython {TRAIN}", ["DS889"]),
        (f"export {RANKS} WORLD_SIZE=1 MASTER_PORT=29500\npython {TRAIN}", []),
    ],
)
def test_a_port_is_a_number(found, launch, code):
    """DS889."""
    assert codes(found(launch, {"train.py": SCRIPT})) == code


@pytest.mark.parametrize(
    ("launch", "files", "is_found"),
    [
        (f"export {RANKS} WORLD_SIZE=2\npython {TRAIN}", {}, True),
        (f"{RANKS} WORLD_SIZE=2 python {TRAIN}", {}, True),
        (f"{RANKS} WORLD_SIZE=1 python {TRAIN}", {}, False),
        (f"{RANKS} WORLD_SIZE=2 python {TRAIN} &\nRANK=1 python {TRAIN}", {}, False),
        (f"export {RANKS} WORLD_SIZE=2\npython {TRAIN}", {"one.sh": f"RANK=1 python {TRAIN}\n"}, False),
        (f"export {RANKS} WORLD_SIZE=2 MASTER_ADDR=node1\npython {TRAIN}", {}, False),
        (f"export {RANKS} WORLD_SIZE=2 RANK=$1\npython {TRAIN}", {}, False),
    ],
)
def test_one_process_of_several(found, launch, files, is_found):
    """DS892."""
    assert codes(found(launch, {"train.py": SCRIPT, **files})) == (["DS892"] if is_found else [])
