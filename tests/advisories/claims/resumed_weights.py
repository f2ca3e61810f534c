"""How far the weights after a resumed run are from those of an uninterrupted one: 0 where everything was restored.

Three optimizer steps, a checkpoint, a new engine in new processes that loads it, and three more steps. The reference
takes all six in plain torch, in fp32. The distance is printed in units of the way that the last three steps took: 1
and more is another model. Arguments: ranks that save, ranks that load, the config as JSON, and optionally: another
config for the ranks that load, merged into the first (`checkpoint.load_universal` converts the checkpoint before); and
the sizes of the layers, such as 16,16,4. Words anywhere: `trusted` lets torch 2.6 and newer load what DeepSpeed before
0.16.0 saves, `nodes` puts every rank on a machine of its own, `grouped` makes two groups of parameters, of which the
first alone decays, `counted` gives each group the counter that FusedAdam keeps there, `module` loads the weights alone
and compares with a new optimizer, `filled` has torch fill new memory with NaN, and `decay` prints the weight decay of
the last group after the checkpoint was loaded, which is 0, instead.
"""

import copy
import itertools
import json
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import deepspeed
import torch
from torch import nn

KNOWN = ("trusted", "nodes", "grouped", "counted", "module", "filled", "decay")
WORDS = [word for word in KNOWN if word in sys.argv]
sys.argv = [argument for argument in sys.argv if argument not in WORDS]
if "trusted" in WORDS:
    os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = "1"
if "filled" in WORDS:
    torch.use_deterministic_algorithms(True)
SAVING, LOADING, WRITTEN = int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3])
WRITTEN_LATER = json.loads(sys.argv[4]) if len(sys.argv) > 4 else {}
SIZES = [int(size) for size in sys.argv[5].split(",")] if len(sys.argv) > 5 else [16, 16, 4]
RATE, STEPS = 0.02, 3

CONFIG = {
    "train_micro_batch_size_per_gpu": 2,
    "zero_allow_untested_optimizer": True,
    "zero_force_ds_cpu_optimizer": False,
    "gradient_clipping": 0.0,
    "optimizer": {"type": "AdamW", "params": {"lr": RATE, "weight_decay": 0.01, "torch_adam": True}},
    **WRITTEN,
}
DTYPE = torch.bfloat16 if CONFIG.get("bf16", {}).get("enabled") else torch.float32
STAGE = CONFIG.get("zero_optimization", {}).get("stage", 0)


