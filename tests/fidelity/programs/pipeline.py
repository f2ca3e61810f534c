"""What a stage of a real pipeline holds: ``pipeline.py JOB``, on real ranks (Gloo), a job as JSON.

The layers are those of a small Llama, each a ``LayerSpec``. A tensor counts by the storage behind it.
"""

from __future__ import annotations

import gc
import json
import sys
from typing import Any

JOB = json.loads(sys.argv[1])

import deepspeed  # noqa: E402 - the accelerator reads the environment
import torch  # noqa: E402
import transformers  # noqa: E402
from answering import answer  # noqa: E402
from deepspeed.pipe import LayerSpec, PipelineModule, TiedLayerSpec  # noqa: E402
from deepspeed.runtime.pipe import schedule  # noqa: E402
from transformers.models.llama import modeling_llama as llama  # noqa: E402

from ds_lint.smoke.standins import ops  # noqa: E402
from tools.activations.timeline import Recorder, Timeline  # noqa: E402

CONFIG = transformers.LlamaConfig(**JOB["model"])
CONFIG._attn_implementation = "eager"
LENGTH = JOB.get("length", 6)


class Embedding(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(CONFIG.vocab_size, CONFIG.hidden_size) * 0.02)

    def forward(self, ids: Any) -> Any:
        return torch.nn.functional.embedding(ids, self.weight)


class Layer(llama.LlamaDecoderLayer):
    def __init__(self, index: int) -> None:
        super().__init__(CONFIG, index)
        self.rotary = llama.LlamaRotaryEmbedding(CONFIG)

    def forward(self, hidden: Any) -> Any:
        positions = torch.arange(hidden.shape[1])[None]
        return super().forward(hidden, position_embeddings=self.rotary(hidden, positions))


class Head(Embedding):
    def forward(self, hidden: Any) -> Any:
        return hidden @ self.weight.T


def loss(logits: Any, labels: Any) -> Any:
    return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), labels.flatten())


def main() -> None:
    torch.set_num_threads(1)
    ops.install(builds=False)
    deepspeed.init_distributed("gloo", verbose=False)
    if JOB["tied"]:
        ends = [TiedLayerSpec("words", Embedding), TiedLayerSpec("words", Embedding, forward_fn=Head.forward)]
    else:
        ends = [LayerSpec(Embedding), LayerSpec(Head)]
    layers = [LayerSpec(Layer, index) for index in range(CONFIG.num_hidden_layers)]
    norm = LayerSpec(llama.LlamaRMSNorm, CONFIG.hidden_size)
    model = PipelineModule(
        layers=[ends[0], *layers, norm, ends[1]], num_stages=JOB["stages"], loss_fn=loss, **JOB["arguments"]
    )
    engine = deepspeed.initialize(model=model, model_parameters=list(model.parameters()), config=JOB["config"])[0]
    ids = torch.ones(1, LENGTH, dtype=torch.long)
    held: dict[str, Any] = {}
    step = engine.optimizer.step

    def stepping(*arguments: Any, **named: Any) -> Any:
        held.update(_held(engine))
        return step(*arguments, **named)

    for _ in range(2):
        engine.optimizer.step = stepping
        engine.train_batch(iter([(ids, ids)] * engine.micro_batches))
    final = _held(engine)
    answer(peak=_peak(engine, ids), stage=model.stage_id, sizes=[one.numel() for one in model.parameters()],
           boundary=held, held=final, buffers=engine.num_pipe_buffers)  # fmt: skip


def _peak(engine: Any, ids: Any) -> int:
    """The most that the passes of a step hold beside parameters, their gradients and the model states."""
    parameters = list(engine.module.parameters())
    known = [one for one in gc.get_objects() if isinstance(one, torch.Tensor) and not one.is_meta]
    recorder = Recorder([*known, ids])
    ended: list[int] = []
    for parameter in parameters:
        parameter.register_post_accumulate_grad_hook(lambda one: recorder.leave_out(one.grad))
    reduce = engine._exec_reduce_grads

    def reducing() -> None:
        ended.append(recorder.moment())
        reduce()

    engine._INSTRUCTION_MAP = {
        **engine._INSTRUCTION_MAP, schedule.ReduceGrads: lambda self: reducing(),
    }  # fmt: skip
    with recorder:
        engine.train_batch(iter([(ids, ids)] * engine.micro_batches))
    return Timeline(recorder.storages(), [], ended[0], recorder.moments).peak


def _held(engine: Any) -> dict[str, int]:
    optimizer = engine.optimizer
    inner = getattr(optimizer, "optimizer", optimizer)
    parameters = list(engine.module.parameters())
    names = ("single_partition_of_fp32_groups", "fp32_groups_flat_partition", "fp32_groups_flat")
    gradients = ("averaged_gradients", "all_grad_tensors", "fp32_groups_gradients_flat", "grads_in_partition")
    seen: set[int] = set()
    return {
        "parameters": _count(parameters, seen),
        "master_weights": _count([getattr(optimizer, name, None) for name in names], seen),
        "optimizer_states": _count([list(state.values()) for state in inner.state.values()], seen),
        "gradients": _count(
            [[getattr(optimizer, name, None) for name in gradients], [one.grad for one in parameters]], seen
        ),
        "optimizer": type(optimizer).__name__,
    }


def _count(values: Any, seen: set[int]) -> int:
    if isinstance(values, torch.Tensor):
        storage = values.untyped_storage()
        if values.dim() == 0 or storage.data_ptr() in seen or not storage.nbytes():
            return 0
        seen.add(storage.data_ptr())
        return storage.nbytes()
    if isinstance(values, dict):
        values = list(values.values())
    return sum(_count(one, seen) for one in values) if isinstance(values, (list, tuple)) else 0


main()
