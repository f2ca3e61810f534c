"""Which parameters of an engine's optimizer get no gradient in any step, and whether the steps change them anyway."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ds_lint.smoke.observe.sampled_step import differing, stepped_elements

if TYPE_CHECKING:
    from collections.abc import Callable

    from ds_lint.smoke.records.engine_trace import EngineTrace


class GradientCoverage:
    """Follows the parameters that the optimizer has from the beginning, up to the checkpoint."""

    def __init__(self, trace: EngineTrace) -> None:
        self._trace = trace
        self._left = {one.name for one in trace.evidence.parameters if one.is_trainable}  # without a gradient so far
        self._handles: dict[str, Any] = {}
        self._frozen: set[str] | None = None  # not to be trained in any forward pass so far
        self._before: dict[str, torch.Tensor] = {}  # what the optimizer steps on, before the first step
        self._cut: set[str] = set()  # in modules that compute without gradients

    def forward(self, engine: Any, call: Callable[[], Any]) -> Any:
        """A forward pass that trains the model."""
        if not self._left:
            return call()
        if self._frozen is None:
            self._before = stepped_elements(engine)
            outputs = self._watching_modules(engine.module, call)
        else:
            outputs = call()
        parameters = {name: one for name, one in engine.module.named_parameters() if name in self._left}
        frozen = {name for name, one in parameters.items() if not one.requires_grad}
        self._frozen = frozen if self._frozen is None else self._frozen & frozen
        for name, one in parameters.items():
            if one.requires_grad and name not in self._handles:
                self._handles[name] = one.register_hook(self._reaches(name))
        return outputs

    def _reaches(self, name: str) -> Callable[[torch.Tensor], None]:
        def reach(_gradient: torch.Tensor) -> None:
            self._left.discard(name)

        return reach

    def _watching_modules(self, model: torch.nn.Module, call: Callable[[], Any]) -> Any:
        """Note which modules compute without gradients; with checkpointed layers they do so once more."""
        handles = [
            module.register_forward_pre_hook(self._looking(prefix, module))
            for prefix, module in model.named_modules()
            if next(module.parameters(recurse=False), None) is not None
        ]
        try:
            return call()
        finally:
            for handle in handles:
                handle.remove()

    def _looking(self, prefix: str, module: torch.nn.Module) -> Callable[[Any, Any], None]:
        def look(_module: Any, _inputs: Any) -> None:
            if not torch.is_grad_enabled():
                self._cut.update(f"{prefix}.{name}".lstrip(".") for name, _ in module.named_parameters(recurse=False))

        return look

    def after_backward(self) -> None:
        """Let go of the parameters that have got their gradient."""
        for name in self._handles.keys() - self._left:
            self._handles.pop(name).remove()

    def at_checkpoint(self, engine: Any) -> None:
        """What has got none."""
        for handle in self._handles.values():
            handle.remove()
        self._handles = {}
        trace = self._trace
        if self._frozen is None:
            return  # the script calls the model itself
        names = {name for name, _ in engine.module.named_parameters()} & self._left
        trace.is_coverage_known = True
        trace.without_gradient = sorted(names)
        trace.frozen_later = sorted(names & self._frozen)
        trace.cut_off = sorted(names & self._cut)
        trace.changed_anyway = sorted(names.intersection(differing(self._before, stepped_elements(engine))))
        self._before, self._left = {}, set()
