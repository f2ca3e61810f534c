"""Whether a run of the Trainer evaluates or predicts without training: it then gets an engine without an optimizer.

Source: ``evaluation_loop`` in ``transformers/trainer.py`` calls ``deepspeed_init`` with ``inference=True``, which
deletes ``optimizer``; DeepSpeed builds no scheduler for an engine without one (``deepspeed/runtime/engine.py``).
"""

from __future__ import annotations

from ds_lint.semantics.config import once
from ds_lint.semantics.features import set_argument

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.diagnostics.finding import Related
    from ds_lint.facts.launched import LaunchFacts
    from ds_lint.launches.evaluation import EvaluateCall
    from ds_lint.semantics.config import Config

_METHODS = {"do_eval": "evaluate", "do_predict": "predict"}


class LoneEvaluation:
    """What shows that a run only evaluates. ``call`` is that of its script, None if nothing but arguments shows it.

    ``argument`` is the training argument that makes it evaluate, "" if the script always does.
    """

    __slots__ = ("argument", "call", "method")

    def __init__(self, method: str, argument: str, call: EvaluateCall | None) -> None:
        self.method = method
        self.argument = argument
        self.call = call

    def related(self, launch: LaunchFacts | None) -> list[Related]:
        """Where the script evaluates."""
        if launch is None or self.call is None:
            return []
        return launch.related(self.call.place, "evaluates without training")


@once
def evaluated_alone(config: Config) -> LoneEvaluation | None:
    """The evaluation or prediction of a run that does not train; None if it may.

    Scripts need not look at ``do_train``: what is known of the script counts. Without it, a run that sets an evaluation
    strategy, under its name of today or that of older releases, evaluates while it trains.
    """
    if config.stack != "trainer":
        return None
    launch = config.facts.launch
    known = launch.script.calls.evaluations if launch is not None and launch.script is not None else None
    trains = config.argument("do_train")
    is_off = trains is not None and trains.value is False
    if known is None:
        if not is_off or _has_strategy(config):
            return None
        name = next((name for name in _METHODS if set_argument(config, name)), None)
        return LoneEvaluation(_METHODS[name], name, None) if name is not None else None
    if known.trains or (known.trains is None and not is_off):
        return None
    for call in known.calls:
        is_set = bool(set_argument(config, call.flag)) if call.flag else True
        if is_set or (call.flag == "do_eval" and _has_strategy(config)):  # which sets it: TrainingArguments
            return LoneEvaluation(call.method, call.flag, call)
    return None


def trainer_call(config: Config) -> str:
    """The call of the Trainer in which DeepSpeed gets the config."""
    alone = evaluated_alone(config)
    return f"trainer.{alone.method}()" if alone is not None else "trainer.train()"


def _has_strategy(config: Config) -> bool:
    strategies = (config.argument(name) for name in ("eval_strategy", "evaluation_strategy"))
    return any(one is not None and one.value not in (None, "no") for one in strategies)
