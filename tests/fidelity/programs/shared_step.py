"""The most that a step holds beside parameters and gradients where ranks share tensors or sequences.

``shared_step.py JOB``, a job as JSON: rank 0 of a group whose other ranks are not there, with AutoTP or Ulysses of
DeepSpeed. Tensors have the sizes of a real run, whatever is in them.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

JOB = json.loads(sys.argv[1])
os.environ.update(RANK="0", WORLD_SIZE=str(JOB["ranks"]), LOCAL_RANK="0")

import deepspeed  # noqa: E402 - the accelerator reads the environment
import torch  # noqa: E402
import transformers  # noqa: E402
from answering import answer  # noqa: E402
from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: E402

from ds_lint.smoke.standins import ops  # noqa: E402
from tools.activations.timeline import record  # noqa: E402


def main() -> None:
    """Divide the model or the sequences, and take a step."""
    torch.set_num_threads(1)
    torch._dynamo.config.disable = True
    ops.install(builds=False)
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=JOB["ranks"])
    deepspeed.init_distributed(verbose=False)
    config = transformers.AutoConfig.for_model(**JOB["model"])
    config._attn_implementation = JOB["attention"]
    config.use_cache = False
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    if JOB["checkpointed"]:
        model.gradient_checkpointing_enable()
    model.train()
    length = JOB["length"]
    if JOB["way"] == "tensors":
        model = _with_tensors_divided(model)
    else:
        _divide_sequences(model)
        length //= JOB["degree"]
    ids = torch.ones(JOB["micro_batch"], length, dtype=torch.long)
    batch = {"input_ids": ids, "labels": ids, "position_ids": torch.arange(length)[None].expand(*ids.shape)}
    answer(peak=record(model, batch).peak)


def _with_tensors_divided(model: Any) -> Any:
    config = {
        "train_micro_batch_size_per_gpu": 1,
        "optimizer": {"type": "SGD", "params": {"lr": 0.1}},
        "zero_allow_untested_optimizer": True,
        "bf16": {"enabled": True, "check_grad_overflow": False},
        "tensor_parallel": {"autotp_size": JOB["degree"]},
    }
    engine = deepspeed.initialize(model=model, model_parameters=list(model.parameters()), config=config)[0]
    engine.first_dataloader_check.remove()  # compares batches with ranks that are not there
    return engine.module


def _divide_sequences(model: Any) -> None:
    from deepspeed.runtime.sequence_parallel.ulysses_sp import UlyssesSPAttentionHF

    UlyssesSPAttentionHF.register_with_transformers(
        model_name_or_path=model,
        core_attn_implementation=JOB["attention"],
        sequence_parallel_size=JOB["degree"],
        micro_batch_size=JOB["micro_batch"],
        seq_length_is_variable=True,
    )


main()
