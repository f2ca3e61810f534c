"""What a run does that trains nothing: it evaluates, generates, or serves with DeepSpeed's inference engine.

The Trainer hands its config to ``deepspeed.initialize`` without an optimizer, which only stage 3 allows
(``deepspeed_init`` in ``transformers/integrations/deepspeed.py``); ``deepspeed.init_inference`` reads a config of its
own, and divides the layers among ``tensor_parallel.tp_size`` ranks (``deepspeed/inference/config.py``).
"""

from __future__ import annotations

from typing import NamedTuple

from ds_lint.facts.own_arguments import first_count, first_value, sequence_length
from ds_lint.frameworks.record import TRUE
from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.semantics.evaluation import evaluated_alone
from ds_lint.semantics.features import zero_stage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

    from ds_lint.facts.alignment import Alignment
    from ds_lint.launches.model_run import ModelRun
    from ds_lint.semantics.config import Config

    Work = Literal["evaluation", "generation"]

SERVES = "init_inference"
_EVALUATED = 8  # samples at once, if ``per_device_eval_batch_size`` is not given (TrainingArguments)
_NEW_TOKENS = ("max_new_tokens", "max_completion_length", "generation_max_length", "max_target_length")
_PROMPTS = (
    "max_prompt_length",
    "max_prompt_len",
    "max_source_length",
    "max_input_length",
    "prompt_len",
    "prompt_length",
)
_BATCHES = ("per_device_eval_batch_size", "eval_batch_size", "batch_size", "bs")
_BEAMS = ("num_beams", "generation_num_beams")
_SEQUENCES = "num_return_sequences"
_TOTAL = "max_length"
_USUAL_LENGTH = 20  # tokens that ``generate`` makes if nothing says how many (GenerationConfig)
_OUT = 1024  # ``max_out_tokens`` of DeepSpeedInferenceConfig
_DTYPES = {"bfloat16": "bf16", "bf16": "bf16", "float": "fp32", "float32": "fp32", "fp32": "fp32", "int8": "int8"}


class Untrained(NamedTuple):
    """What a run does beside loading its model; what is None is not known.

    ``sequences`` are those of a sample that are generated at once. ``tensor_ranks`` divide the layers, and
    ``workspace`` are the tokens for which the kernels of DeepSpeed allocate memory; None without them.
    """

    work: Work
    samples: int | None
    prompt: int | None
    new_tokens: int | None = None
    sequences: int = 1
    has_optimizer: bool = False  # which the config names, although nothing is trained
    dtype: str | None = None  # None is that of the config
    tensor_ranks: int | None = None  # of ``init_inference``
    workspace: int | None = None
    keeps_logits: bool | None = False  # of all samples, on the GPU
    kept_batches: int | None = None  # until they go to the host; None if they never do

    @property
    def is_served(self) -> bool:
        """Whether ``init_inference`` makes the engine."""
        return self.tensor_ranks is not None


def of(config: Config) -> Untrained | None:
    """What the run does instead of training; None if it may train."""
    launch = config.facts.launch
    script = launch.script if launch is not None else None
    call = script.calls.inference if script is not None else None
    if call is not None and script is not None:
        run = script.calls.model_run
        if call.function.rpartition(".")[2] == SERVES:
            return _served(config, run)
        return _generated(config, run)
    alone = evaluated_alone(config)
    return _evaluated(config, alone.method) if alone is not None else None


def refusal(config: Config) -> str | None:
    """Why a run that trains nothing does not start, in words; None if it may.

    ``_configure_zero_optimizer`` of the engine asserts an optimizer at stages 1 and 2.
    """
    stage = zero_stage(config)
    if stage in (None, 3):
        return None
    if evaluated_alone(config) is not None:
        return (
            f"the run evaluates without training, and the Trainer does that at stage 3, not at stage {stage}: it raises"
        )
    work = of(config) if stage else None
    if work is None or work.is_served or work.has_optimizer:
        return None
    return (
        f"the run generates without training, and `deepspeed.initialize` needs an optimizer at stage {stage}: it raises"
    )


def beside_training(config: Config) -> Untrained | None:
    """The evaluation of a run that trains; None if it has none, or nothing tells."""
    if config.stack != "trainer" or evaluated_alone(config) is not None:
        return None
    strategies = [config.argument(name) for name in ("eval_strategy", "evaluation_strategy", "do_eval")]
    values = [one.value for one in strategies if one is not None]
    if not any(value not in (None, "no", False, UNKNOWN) for value in values):
        return None
    return _evaluated(config, "evaluate")


def rollout(config: Config, aligned: Alignment | None) -> Untrained | None:
    """The generation of answers beside a training by rewards, with ``generate``; None with vLLM, or without any.

    trl generates for all micro batches of a step at once (``steps_per_generation`` of GRPOConfig).
    """
    if aligned is None or not aligned.generates or first_value(config.facts, "use_vllm") in (*TRUE, UNKNOWN):
        return None
    given = _Given(config, None)
    steps = given.first(("steps_per_generation", "gradient_accumulation_steps")) or 1
    samples = config.facts.micro_batch or given.first(("per_device_train_batch_size",))
    return Untrained(
        "generation",
        samples * steps if samples is not None else None,
        given.first(_PROMPTS) or sequence_length(config.facts),
        config.facts.new_tokens or given.first(_NEW_TOKENS),
    )


