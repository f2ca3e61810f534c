"""A run of the real Trainer: what it built, how the learning rate went, what it saved, or why it stopped.

    train({"zero_optimization": {"stage": 3}, ...}, {"lr_scheduler_type": "cosine"}).rates

One CPU rank (gloo) in a process of its own, forked from one that has imported the libraries, a tiny Llama, compiled ops
replaced by `ds_lint/smoke/standins/ops.py`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import warm

ROOT = Path(__file__).parents[2]  # where ds_lint lies
SECONDS = 240  # a run takes about ten
SIZES = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}


@dataclass
class Run:
    """What came of it. `at` is what raised: `arguments`, `Trainer`, `train`, `evaluate`, `resume`, `save`."""

    at: str | None = None
    error: str | None = None
    optimizer: str | None = None  # the class below ZeRO's
    dtype: str | None = None  # of the model's parameters, once the engine is built
    decays: list[float] = field(default_factory=list)  # the weight decay of each parameter group
    decouples: bool | None = None  # DeepSpeedCPUAdam: whether it is AdamW
    scheduler: str | None = None
    rates: list[float] = field(default_factory=list)  # before each step
    moved: list[float] = field(default_factory=list)  # how far each step moved the weights; below stage 3
    dtypes: list[str] = field(
        default_factory=list
    )  # of the weights, and of a floating-point input as the model gets it
    shapes: list[list[int]] = field(default_factory=list)  # of the saved tensors
    saved: list[str] = field(default_factory=list)  # files of the saved model
    checkpoint: list[str] = field(default_factory=list)  # files and folders of the last checkpoint


def train(
    config: dict[str, Any],
    arguments: dict[str, Any],
    *,
    evaluate: bool = False,
    frozen: bool = False,
    resume: bool = False,
    later: dict[str, Any] | None = None,
) -> Run:
    """Train four steps and save, or only evaluate.

    Of a frozen model, only the projections of the queries learn. ``resume`` trains again, from the last checkpoint.
    ``later`` are fields that the arguments get once they are made.
    """
    with tempfile.TemporaryDirectory() as folder:
        job = {
            "config": config,
            "arguments": arguments,
            "evaluate": evaluate,
            "frozen": frozen,
            "resume": resume,
            "later": later or {},
            "folder": folder,
        }
        warm.answer(_warm_parent(), job)
        result = Path(folder, "result.json")
        assert result.exists(), f"the run ended without a result:\n{Path(folder, 'log').read_text()[-3000:]}"
        return Run(**json.loads(result.read_text(encoding="utf-8")))


@cache
def _warm_parent() -> subprocess.Popen[str]:
    """The process that has imported the libraries, and forks one for each run."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "DS_ACCELERATOR": "cpu",
        "ACCELERATE_TORCH_DEVICE": "cpu",
        "TRANSFORMERS_VERBOSITY": "error",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "0",
        "HF_HUB_OFFLINE": "1",
        **dict.fromkeys(("RANK", "LOCAL_RANK", "CROSS_RANK"), "0"),
        **dict.fromkeys(("WORLD_SIZE", "LOCAL_SIZE", "LOCAL_WORLD_SIZE", "CROSS_SIZE"), "1"),
    }
    return warm.start(__file__, environment)


# ------------------------------------------------------------------------------------------------- in the process


def _work(job: dict[str, Any]) -> int:
    """Fork a process for a run; the status that it ends with."""
    child = os.fork()
    if child == 0:
        log = os.open(os.path.join(job["folder"], "log"), os.O_WRONLY | os.O_CREAT)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.chdir(job["folder"])
        signal.alarm(SECONDS)
        _main(job, Path(job["folder"], "result.json"))
    return os.waitpid(child, 0)[1]


def _main(job: dict[str, Any], result: Path) -> None:
    run = Run()
    try:
        _run(run, job)
    except Exception as error:  # what a library raises here is what is asked
        run.error = f"{type(error).__name__}: {error}"
    else:
        run.at = None
    result.write_text(json.dumps(asdict(run)), encoding="utf-8")
    os._exit(0)  # DeepSpeed's threads may outlive a run that was refused


