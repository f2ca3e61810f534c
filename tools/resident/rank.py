"""One rank of a run that is measured, and what it takes at the end of each phase.

Between two phases all ranks wait for each other. Ops of DeepSpeed that would be compiled have stand-ins, of which Adam
computes nothing: those of PyTorch would take tensors that the real kernels do without.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

COUNTED = ("most", "anonymous", "file", "shared", "proportional", "private_clean", "private_dirty")
_OF_STATUS = {"VmHWM": "most", "RssAnon": "anonymous", "RssFile": "file", "RssShmem": "shared"}
_OF_ROLLUP = {"Pss": "proportional", "Private_Clean": "private_clean", "Private_Dirty": "private_dirty"}
TOKENS = 16  # of a batch, so few that activations are small


def counted() -> dict[str, int]:
    """The bytes of this process by the kernel's counts."""
    found: dict[str, int] = {}
    for path, names in (("/proc/self/status", _OF_STATUS), ("/proc/self/smaps_rollup", _OF_ROLLUP)):
        for line in Path(path).read_text(encoding="ascii").splitlines():
            name, _, value = line.partition(":")
            if name in names:
                found[names[name]] = int(value.split()[0]) * 1024
    return found


class Phases:
    """The phases of a run, each with what this rank takes at its end."""

    def __init__(self) -> None:
        self.found: list[dict[str, Any]] = []
        self._began = time.monotonic()
        self._forget()

    def end(self, name: str) -> None:
        """End a phase; the next one begins when all ranks are there."""
        import torch.distributed as dist

        ended = time.monotonic()
        self.found.append({"phase": name, "began": self._began, "ended": ended, **counted()})
        if dist.is_initialized():
            dist.barrier()
        self._began = time.monotonic()
        self._forget()

    @staticmethod
    def _forget() -> None:
        """Let ``VmHWM`` begin again."""
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def plain(run: dict[str, Any], phases: Phases) -> None:
    """A script of one's own with ``deepspeed.initialize``."""
    import deepspeed
    import torch
    import transformers

    config = run["config"]
    is_partitioned = config["zero_optimization"]["stage"] == 3 and run.get("zero_init", True)
    kept = None
    if is_partitioned:
        from transformers.integrations import HfDeepSpeedConfig

        kept = HfDeepSpeedConfig(config)
    if run.get("folder"):
        keywords = {"dtype": getattr(torch, run["load"], run["load"])} if run.get("load") else {}
        model = transformers.AutoModelForCausalLM.from_pretrained(run["folder"], **keywords)
    else:
        made = transformers.AutoConfig.for_model(**run["model"])
        model = transformers.AutoModelForCausalLM.from_config(made, dtype=getattr(torch, run["dtype"]))
    phases.end("loading")
    del kept
    engine = deepspeed.initialize(model=model, config=config, model_parameters=model.parameters())[0]
    phases.end("initialization")
    words = torch.ones(1, TOKENS, dtype=torch.long)

    def steps() -> None:
        for _ in range(2 * engine.gradient_accumulation_steps()):
            engine.backward(engine(input_ids=words, labels=words).loss)
            engine.step()

    steps()
    phases.end("step")
    if "gathered" in run["saves"]:
        engine.save_16bit_model(run["output"])
        phases.end("saving weights")
    if "checkpoint" in run["saves"]:
        engine.save_checkpoint(run["output"], tag="one")
        phases.end("saving")
    if "resume" in run["saves"]:
        engine.load_checkpoint(run["output"], tag="one")
        phases.end("resuming")
        steps()
        phases.end("step after resuming")


def with_the_trainer(run: dict[str, Any], phases: Phases) -> None:
    """A script with the Trainer of transformers."""
    import torch
    import transformers

    class Watch(transformers.TrainerCallback):  # type: ignore[misc, unused-ignore] # a class of transformers
        """Ends the phases where the Trainer does."""

        def on_step_begin(self, _arguments: Any, state: Any, *_others: Any, **_named: Any) -> None:
            if state.global_step == 0:
                phases.end("initialization")

        def on_step_end(self, _arguments: Any, state: Any, *_others: Any, **_named: Any) -> None:
            if state.global_step == 2:  # the last one
                phases.end("step")

    words = torch.ones(TOKENS, dtype=torch.long)
    arguments = transformers.TrainingArguments(
        run["output"],
        deepspeed=run["config"],
        max_steps=2,
        save_strategy="steps" if run["saves"] else "no",
        save_steps=2,
        per_device_train_batch_size=1,
        use_cpu=True,
        bf16=run["dtype"] == "bfloat16",
        report_to=[],
        learning_rate=run["config"]["optimizer"]["params"]["lr"],
        gradient_accumulation_steps=run["config"]["gradient_accumulation_steps"],
        dataloader_num_workers=run.get("workers", 0),
        disable_tqdm=True,
    )
    phases.end("arguments")
    keywords = {"dtype": getattr(torch, run["load"], run["load"])} if run.get("load") else {}
    model = transformers.AutoModelForCausalLM.from_pretrained(run["folder"], **keywords)
    phases.end("loading")
    samples = [{"input_ids": words, "labels": words}] * 64
    trainer = transformers.Trainer(model, arguments, train_dataset=samples, callbacks=[Watch()])
    trainer.train()
    phases.end("saving" if run["saves"] else "end")


def train(run: dict[str, Any]) -> list[dict[str, Any]]:
    """Run what is said, in a process that has the variables of its rank."""
    from ds_lint.smoke.standins import kernels, ops

    phases = Phases()
    import deepspeed
    import torch

    torch.set_num_threads(1)
    ops.install(builds=False)
    kernels._adam = lambda *_arguments, **_named: None  # noqa: SLF001 - see above
    phases.end("imports")
    deepspeed.init_distributed("gloo")
    phases.end("start")
    (with_the_trainer if run["stack"] == "trainer" else plain)(run, phases)
    return phases.found