def _evaluated(config: Config, method: str) -> Untrained:
    """An evaluation or a prediction by the Trainer."""
    facts = config.facts
    script = facts.launch.script if facts.launch is not None else None
    run = script.calls.model_run if script is not None else None
    given = config.argument("per_device_eval_batch_size")
    size = given.value if given is not None and isinstance(given.value, int) else _EVALUATED
    is_known = given is None or isinstance(given.value, int)
    is_alone = evaluated_alone(config) is not None
    steps = config.argument("eval_accumulation_steps")
    return Untrained(
        "evaluation",
        (facts.micro_batch if is_alone else None) or (size if is_known else None),
        sequence_length(facts),
        keeps_logits=_keeps_logits(config, run, method),
        kept_batches=steps.value if steps is not None and isinstance(steps.value, int) else None,
    )


def _keeps_logits(config: Config, run: ModelRun | None, method: str) -> bool | None:
    """Whether the Trainer keeps the logits of all samples (``evaluate`` and ``evaluation_loop`` of the Trainer).

    Frameworks give their trainers no function that takes logits unless they are asked to.
    """
    only_loss = config.argument("prediction_loss_only")
    if only_loss is not None and only_loss.value is True:
        return False
    if run is None or not run.metrics:
        return False if config.facts.recipe is not None else None
    if run.metrics == "none":
        return method == "predict"
    return {"logits": True, "reduced": False}.get(run.metrics)


def _generated(config: Config, run: ModelRun | None) -> Untrained:
    """``generate`` of a model that ``deepspeed.initialize`` or Accelerate has prepared."""
    given = _Given(config, run.generation if run is not None else None)
    prompt = config.facts.sequence_length or given.first(_PROMPTS)
    return Untrained(
        "generation",
        config.facts.micro_batch or given.first(_BATCHES),
        prompt,
        _new_tokens(config, given, prompt),
        max(given.first(_BEAMS) or 1, 1) * max(given.count(_SEQUENCES) or 1, 1),
        has_optimizer=config.section("optimizer") is not None,
    )


def _new_tokens(config: Config, given: _Given, prompt: int | None) -> int | None:
    """The tokens that are generated at the most."""
    if (found := config.facts.new_tokens or given.first(_NEW_TOKENS)) is not None:
        return found
    if (total := given.count(_TOTAL)) is not None:
        return max(total - prompt, 1) if prompt is not None else total
    return _USUAL_LENGTH if given.is_complete(_TOTAL) else None


def _served(config: Config, run: ModelRun | None) -> Untrained:
    """A model that ``deepspeed.init_inference`` has divided and cast."""
    found = _generated(config, run)
    given = _Given(config, run.inference if run is not None else None)
    size = given.value("mp_size")
    for name in ("tensor_parallel", "tp"):
        if isinstance(below := given.value(name), tuple):
            size = given.resolved(dict(below).get("tp_size", size))
    dtype = str(given.value("dtype") or "float16").rpartition(".")[2]
    injects = given.value("replace_with_kernel_inject") in TRUE or given.value("kernel_inject") in TRUE
    return found._replace(
        has_optimizer=False,
        dtype=_DTYPES.get(dtype, "fp16"),
        tensor_ranks=_ranks(size, config.world_size),
        workspace=(given.count("max_out_tokens") or given.count("max_tokens") or _OUT) if injects else None,
    )


def _ranks(size: Any, all_ranks: int | None) -> int:
    """The ranks that divide the layers: those of ``tp_size``, or all of them if it is computed."""
    if size is UNKNOWN:
        return all_ranks or 1
    return size if isinstance(size, int) and size > 0 else 1


class _Given:
    """The arguments of a call in the script, and those of the launch that decide about them."""

    def __init__(self, config: Config, values: tuple[tuple[str, Any], ...] | None) -> None:
        self._facts = config.facts
        self._values = dict(values or ())

    def value(self, name: str) -> Any:
        """The value of an argument of the call; None if it is not given, UNKNOWN if it is computed."""
        return self.resolved(self._values.get(name))

    def resolved(self, value: Any) -> Any:
        """A value, or what the launch gives for the flag that decides it."""
        if not (isinstance(value, tuple) and hasattr(value, "name")):
            return value
        found = first_count(self._facts, (value.name,))
        if found is not None:
            return found
        launch = self._facts.launch
        given = launch.values.get(value.name, UNKNOWN) if launch is not None else UNKNOWN
        if given is not UNKNOWN:
            return True if given is None else given
        declared = launch.script.arguments.get(value.name) if launch is not None and launch.script is not None else None
        return declared.default if declared is not None else UNKNOWN

    def count(self, name: str) -> int | None:
        """The number that an argument of the call is."""
        value = self.value(name)
        return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None

    def first(self, names: tuple[str, ...]) -> int | None:
        """The first of these arguments that the call, or else the launch, gives."""
        return next((found for name in names if (found := self.count(name))), None) or first_count(self._facts, names)

    def is_complete(self, name: str) -> bool:
        """Whether nothing that is not known may be this argument."""
        return name not in self._values and bool(self._values)
