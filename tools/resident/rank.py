"""One rank of a run that is measured: ``rank.py RUN``, a run as JSON; it prints what it takes at the end of each phase.

It is started as a launcher starts a rank, as a program of its own: nothing is shared with the others but the pages of
the libraries' files. Between two phases all ranks wait for each other.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

_OF_STATUS = {"VmHWM": "most", "RssAnon": "anonymous", "RssFile": "file", "RssShmem": "shared", "VmLck": "locked"}
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

    def train() -> None:
        for _ in range(2 * engine.gradient_accumulation_steps()):
            engine.backward(engine(input_ids=words, labels=words).loss)
            engine.step()

    train()
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
        train()
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
            if state.global_step == 2:  # noqa: PLR2004 - the last one
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


def main() -> None:
    """Run what the argument says."""
    run = json.loads(sys.argv[1])
    phases = Phases()
    import deepspeed
    import torch
    import transformers

    torch.set_num_threads(1)
    transformers.LlamaForCausalLM  # noqa: B018 - imports its module, as training does
    phases.end("imports")
    deepspeed.init_distributed("gloo")
    phases.end("start")
    held = os.environ.get("DS_LINT_HELD")  # to look at a run from outside
    (with_the_trainer if run["stack"] == "trainer" else plain)(run, phases)
    if held:
        time.sleep(float(held))
    sys.stdout.write(f"\n{json.dumps({'phases': phases.found})}\n")
    sys.stdout.flush()
    os._exit(0)  # what a library does at its end is not measured


if __name__ == "__main__":
    main()