def _run(run: Run, job: dict[str, Any]) -> None:
    import torch
    from safetensors.torch import load_file
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments

    class Tokens(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
        def __len__(self) -> int:
            return 8

        def __getitem__(self, place: int) -> dict[str, torch.Tensor]:
            tokens = torch.randint(0, 64, (8,), generator=torch.Generator().manual_seed(place))
            return {"input_ids": tokens, "labels": tokens.clone()}

    class Watch(TrainerCallback):
        def on_step_begin(self, *_arguments: Any, **_more: Any) -> None:
            run.rates.append(trainer.model_wrapped.optimizer.param_groups[0]["lr"])
            self.before = weights(trainer.model)

        def on_step_end(self, *_arguments: Any, **_more: Any) -> None:
            if stage_of(trainer.model_wrapped) < 3:  # there each parameter is whole
                run.moved.append(float((weights(trainer.model) - self.before).norm()))

    def stage_of(engine: Any) -> int:
        return int(engine.zero_optimization_stage())

    def weights(model: Any) -> Any:
        return torch.cat([parameter.detach().float().flatten().clone() for parameter in model.parameters()])

    out = Path(job["folder"], "out")
    run.at = "arguments"
    arguments = TrainingArguments(
        **{
            "output_dir": str(out),
            "deepspeed": job["config"],
            "max_steps": 4,
            "per_device_train_batch_size": 1,
            "report_to": [],
            "use_cpu": True,
            "disable_tqdm": True,
            **job["arguments"],
        }
    )
    for name, value in job["later"].items():
        setattr(arguments, name, value)
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**SIZES, num_attention_heads=2, num_key_value_heads=2))
    for name, parameter in model.named_parameters():
        parameter.requires_grad = not job["frozen"] or "q_proj" in name
    run.at = "Trainer"
    trainer = Trainer(model=model, args=arguments, train_dataset=Tokens(), eval_dataset=Tokens(), callbacks=[Watch()])
    if job["evaluate"]:
        run.at = "evaluate"
        trainer.evaluate()
        return
    run.at = "train"
    try:
        trainer.train()
    finally:
        _look_at(run, trainer.model_wrapped)
        run.dtypes = [
            str(one.dtype) for one in (next(trainer.model.parameters()), trainer._prepare_input(torch.ones(1)))
        ]
    if job["resume"]:
        run.at = "resume"
        trainer.train(resume_from_checkpoint=True)
    run.at = "save"
    trainer.save_model(str(out / "model"))
    run.saved = sorted(path.name for path in (out / "model").iterdir())
    run.checkpoint = sorted(path.name for path in (out / "checkpoint-4").glob("*"))  # none with save_strategy "no"
    for path in (out / "model").glob("*.safetensors"):
        run.shapes = [list(tensor.shape) for tensor in load_file(path).values()]


def _look_at(run: Run, engine: Any) -> None:
    if not hasattr(engine, "basic_optimizer"):
        return  # it was not built
    run.dtype = str(next(engine.module.parameters()).dtype)
    inner = engine.basic_optimizer or engine.optimizer
    run.optimizer, run.scheduler = type(inner).__name__, type(engine.lr_scheduler).__name__
    run.decays = [group.get("weight_decay", 0.0) for group in inner.param_groups]
    run.decouples = getattr(inner, "adam_w_mode", None)


def _patch() -> None:
    """Ops that would be compiled, and memory that would be pinned."""
    import deepspeed
    import torch
    import torch._dynamo

    from ds_lint.smoke.standins import ops

    ops.install(builds=False)
    accelerator = deepspeed.get_accelerator()
    accelerator.is_fp16_supported = accelerator.is_bf16_supported = lambda: True
    torch.Tensor.pin_memory = lambda tensor, device=None: tensor
    torch._dynamo.config.disable = True


if __name__ == "__main__":
    warm.serve(_work, prepare=_patch)