def new_model(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(*[nn.Linear(*pair, bias=False) for pair in itertools.pairwise(SIZES)])


def batch(step: int) -> torch.Tensor:
    return torch.randn(2, SIZES[0], generator=torch.Generator().manual_seed(step))


def new_engine(config: dict[str, Any], seed: int) -> Any:
    deepspeed.init_distributed("gloo")
    model = new_model(seed).to(DTYPE)
    return deepspeed.initialize(model=model, model_parameters=groups(model), config=config)[0]


def groups(model: nn.Module) -> list[Any]:
    first, *others = model.parameters()
    if "grouped" in WORDS:
        return [{"params": [first], "weight_decay": 1.0}, {"params": others, "weight_decay": 0.0}]
    return [{"params": [first, *others], "step": 0}] if "counted" in WORDS else [first, *others]


def train(engine: Any, first: int) -> None:
    for step in range(first, first + STEPS):
        engine.backward(engine(batch(step).to(DTYPE)).float().pow(2).mean())
        engine.step()


def save(folder: str) -> None:
    engine = new_engine(copy.deepcopy(CONFIG), seed=0)
    train(engine, 0)
    # Without this field the conversion refuses checkpoints of stages 1 and 2.
    state = {"universal_checkpoint_info": {"universal_checkpoint_version": 0.2}}
    engine.save_checkpoint(folder, tag="tag", client_state=state)


def convert(folder: str) -> None:
    from deepspeed.checkpoint import ds_to_universal

    sys.argv = ["", "--input_folder", f"{folder}/tag", "--output_folder", f"{folder}/universal"]
    sys.argv += ["--num_extract_workers", "1", "--num_merge_workers", "1"]
    if hasattr(ds_to_universal, "parse_arguments") and ds_to_universal.main.__code__.co_argcount:
        ds_to_universal.main(ds_to_universal.parse_arguments())
    else:
        ds_to_universal.main()


def load(folder: str) -> None:
    config = {**copy.deepcopy(CONFIG), **WRITTEN_LATER}
    engine = new_engine(config, seed=1)
    universal = config.get("checkpoint", {}).get("load_universal")
    alone = {"load_module_only": True, "load_optimizer_states": False} if "module" in WORDS else {}
    path, _ = engine.load_checkpoint(folder, tag="universal" if universal else "tag", **alone)
    assert path, "load_checkpoint found nothing"
    if "decay" in WORDS:
        torch.save(float(engine.optimizer.param_groups[-1]["weight_decay"]), f"{folder}/weights.pt")
        return
    train(engine, STEPS)
    parameters = list(engine.module.parameters())
    if STAGE == 3:
        with deepspeed.zero.GatheredParameters(parameters):
            weights = [one.detach().float().clone() for one in parameters]
    else:
        weights = [one.detach().float().clone() for one in parameters]
    if not int(os.environ["RANK"]):
        torch.save(weights, f"{folder}/weights.pt")


def run(ranks: int, function: Callable[[str], None], folder: str) -> None:
    """Run it in so many new processes, and end with them all as soon as one fails."""
    port = str(random.SystemRandom().randint(20000, 59000))

    def one(rank: int) -> None:
        local_rank, local_size = (0, 1) if "nodes" in WORDS else (rank, ranks)
        local = {"RANK": rank, "LOCAL_RANK": local_rank, "WORLD_SIZE": ranks, "LOCAL_SIZE": local_size}
        os.environ.update(
            {name: str(value) for name, value in local.items()}, MASTER_ADDR="127.0.0.1", MASTER_PORT=port
        )
        function(folder)
        sys.stdout.flush()
        os._exit(0)

    processes = [multiprocessing.get_context("fork").Process(target=one, args=(rank,)) for rank in range(ranks)]
    for process in processes:
        process.start()
    while any(process.is_alive() for process in processes) and not any(process.exitcode for process in processes):
        time.sleep(0.05)
    failed = any(process.exitcode for process in processes)
    for process in processes:
        if failed:
            process.kill()
        process.join()
    if failed:
        sys.exit(1)


def reference() -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    model = new_model(0)
    options = {name: value for name, value in CONFIG["optimizer"]["params"].items() if name != "torch_adam"}
    optimizer = getattr(torch.optim, CONFIG["optimizer"]["type"])(groups(model), **options)
    for step in range(2 * STEPS):
        if step == STEPS:
            before = [one.detach().clone() for one in model.parameters()]
            if "module" in WORDS:
                optimizer = getattr(torch.optim, CONFIG["optimizer"]["type"])(groups(model), **options)
        optimizer.zero_grad()
        model(batch(step)).pow(2).mean().backward()
        optimizer.step()
    return before, [one.detach() for one in model.parameters()]


with tempfile.TemporaryDirectory() as place:
    run(SAVING, save, place)
    if WRITTEN_LATER.get("checkpoint", {}).get("load_universal"):
        run(1, convert, place)
    run(LOADING, load, place)
    loaded = torch.load(f"{place}/weights.pt")
if "decay" in WORDS:
    print(f"{loaded:.3f}")
    sys.exit()
resumed = torch.cat([one.flatten() for one in loaded])
start, true = [torch.cat([one.flatten() for one in part]) for part in reference()]
print(f"{float((resumed - true).norm() / (true - start).norm()):.3f}")
