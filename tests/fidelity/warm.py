"""What a process imports that forks others, so that these start warm; each calls `freeze` when it is done."""

from __future__ import annotations

import contextlib
import gc


def import_deepspeed() -> None:
    """DeepSpeed with what deepspeed.initialize imports later."""
    import deepspeed.runtime.bf16_optimizer
    import deepspeed.runtime.engine
    import deepspeed.runtime.zero.stage3
    import deepspeed.runtime.zero.stage_1_and_2

    with contextlib.suppress(ImportError):  # since 0.17.6; every ZeRO optimizer imports it
        import deepspeed.runtime.zero.muon.muon_optimizer  # noqa: F401 - compiles for seconds at import


def import_stacks() -> None:
    """Accelerate and the Trainer; transformers imports most of itself only when a name is asked for."""
    with contextlib.suppress(ImportError):  # what is missing, a run says itself
        import accelerate.utils.deepspeed  # noqa: F401
        import safetensors.torch  # noqa: F401
        from transformers import AutoModelForCausalLM, LlamaForCausalLM, Trainer, TrainingArguments  # noqa: F401


def freeze() -> None:
    """Let the collections of the forked processes leave the shared pages alone."""
    gc.collect()
    gc.freeze()
