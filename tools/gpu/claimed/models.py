"""The models of the runs: each small, with its batch, and made from nothing but a seed."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

WIDTH = 64
_SEED = 20


class Task(NamedTuple):
    """A model and what it computes its loss of."""

    model: Any
    batch: dict[str, Any]

    def loss(self, engine: Any) -> Any:
        """The loss of the batch; ``engine`` is the model, or what wraps it."""
        output = engine(**self.batch)
        return output.loss if hasattr(output, "loss") else output


def make(name: str, device: str, *, factor: float = 1.0, dtype: str = "float32") -> Task:
    """A model by its name; ``dtype`` is that of inputs with a fraction, which DeepSpeed does not cast."""
    torch.manual_seed(_SEED)
    given = _FACTORIES[name](factor)
    return Task(given.model, {key: _placed(value, device, dtype) for key, value in given.batch.items()})


def llama() -> Any:
    """A small Llama; it is made in fp32."""
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": WIDTH, "intermediate_size": 2 * WIDTH, "num_attention_heads": 4, "num_key_value_heads": 4}
    return LlamaForCausalLM(LlamaConfig(vocab_size=128, num_hidden_layers=2, **sizes))


class Plain(torch.nn.Module):  # type: ignore[misc]
    """A loss whose gradient is known: that of each weight is its input, the same for all."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((4, 4), 1 / 16))

    def forward(self, data: Any) -> Any:
        """The sum of the weights times their input."""
        return (self.weight * data).sum()


class Layers(torch.nn.Module):  # type: ignore[misc]
    """Matrices with GELUs between them, whose arithmetic is the same each time, on a GPU too."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(count))

    def forward(self, data: Any) -> Any:
        """The mean square of the output."""
        for layer in self.layers:
            data = torch.nn.functional.gelu(layer(data))
        return data.float().pow(2).mean()


class Sleep(torch.autograd.Function):  # type: ignore[misc]
    """Work that takes a GPU a tenth of a second, and the CPU nothing: in the forward pass, and in the backward pass."""

    CYCLES = 2 * 10**8

    @classmethod
    def now(cls, data: Any) -> None:
        """Queue the work."""
        if data.is_cuda:
            torch.cuda._sleep(cls.CYCLES)  # noqa: SLF001 - what torch's own tests wait with

    @staticmethod
    def forward(_ctx: Any, data: Any) -> Any:
        """Hand on what comes in."""
        Sleep.now(data)
        return data.clone()

    @staticmethod
    def backward(_ctx: Any, gradient: Any) -> Any:
        """Hand on what comes back."""
        Sleep.now(gradient)
        return gradient


class Slow(Layers):
    """A model whose passes end long after the CPU has launched them."""

    def forward(self, data: Any) -> Any:
        """The loss, with work for the GPU before it, whose part in the backward pass comes last."""
        return super().forward(Sleep.apply(data.requires_grad_()))


def _of_llama(factor: float) -> Task:
    ids = torch.randint(0, 128, (1, 16))
    return Task(llama(), {"input_ids": ids, "labels": ids})


def _of_huge_activations(factor: float) -> Task:
    """Activations of some 1e6, as in families that were trained in bf16; all weights fit into fp16."""
    task = _of_llama(factor)
    with torch.no_grad():
        task.model.model.layers[0].mlp.up_proj.weight.fill_(1e3)
        task.model.model.layers[0].mlp.down_proj.weight.fill_(1e3)
    return task


def _of_layers(width: int, count: int) -> Task:
    return Task(Layers(width, count), {"data": torch.randn(8, width)})


_FACTORIES: dict[str, Any] = {
    "llama": _of_llama,
    "huge activations": _of_huge_activations,
    "plain": lambda factor: Task(Plain(), {"data": torch.full((4, 4), factor)}),
    "layers": lambda _factor: _of_layers(WIDTH, 2),
    "wide": lambda _factor: _of_layers(640, 2),  # 1.6 MB a matrix: from 1 MB on, states go to NVMe
    "large": lambda factor: _of_layers(int(factor), 6),
    "slow": lambda _factor: Task(Slow(WIDTH, 2), {"data": torch.randn(8, WIDTH)}),
}


def _placed(value: Any, device: str, dtype: str) -> Any:
    return value.to(device, getattr(torch, dtype)) if value.is_floating_point() else value.to(device)
