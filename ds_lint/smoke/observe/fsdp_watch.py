"""Watches one rank that trains with FSDP: the model's passes, the optimizer's steps, and what the ranks send.

It needs neither accelerate nor the Trainer: it is given the model and the optimizer of a loop, and puts hooks on them.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any

import torch

from ds_lint.diagnostics.verdict import Held, Step
from ds_lint.smoke.observe import fsdp_optimizer, fsdp_shards, probes
from ds_lint.smoke.observe.layers import Layers
from ds_lint.smoke.records.fsdp import FsdpEvidence, plain_name
from ds_lint.smoke.wrapping import around

if TYPE_CHECKING:
    from collections.abc import Callable

    from ds_lint.smoke.observe.fsdp_recording import FsdpRecording
    from ds_lint.smoke.records.job import Evidence

# What sends gradients; the second since torch 2.13.
_REDUCING = ("reduce_scatter_tensor", "reduce_scatter_single", "all_reduce")


class FsdpWatch:
    """Fills the evidence of one rank while its model trains; ``enter`` says which phase the rank is in."""

    def __init__(self, evidence: Evidence, enter: Callable[[str], None], recording: FsdpRecording | None) -> None:
        self.evidence = evidence
        self.enter = enter
        self.seen = evidence.fsdp = FsdpEvidence()
        self.recording = recording
        self.model: Any = None
        self.optimizer: Any = None
        self._shapes: dict[str, torch.Size] = {}  # of the whole parameters
        self._owners: list[tuple[str, str, str]] = []  # module, attribute and name of each parameter
        self._places: list[tuple[Any, str, str]] = []  # the same with the module as the loop has it
        self._losses: list[float] = []
        self._samples: list[int] = []
        self._layers: Layers | None = None
        self._passes = 0
        self._rates: list[float] = []
        self._squares = 0.0
        self._is_updated = False
        self._is_in_backward = False

    def built(self, model: Any, wanted: list[str]) -> None:
        """The model before it is sharded, and the modules that are to become units."""
        self.seen.wanted = wanted
        self._owners = [
            (module_name, name, f"{module_name}.{name}" if module_name else name)
            for module_name, module in model.named_modules()
            for name, _ in module.named_parameters(recurse=False)
        ]
        self._shapes = {name: one.shape for name, one in model.named_parameters()}
        first = self._shapes.keys()  # of tied names, the first
        self._owners = [one for one in self._owners if one[2] in first]

    def prepared(self, model: Any, optimizer: Any) -> None:
        """The model and the optimizer as the loop has them."""
        self.model, self.optimizer = model, _innermost(optimizer)
        model.register_forward_pre_hook(self._before_forward, with_kwargs=True)
        model.register_forward_hook(self._after_forward, with_kwargs=True)
        modules = {plain_name(name): module for name, module in model.named_modules(remove_duplicate=False)}
        by_module: dict[str, list[tuple[str, str]]] = {}
        for module_name, attribute, name in self._owners:
            by_module.setdefault(module_name, []).append((attribute, name))
        self._places = [(modules[module_name], attribute, name) for module_name, attribute, name in self._owners]
        for module_name, parameters in by_module.items():
            modules[module_name].register_forward_pre_hook(self._noting_weights(parameters))
        self._watch_optimizer()
        self._watch_collectives()
        if self.recording is not None:
            self.recording.lay_out(model)

    def clipped(self, norm: Any) -> None:
        """The gradients are clipped, and this is the norm that they had."""
        if self.recording is not None and norm is not None:
            self.recording.saw_norm(norm)

    def stepped(self, *, scale: float | None = None, is_skipped: bool = False, norm: Any = None) -> None:
        """The step of a window is over."""
        self._end_layers()
        self.evidence.samples.append(self._samples)
        if self.recording is not None:
            self.recording.saw_step(is_skipped=is_skipped)
        if self._is_updated:
            self.evidence.squared_norms.append(self._squares)
        self.evidence.steps.append(
            Step(
                loss=sum(self._losses) / max(1, len(self._losses)),
                learning_rates=self._rates,
                loss_scale=scale,
                gradient_norm=None if norm is None else float(norm),
                is_skipped=is_skipped,
            )
        )
        self._losses, self._samples, self._squares, self._is_updated = [], [], 0.0, False

    def at_checkpoint(self) -> None:
        """The evidence after the steps before the checkpoint."""
        self.enter("measure")
        self.seen.holding = fsdp_shards.holding(self.model)
        self.seen.foreign = fsdp_optimizer.foreign(self.optimizer, self.model)
        for name, kind in fsdp_optimizer.states(self.optimizer).items():
            self.seen.states[name] = kind.held
            self.evidence.dtypes[name], self.evidence.devices[name] = kind.dtypes, kind.devices
            self.evidence.held[name] = kind.held
        shards = self.seen.holding.shards
        self.evidence.dtypes["parameters"] = sorted({one.dtype for one in shards})
        self.evidence.devices["parameters"] = sorted({one.device for one in shards})
        stored = {one.dtype for one in shards}
        size = max((getattr(torch, one).itemsize for one in stored), default=4)
        self.evidence.held["parameters"] = Held(self.seen.holding.stored, self.seen.holding.stored * size)
        self.evidence.fingerprint = self.fingerprint()

    def fingerprint(self) -> dict[str, str]:
        """Digests of the shards and the states of this rank."""
        found = {}
        names = {id(one): plain_name(name) for name, one in self.model.named_parameters()}
        for number, one in enumerate(one for group in self.optimizer.param_groups for one in group["params"]):
            name = names.get(id(one), f"tensor {number}")
            found[name] = probes.digest(fsdp_shards.local(one))
            for kind, value in self.optimizer.state.get(one, {}).items():
                if torch.is_tensor(value):
                    found[f"{kind} of {name}"] = probes.digest(fsdp_shards.local(value))
        return found

    def finish(self) -> None:
        """The last step is over."""
        if self.recording is not None:
            self.recording.save()

    # ---------------------------------------------------------------------------------------------------- the passes

    def _before_forward(self, _model: Any, args: Any, kwargs: dict[str, Any]) -> None:
        self._end_layers()
        self._passes += 1
        tokens = next((one for one in (*args, *kwargs.values()) if torch.is_tensor(one) and one.dim()), None)
        self._samples.append(0 if tokens is None else len(tokens))
        if self.recording is not None:
            self.recording.before_forward(kwargs)
        if self._layers is None:
            self._layers = Layers()
            self._layers.begin(self.model)

    def _after_forward(self, _model: Any, _args: Any, _kwargs: Any, outputs: Any) -> None:
        loss: Any = getattr(outputs, "loss", None)
        if self._passes == 1:
            shards = _flat_shards(self.model)
            self.seen.whole_after_forward = [
                name
                for module, one, name in self._places
                if _is_whole(module, one, self._shapes[name]) and _storage(getattr(module, one)) not in shards
            ]
        if self._layers is not None and self.evidence.layers is None:
            self._layers.turn()
        if torch.is_tensor(loss):
            self._losses.append(float(loss.detach().float().mean()))
            if self.recording is not None:
                self.recording.saw_loss(loss)

    def _end_layers(self) -> None:
        """Record what the layers did in the first pass, once its backward pass is over."""
        if self._layers is None or self.evidence.layers is not None:
            return
        self._layers.end()
        self.evidence.layers = [plain_name(name) for name in self._layers.names]
        self.evidence.recomputed = {plain_name(name): by for name, by in self._layers.recomputed.items()}
        self.evidence.dtypes["linear layers"] = sorted(self._layers.dtypes)

    def _noting_weights(self, parameters: list[tuple[str, str]]) -> Callable[[Any, Any], None]:
        def note(module: Any, _inputs: Any) -> None:
            for attribute, name in parameters:
                weights: Any = getattr(module, attribute, None)
                if not torch.is_tensor(weights) or hasattr(weights, "_local_tensor"):
                    continue
                dtype = fsdp_shards.dtype_name(weights.dtype)
                if dtype not in self.seen.computed:
                    self.seen.computed.append(dtype)
                if self.recording is not None:
                    self.recording.saw_weights(name, weights)

        return note

    # ---------------------------------------------------------------------------------------- the steps, and messages

    def _watch_optimizer(self) -> None:
        optimizer = self.optimizer
        step = optimizer.step

        def watched(_self: Any, *args: Any, **kwargs: Any) -> Any:
            kind = fsdp_optimizer.gradients(optimizer)
            if not self.evidence.steps:
                self.seen.gradients = kind.held
                self.evidence.held["gradients"] = kind.held
                self.evidence.dtypes["gradients"] = kind.dtypes
                self.evidence.devices["gradients"] = kind.devices
            self._squares += fsdp_optimizer.squared_norm(optimizer)
            self._rates = [float(group["lr"]) for group in optimizer.param_groups]
            self._is_updated = True
            begun = self.recording.before_update(optimizer) if self.recording is not None else []
            answer = step(*args, **kwargs)
            if self.recording is not None:
                self.recording.after_update(begun)
            return answer

        optimizer.step = types.MethodType(watched, optimizer)

    def _watch_collectives(self) -> None:
        """Note in which dtype gradients are reduced."""
        for name in _REDUCING:
            if hasattr(torch.distributed, name):
                around(torch.distributed, name)(self._noting_reduction)

    def _noting_reduction(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        given = [one for one in (*args, *kwargs.values()) if torch.is_tensor(one) and one.is_floating_point()]
        largest = max(given, key=lambda one: int(one.numel()), default=None)
        if self._passes and not self.evidence.steps and largest is not None and largest.numel() > 1:
            dtype = fsdp_shards.dtype_name(largest.dtype)
            self.seen.reduced += [dtype] if dtype not in self.seen.reduced else []
        return call(*args, **kwargs)


def _innermost(optimizer: Any) -> Any:
    """The optimizer of torch below that of accelerate."""
    while hasattr(optimizer, "optimizer"):
        optimizer = optimizer.optimizer
    return optimizer


def _flat_shards(model: Any) -> set[int]:
    """The storages in which FSDP 1 keeps flat shards, where a small parameter may lie as a whole."""
    handles = (handle for _, handle in fsdp_shards.handles(model) if handle.uses_sharded_strategy)
    return {_storage(one.flat_param._local_shard) for one in handles}  # noqa: SLF001 - no other place has them


def _storage(tensor: Any) -> int:
    return int(tensor.untyped_storage().data_ptr())


def _is_whole(module: Any, attribute: str, shape: torch.Size) -> bool:
    """Whether a parameter is there as a whole: no shard, and with storage."""
    weights: Any = getattr(module, attribute, None)
    if not torch.is_tensor(weights) or hasattr(weights, "_local_tensor"):
        return False
    return bool(weights.untyped_storage().nbytes() > 0 and weights.shape == shape)
