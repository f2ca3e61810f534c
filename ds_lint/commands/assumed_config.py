"""The run of ``ds-lint memory`` without a config: what the facts tell, and what is assumed beside them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ds_lint.commands.launched_configs import LaunchedConfig
from ds_lint.diagnostics.amounts import GIB
from ds_lint.diagnostics.finding import LOADERS
from ds_lint.facts import own_arguments
from ds_lint.facts.parameter_count import stand_in
from ds_lint.footprint import kernels
from ds_lint.footprint.capacity import USUAL_HOST
from ds_lint.footprint.largest import positions
from ds_lint.semantics import configs

if TYPE_CHECKING:
    from ds_lint.facts import Facts
    from ds_lint.knowledge.records import JsonObject
    from ds_lint.session.session import Session

NAME = "no config"
_OPTIMIZER = "AdamW"
_PARAMETERS = 7 * 10**9
_TOKENS = 2048  # of a sequence; LLaMA-Factory cuts at so many


def assumed_config(session: Session, *, asks_for_model: bool) -> LaunchedConfig:
    """The config without offload at stage 0, from which a sweep makes all others.

    Who asks for the largest model need not name one.
    """
    basis = session.context(os.path.join(os.curdir, "ds_config.json")).basis.but(policies=())
    if basis.stack is None:
        basis = basis.but(stack="trainer")
    facts = basis.facts
    if facts.training is None and facts.micro_batch is None:
        facts = facts.copy()
        facts.micro_batch = 1
    if facts.model is None and asks_for_model:
        facts = facts.copy()
        facts.model = stand_in(_PARAMETERS)
    if own_arguments.sequence_length(facts) is None:
        facts = facts.copy()
        facts.sequence_length = min(_TOKENS, _positions(facts) or _TOKENS)
    basis = basis.but(facts=facts)
    config = configs.from_dict(_config(facts), basis)
    config.document.path = NAME
    return LaunchedConfig(config)


def needed(facts: Facts) -> str | None:
    """What a run without a config lacks, in a sentence; None if it lacks nothing."""
    lacks = [
        option
        for option, known in (
            ("--model (or --parameters; or --largest, for the largest model)", facts.model),
            ("--world-size", facts.world_size),
        )
        if known is None
    ]
    if not lacks:
        return None
    return (
        "memory needs a config, or a file that launches training; to compare all stages without one, "
        f"set {' and '.join(lacks)}"
    )


def assumptions(session: Session, one: LaunchedConfig) -> tuple[str, ...]:
    """What is assumed of the run, with the options that say otherwise."""
    given, facts = session.context(os.path.join(os.curdir, "ds_config.json")).basis, one.config.facts
    assumed = []
    if given.facts.model is None:
        assumed.append(f"{_PARAMETERS // 10**9} billion parameters for the figures (--model)")
    if given.stack is None:
        assumed.append(f"{LOADERS['trainer']} (--stack)")
    if facts.training is None:
        assumed.append(f"{_precision(facts)} (--trainer-args)")
    if facts.named_optimizer is None and facts.training is None:
        assumed.append(f"{_OPTIMIZER} (--optimizer)")
    if kernels.of(one.config).is_assumed:
        assumed.append("the kernels of transformers (--kernels)")
    if given.facts.micro_batch is None and facts.training is None:
        assumed.append("micro batch 1 for the figures (--micro-batch)")
    if own_arguments.sequence_length(given.facts) is None:
        assumed.append(f"{facts.sequence_length} tokens for the figures (--sequence-length)")
    if facts.gpu is not None and facts.host_memory is None:
        assumed.append(f"at most {USUAL_HOST // GIB} GiB of host memory for each GPU (--host-memory)")
    return tuple(assumed)


def _positions(facts: Facts) -> int | None:
    """The tokens that the model has positions for."""
    return positions(facts.model.config) if facts.model is not None and facts.model.config is not None else None


def _config(facts: Facts) -> JsonObject:
    """With training arguments, all that they decide is theirs."""
    zero: JsonObject = {"zero_optimization": {"stage": 0}}
    if facts.training is not None:
        sizes: JsonObject = dict.fromkeys(("train_micro_batch_size_per_gpu", "gradient_accumulation_steps"), "auto")
        return {"bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"}, **sizes, **zero}
    return {_precision(facts): {"enabled": True}, "optimizer": {"type": _OPTIMIZER}, **zero}


def _precision(facts: Facts) -> str:
    """The 16-bit type that the GPU computes in."""
    return "bf16" if facts.gpu is None or facts.gpu.supports_bf16 else "fp16"
