"""What a script does with a config where Accelerate or the Trainer stands between it and DeepSpeed.

    Oracle().verdict(config, script=partial(trainer_script, fields={"learning_rate": 1e-4}))

A script runs in a child of the oracle. It gets the config and a function that it tells which stage begins, and returns
facts about the run.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

HIDDEN = 16  # the hidden size of both models
SAMPLES = 64
STEPS = 2  # optimizer steps of a run
TOTAL_STEPS = 100  # what the schedules are made for
LEARNING_RATE = 1e-3

Enter = Callable[[str], None]


def accelerate_script(config: dict[str, Any], enter: Enter) -> dict[str, Any]:
    """A loop as Accelerate's guide to DeepSpeed writes it: what the config has, a dummy stands for."""
    import torch
    from accelerate import Accelerator
    from accelerate.utils import DeepSpeedPlugin, DummyOptim, DummyScheduler

    accelerator = Accelerator(deepspeed_plugin=DeepSpeedPlugin(hf_ds_config=config))
    written = accelerator.state.deepspeed_plugin.deepspeed_config
    model = torch.nn.Sequential(torch.nn.Linear(HIDDEN, HIDDEN), torch.nn.LayerNorm(HIDDEN))
    model.config = SimpleNamespace(hidden_size=HIDDEN)
    make = DummyOptim if "optimizer" in written else torch.optim.AdamW
    optimizer = make(model.parameters(), lr=LEARNING_RATE)
    if "scheduler" in written:
        scheduler = DummyScheduler(optimizer, total_num_steps=TOTAL_STEPS, warmup_num_steps=1)
    else:
        scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _step: 1.0) if make is not DummyOptim else None
    samples = torch.utils.data.DataLoader(torch.randn(SAMPLES, HIDDEN), batch_size=1)
    prepared = accelerator.prepare(model, optimizer, samples, *([] if scheduler is None else [scheduler]))
    model, optimizer, samples = prepared[:3]
    enter("train")
    while model.global_steps < STEPS:
        before = model.micro_steps
        for batch in samples:
            with accelerator.accumulate(model):
                inputs = batch.to(next(model.parameters()).dtype).requires_grad_()
                accelerator.backward(model(inputs).float().pow(2).mean())
                optimizer.step()
                for one in prepared[3:]:
                    one.step()
                optimizer.zero_grad()
            if model.global_steps >= STEPS or model.micro_steps - before > 10 * SAMPLES:
                break
        if model.global_steps == 0:
            break  # more accumulation than is worth waiting for
    return {"steps": model.global_steps}


def trainer_script(config: dict[str, Any], enter: Enter, *, fields: dict[str, Any]) -> dict[str, Any]:
    """A script that gives the Trainer a config and training arguments."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments

    class Tokens(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
        def __len__(self) -> int:
            return SAMPLES

        def __getitem__(self, place: int) -> dict[str, torch.Tensor]:
            tokens = torch.arange(place, place + 8) % 64
            return {"input_ids": tokens, "labels": tokens.clone()}

    class Stages(TrainerCallback):  # type: ignore[misc, unused-ignore]
        def on_train_begin(self, *_arguments: Any, **_more: Any) -> None:
            enter("train")

        def on_step_end(self, _arguments: Any, state: Any, control: Any, **_more: Any) -> None:
            control.should_training_stop = state.global_step >= STEPS

    own = {"output_dir": os.path.abspath("out"), "report_to": [], "use_cpu": True, "disable_tqdm": True}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        arguments = TrainingArguments(
            **{**own, "save_strategy": "no", "max_steps": TOTAL_STEPS, **fields}, deepspeed=config
        )
    size = {"vocab_size": 64, "hidden_size": HIDDEN, "intermediate_size": 16, "num_hidden_layers": 1}
    model = LlamaForCausalLM(LlamaConfig(**size, num_attention_heads=2, num_key_value_heads=2))
    trainer = Trainer(model=model, args=arguments, train_dataset=Tokens(), callbacks=[Stages()])
    trainer.train()
    return {"steps": trainer.state.global_step}
