"""Engines as Megatron-DeepSpeed makes them: what becomes of each, as JSON. The name of what is tried is the word."""

import json
import os
import sys

os.environ.update(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", DS_ACCELERATOR="cpu")

import deepspeed
import torch
from deepspeed.pipe import PipelineModule

deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # would be compiled
SAMPLES = 8


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1, bias=False)

    def forward(self, inputs):
        return self.layer(inputs).mean()


def engine_of(config, model):
    config = {**config, "gradient_clipping": 0.0, "zero_allow_untested_optimizer": True}
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    return deepspeed.initialize(model=model, optimizer=optimizer, config=config)[0]


def pipeline(stage):
    """A pipeline of one stage."""
    model = PipelineModule([torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)], num_stages=1, loss_fn=torch.nn.MSELoss())
    engine_of({"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": stage}}, model)


def micro_batches(of_config):
    """``train_step`` with micro-batches of 2 samples: how much the weights change, of what the gradient is."""
    engine = engine_of({"train_micro_batch_size_per_gpu": of_config}, Model())
    before = engine.module.layer.weight.detach().clone()
    engine.set_train_batch_size(SAMPLES)
    inputs = torch.arange(SAMPLES * 4.0).reshape(SAMPLES, 4)
    parts = inputs.split(2)
    for place, part in enumerate(parts):
        engine.set_gradient_accumulation_boundary(place + 1 == len(parts))
        engine.backward(engine(part))
    engine.step()
    change = before - engine.module.layer.weight.detach()
    return (change / inputs.mean(0)).mean().item()


def zero_init(stage):
    """A model that ``zero.Init`` has made, as ``--zero-stage 3`` has it, with the stage of the config."""
    config = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": stage}}
    with deepspeed.zero.Init(config_dict_or_path=config):
        model = Model()
    engine = engine_of(config, model)
    engine.backward(engine(torch.ones(2, 4)))
    engine.step()


def precision(section):
    """A model in the dtype that is not the one of the config."""
    engine = engine_of({"train_micro_batch_size_per_gpu": 1, section: {"enabled": True}}, Model().half())
    return str(engine.module.layer.weight.dtype).removeprefix("torch.")


def cpu_adam():
    """DeepSpeedCPUAdam with parameters that are not on the CPU."""
    parameter = torch.nn.Parameter(torch.ones(4, device="meta"))
    parameter.grad = torch.ones(4, device="meta")
    optimizer = deepspeed.ops.adam.DeepSpeedCPUAdam.__new__(deepspeed.ops.adam.DeepSpeedCPUAdam)
    torch.optim.Optimizer.__init__(optimizer, [parameter], {"amsgrad": False})
    deepspeed.ops.adam.DeepSpeedCPUAdam.step(optimizer)


CASES = {
    "pipeline": [(pipeline, stage) for stage in (1, 2, 3)],
    "micro_batches": [(micro_batches, size) for size in (2, 1, 4, 3)],
    "zero_init": [(zero_init, stage) for stage in (1, 2)],
    "precision": [(precision, "bf16")],
    "cpu_adam": [(cpu_adam,)],
}


def result(function, *arguments):
    try:
        return function(*arguments)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


deepspeed.init_distributed()
print(json.dumps([result(*case) for case in CASES[sys.argv[1]]]))
sys.stdout.flush()
os._exit(0)  # the threads of Gloo can abort an interpreter that ends
