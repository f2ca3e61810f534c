"""Records the forward passes after the checkpoint, and replays them in the second start of the command.

A step is a function of the weights and states, the inputs of the model, the random state, and the gradients of what the
model returns. The second start gets the last three from the first: its own data, which begins at the beginning again,
does not count. So the steps after a checkpoint repeat bit for bit if the checkpoint brings back all the rest, whatever
loss the script computes.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import random
import sys
from typing import TYPE_CHECKING, Any

import torch

from ds_lint.smoke.observe import probes
from ds_lint.smoke.observe.tensors import tensors_in
from ds_lint.smoke.probe.plan import RESUME, TRAIN
from ds_lint.smoke.records.engine_trace import Replayed

if TYPE_CHECKING:
    from collections.abc import Callable

    from ds_lint.smoke.probe.plan import Plan

_OF_DEEPSPEED = ("_", "ds_")  # names in modules that are not of the script
_ROUNDED = 1e-3  # relative, of a loss in 16 bit
# Have random states of their own, by name, for dropout under tensor parallelism.
_TRACKERS = {"deepspeed.runtime.activation_checkpointing.checkpointing", "megatron.core.tensor_parallel.random"}
_MOST = 2 * 2**30  # bytes of gradients of outputs that a rank records


class Replay:
    """The forward passes after the checkpoint of one engine on one rank."""

    def __init__(self, plan: Plan, folder: str) -> None:
        self._plan = plan
        self._folder = folder
        self._passes = 0  # that were recorded or replayed
        self._number: int | None = None  # of the pass that is under way; None: it counts for nothing
        self._steps = 0  # the same
        self._bytes = 0
        self._own_losses: dict[int, float] = {}  # that the model returned, by forward pass
        self.is_on = plan.part == RESUME
        self.replayed = Replayed()

    def forward(self, model: torch.nn.Module, args: Any, kwargs: Any, call: Callable[[Any, Any], Any]) -> Any:
        """A forward pass with its own inputs, or with those that were recorded."""
        args, kwargs = self.begin_forward(model, args, kwargs)
        outputs = call(args, kwargs)
        self.end_forward(outputs)
        return outputs

    def begin_forward(self, model: torch.nn.Module, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """The inputs of a forward pass: its own, or those that were recorded."""
        self._number = None
        if not self.is_on:
            return args, kwargs
        number, self._passes = self._passes, self._passes + 1
        if len(self.replayed.settings) == self._steps:
            self.replayed.settings.append(_settings(model))
        if self._plan.part == RESUME:
            if not os.path.exists(self._path(number)):  # the script goes on beyond what was recorded
                return args, kwargs
            own = args, kwargs
            recorded, states = torch.load(self._path(number), weights_only=False)  # each tensor on its own device
            args, kwargs = _with_own(recorded, own)
            self.replayed.has_other_shapes |= _shapes(own) != _shapes((args, kwargs))
            _set_random_states(states)
        else:
            self._record(self._path(number), (args, kwargs))
        self._number = number
        return args, kwargs

    def end_forward(self, outputs: Any) -> None:
        """What the model returns in the forward pass that has begun."""
        number = self._number
        if number is None:
            return
        is_repeated = self._plan.part == RESUME
        found = [one for one in tensors_in(outputs) if one.is_floating_point()]
        self.replayed.outputs.append(" ".join(map(probes.digest, found)))
        self.replayed.norms.append([_norm(one.detach()) for one in found])
        loss: Any = getattr(outputs, "loss", None)
        if torch.is_tensor(loss) and loss.numel() == 1:
            self._own_losses[number] = float(loss.detach().float())
        for place, one in enumerate(found):
            if one.requires_grad:
                one.register_hook(self._hook(number, place, is_loss=one is loss, is_repeated=is_repeated))

    def backward(self, loss: Any, windows: int, ranks: int) -> None:
        """The loss that goes backward: that which the model returned, or another one.

        The Trainer multiplies it by the ranks, and divides it by the micro steps of a window.
        """
        if not self.is_on:
            return
        value = float(loss.detach().float().mean())
        self.replayed.losses.append(value)
        own = self._own_losses.get(self._passes - 1)
        factors = {first / second for first in (1, windows, ranks) for second in (1, windows, ranks)}
        is_own = own is not None and any(math.isclose(value * one, own, rel_tol=_ROUNDED) for one in factors)
        self.replayed.has_own_loss |= not is_own and not (own is not None and math.isnan(own))

    def batches_of(self, engine: Any, note: Callable[[Any], None]) -> None:
        """The micro batches of the next step of a pipeline, which its first and last stages load, and its dropout."""
        own = type(engine)._next_batch.__get__(engine)  # noqa: SLF001 - where a stage gets its data

        def next_batch() -> Any:
            if not self.is_on:
                batch = own()
            else:
                number, self._passes = self._passes, self._passes + 1
                if self._plan.part == TRAIN:
                    batch = own()
                    self._save(self._path(number), batch)
                else:
                    batch = torch.load(self._path(number), weights_only=False)
            note(batch)
            return batch

        engine._next_batch = next_batch  # noqa: SLF001
        if not self.is_on:
            return
        path = os.path.join(self._folder, f"random-{self._steps}.pt")
        if self._plan.part == TRAIN:
            self._save(path, _random_states())
        elif os.path.exists(path):
            _set_random_states(torch.load(path, weights_only=False))

    def saw_loss(self, loss: float) -> None:
        """The loss of a whole step, as a pipeline returns it."""
        if self.is_on:
            self.replayed.losses.append(loss)

    def before_step(self, engine: Any, optimizer: Any) -> None:
        """An optimizer step: the rates that a scheduler outside the engine has set are of the first start."""
        if not self.is_on:
            return
        path = os.path.join(self._folder, f"rates-{self._steps}.pt")
        self._steps += 1
        self.replayed.passes.append(self._passes)
        if getattr(engine, "lr_scheduler", None) is not None:
            return
        if self._plan.part == TRAIN:
            self._save(path, [group["lr"] for group in optimizer.param_groups])
        elif os.path.exists(path):
            for group, rate in zip(optimizer.param_groups, torch.load(path, weights_only=False), strict=True):
                group["lr"] = rate

    def _hook(self, number: int, place: int, *, is_loss: bool, is_repeated: bool) -> Callable[[Any], Any]:
        numbers = itertools.count()  # of backward passes through this output (``retain_graph``)

        def next_path() -> str:
            return f"{self._path(number)}.{place}.{next(numbers)}"

        def record(gradient: torch.Tensor) -> None:
            path = next_path()
            if not is_loss and not self.replayed.has_own_loss:
                return  # it follows from the gradient of the loss
            if self._bytes + gradient.nbytes > _MOST:
                self.replayed.unrecorded = "the gradients of the outputs are too large to record"
                return
            self._bytes += gradient.nbytes
            self._save(path, gradient)

        def repeat(gradient: torch.Tensor) -> torch.Tensor:
            path = next_path()
            if not os.path.exists(path):
                return gradient
            recorded: torch.Tensor = torch.load(path, weights_only=True, map_location=gradient.device)
            return recorded.to(gradient.dtype) if recorded.shape == gradient.shape else gradient

        return repeat if is_repeated else record

    def _record(self, path: str, inputs: Any) -> None:
        """Record the inputs of a forward pass, with the random state; a script may give a model what has no record."""
        if any(one.grad_fn is not None or isinstance(one, torch.nn.Parameter) for one in tensors_in(inputs)):
            # A record would cut them off.
            self.replayed.unrecorded = "the inputs of the model come from layers outside it"
            return
        try:
            self._save(path, (_mapped(inputs, _without_own), _random_states()))
        except OSError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever an object of the script raises while it is pickled
            self.replayed.unrecorded = f"the inputs of the model cannot be recorded ({type(error).__name__})"
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)

    def _path(self, number: int) -> str:
        return os.path.join(self._folder, f"forward-{number}.pt")

    def _save(self, path: str, value: Any) -> None:
        os.makedirs(self._folder, exist_ok=True)
        torch.save(value, path)


class _Own:
    """In a record, stands for a model or a function: each start has its own."""


def _without_own(_path: tuple[Any, ...], value: Any) -> Any:
    return _Own() if callable(value) else value


def _with_own(recorded: Any, own: Any) -> Any:
    """What was recorded, with the models and functions that this start has in the same places."""
    found: dict[tuple[Any, ...], Any] = {}
    _mapped(own, found.setdefault)
    return _mapped(recorded, lambda path, value: found.get(path) if isinstance(value, _Own) else value)


def _mapped(value: Any, change: Callable[[tuple[Any, ...], Any], Any], path: tuple[Any, ...] = ()) -> Any:
    """A nest of lists, tuples and dicts, with each value in it changed; ``change`` gets its place, too."""
    if type(value) in (list, tuple):
        return type(value)(_mapped(one, change, (*path, place)) for place, one in enumerate(value))
    if type(value) is dict:
        return {name: _mapped(one, change, (*path, name)) for name, one in value.items()}
    return change(path, value)


def _norm(tensor: torch.Tensor) -> float:
    return float(torch.linalg.vector_norm(tensor, dtype=torch.float64))


def _shapes(values: Any) -> list[torch.Size]:
    return [one.shape for one in tensors_in(values)]


def _settings(model: torch.nn.Module) -> dict[str, str]:
    """What a script may change in a model while it trains: what is frozen, and plain values of modules."""
    frozen = {f"requires_grad of {name}": str(one.requires_grad) for name, one in model.named_parameters()}
    values = {
        f"{prefix}.{name}".lstrip("."): repr(value)
        for prefix, module in model.named_modules()
        for name, value in vars(module).items()
        if isinstance(value, (bool, int, float, str)) and not name.startswith(_OF_DEEPSPEED)
    }
    return frozen | values


def _random_states() -> dict[str, Any]:
    states: dict[str, Any] = {"torch": torch.get_rng_state(), "python": random.getstate()}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state()
    if (numpy := sys.modules.get("numpy")) is not None:
        states["numpy"] = numpy.random.get_state()
    for name in _TRACKERS:
        if name in sys.modules:
            states[name] = sys.modules[name].get_cuda_rng_tracker().get_states()
    return states


def _set_random_states(states: dict[str, Any]) -> None:
    torch.set_rng_state(states["torch"].cpu())
    random.setstate(states["python"])
    if "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"].cpu())
    if "numpy" in states:
        sys.modules["numpy"].random.set_state(states["numpy"])
    for name in _TRACKERS & states.keys() & sys.modules.keys():  # saving may import one, and loading not
        sys.modules[name].get_cuda_rng_tracker().set_states(states[name])
