"""The calls of a training script that a config may contradict: what it loads, saves, generates and hands to DeepSpeed.

Only what certainly happens is recorded: a computed value, a name with several meanings, and a call of which it is not
known where it runs, leave no record.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.launches.adapter_config import adapter_configs
from ds_lint.launches.advised_calls import AdvisedCalls, advised_calls
from ds_lint.launches.aligned import AlignedReader
from ds_lint.launches.compiled_model import compiled_model
from ds_lint.launches.evaluation import EvaluationReader
from ds_lint.launches.generation import GenerationReader
from ds_lint.launches.inference import inference
from ds_lint.launches.model_building import BuildReader
from ds_lint.launches.model_loading import LoadReader
from ds_lint.launches.model_run import model_run
from ds_lint.launches.partitioned_shapes import ShapeReader
from ds_lint.launches.pipelines import pipeline_of
from ds_lint.launches.prepared_models import prepared_calls
from ds_lint.launches.recomputation import recomputations
from ds_lint.launches.sample_lengths import sample_lengths
from ds_lint.launches.script_code import CodePlace, keyword, last_name, literal, place, written
from ds_lint.launches.script_devices import device_of_rank
from ds_lint.launches.script_optimizers import handed_optimizers
from ds_lint.launches.script_parser import script_parsers
from ds_lint.launches.second_models import SecondModel, SecondModelReader
from ds_lint.launches.trained_names import TrainedNames, identifiers
from ds_lint.launches.training_loop import training_loop
from ds_lint.source.python_names import dotted_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.launches.adapter_config import AdapterConfig
    from ds_lint.launches.aligned import AlignedTraining
    from ds_lint.launches.compiled_model import CompiledModel
    from ds_lint.launches.evaluation import Evaluations
    from ds_lint.launches.generation import Generation
    from ds_lint.launches.inference import InferenceCall
    from ds_lint.launches.model_building import WholeModel
    from ds_lint.launches.model_loading import EarlyPartition, ModelLoad, QuantizedLoad, UnkeptConfig, WholeBuild
    from ds_lint.launches.model_run import ModelRun
    from ds_lint.launches.model_sources import SourceReader
    from ds_lint.launches.partitioned_shapes import ShapeRead
    from ds_lint.launches.prepared_models import PreparedCall
    from ds_lint.launches.recomputation import Recomputation
    from ds_lint.launches.script_devices import DeviceOfRank
    from ds_lint.launches.script_modules import ScriptModule
    from ds_lint.launches.script_optimizers import ScriptOptimizers
    from ds_lint.launches.script_parser import ScriptParser
    from ds_lint.launches.training_loop import TrainingLoop

WITH_REFERENCE = ("BCOTrainer", "DPOTrainer", "KTOTrainer")  # those of trl that prepare a reference model
# Methods of a partitioned model, and of the Trainer.
_OF_STAGE_3 = ("_zero3_consolidated_16bit_state_dict", "generate", "save_16bit_model", "save_fp16_model")
_OF_TRAINER = ("evaluate", "predict", "train")
# Words with which a script replaces or chooses the attention of a model, and others that look like them.
_OF_ATTENTION = re.compile(r"attn|flash|sdp|xformers", re.IGNORECASE)
_BARRIERS = ("deepspeed.comm.barrier", "torch.distributed.barrier")
_WAITS = "accelerator.wait_for_everyone"
_DEVICE = "accelerator.device.type"  # where Accelerate trains
_GATHERS = ("gather", "zero", "ds_id", "ds_status", "consolidat", "get_state_dict", "summon")


class UngatheredSave(NamedTuple):
    """The state of a trained model is saved as each rank has it. ``is_adapter`` says that it has adapters."""

    function: str
    place: CodePlace
    is_adapter: bool


class CallOnOneRank(NamedTuple):
    """A call that every rank must make stands under a condition that one rank meets.

    ``at_stage_3`` says that only stage 3 asks all ranks for it.
    """

    function: str
    place: CodePlace
    condition: CodePlace
    at_stage_3: bool


class AutocastCall(NamedTuple):
    """The engine is called inside ``torch.autocast``; ``enabled`` is None if it is computed."""

    function: str
    place: CodePlace
    enabled: bool | None


class ReferenceModel(NamedTuple):
    """A trainer of trl is given a reference model, and nothing that spares it one."""

    trainer: str
    place: CodePlace


class CheckpointingCall(NamedTuple):
    """``deepspeed.checkpointing.configure`` without a config, and the keywords that it is given."""

    place: CodePlace
    keywords: tuple[str, ...]


class ParameterCall(NamedTuple):
    """A function that looks a parameter up in the fp32 partitions, such as ``safe_get_full_fp32_param``."""

    function: str
    place: CodePlace


class ScriptCalls(NamedTuple):
    """What a script does; two scripts with the same calls contradict a config in the same way.

    ``is_partitioned`` says whether it builds the trained model in partitions at stage 3; None if that is not known.
    ``pipeline`` is where it makes the pipeline that its engine gets, ``model_save`` where the Trainer saves the model.
    ``chooses_checkpoints`` says that it sets the type of FSDP's checkpoints itself, ``has_adapters`` that it may give
    the model adapters. ``advised`` are the calls that advisories ask about. ``model_run`` are the arguments with which
    it runs its model without training it, ``sample_lengths`` are where it cuts texts off, as expressions.
    ``names_attention`` says that its text has a word of attention, which it may replace or choose.
    """

    loads: tuple[ModelLoad, ...]
    built_whole: tuple[WholeBuild, ...]
    quantizations: tuple[QuantizedLoad, ...]
    unkept: UnkeptConfig | None
    early: EarlyPartition | None
    ungathered: tuple[UngatheredSave, ...]
    on_one_rank: tuple[CallOnOneRank, ...]
    optimizers: ScriptOptimizers | None
    autocast: tuple[AutocastCall, ...]
    checkpointing: CheckpointingCall | None
    reference: ReferenceModel | None
    parameter: ParameterCall | None
    is_partitioned: bool | None
    whole: WholeModel | None
    generations: tuple[Generation, ...]
    aligned: AlignedTraining | None
    inference: InferenceCall | None
    evaluations: Evaluations | None
    recomputations: tuple[Recomputation, ...]
    second_models: tuple[SecondModel, ...]
    parsers: tuple[ScriptParser, ...]
    loop: TrainingLoop | None
    prepared: tuple[PreparedCall, ...]
    device: DeviceOfRank | None
    shapes: tuple[ShapeRead, ...]
    compiled: CompiledModel | None
    pipeline: CodePlace | None
    chooses_checkpoints: bool
    model_save: CodePlace | None
    has_adapters: bool
    adapters: tuple[AdapterConfig, ...]
    advised: AdvisedCalls
    model_run: ModelRun | None
    sample_lengths: tuple[str, ...]
    names_attention: bool

    @property
    def quantized(self) -> QuantizedLoad | None:
        """The first load of a quantized model; None if there is none."""
        return next(iter(self.quantizations), None)


def read_calls(module: ScriptModule, trained: TrainedNames, sources: SourceReader) -> ScriptCalls:
    """The calls of a script."""
    return _CallReader(module, trained, sources).read()


class _CallReader:
    def __init__(self, module: ScriptModule, trained: TrainedNames, sources: SourceReader) -> None:
        self.names = names = trained.names
        self.text = module.text
        self.trained = trained
        self.sources = sources
        self.imported = imported = module.imported
        self.advised = advised_calls(module)
        self.loading = LoadReader(names, trained, imported, sources)
        self.builds = BuildReader(names, trained, imported, self.loading)

    def read(self) -> ScriptCalls:
        return ScriptCalls(
            loads=tuple(self.loading.loads()),
            built_whole=tuple(self.loading.built_whole()),
            quantizations=tuple(self.loading.quantized()),
            unkept=self.loading.unkept(),
            early=self.loading.early(),
            ungathered=tuple(self._ungathered()),
            on_one_rank=tuple(self._on_one_rank()),
            optimizers=handed_optimizers(self.trained, self.imported),
            autocast=tuple(self._autocast()),
            checkpointing=self._checkpointing(),
            reference=self._reference(),
            parameter=next(self._parameters(), None),
            is_partitioned=self.builds.is_partitioned(),
            whole=self.builds.whole(),
            generations=tuple(GenerationReader(self.trained, self.loading).generations()),
            aligned=AlignedReader(self.names, self.trained, self.imported, self.builds).read(),
            inference=inference(self.names, self.trained, self.imported),
            evaluations=EvaluationReader(self.trained, self.imported).read(),
            recomputations=tuple(recomputations(self.names)),
            second_models=tuple(SecondModelReader(self.trained, self.imported, self.loading).read()),
            parsers=tuple(script_parsers(self.trained, self.imported)),
            loop=training_loop(self.trained, self.imported, self.sources),
            prepared=tuple(prepared_calls(self.trained, self.imported, self.sources)),
            device=device_of_rank(self.trained, self.imported),
            shapes=tuple(ShapeReader(self.trained, self.builds).reads()),
            compiled=compiled_model(self.trained, self.imported),
            pipeline=pipeline_of(self.trained, self.imported),
            chooses_checkpoints=any(last_name(call) == "set_state_dict_type" for call in self.names.calls),
            model_save=next(self._model_saves(), None),
            has_adapters=self.trained.has_adapters,
            adapters=tuple(adapter_configs(self.trained, self.sources)),
            advised=self.advised,
            model_run=model_run(self.trained),
            sample_lengths=tuple(sample_lengths(self.names, self.sources)),
            names_attention=_OF_ATTENTION.search(self.text) is not None,
        )

    # ------------------------------------------------------------------------------------------------------- saving

    def _ungathered(self) -> Iterator[UngatheredSave]:
        for call in self.names.calls:
            saved = self._saved(call)
            if saved is not None and self.trained.is_trained(saved) and not self.trained.is_gathered(call):
                function = written(call.func)
                yield UngatheredSave(function, place(call.func), self.trained.has_adapters)

    def _model_saves(self) -> Iterator[CodePlace]:
        """Where a trainer of transformers or trl saves its model."""
        for call in self.names.calls:
            owner = call.func.value if isinstance(call.func, ast.Attribute) else None
            if last_name(call) == "save_model" and owner is not None and self._is_trainer(owner):
                yield place(call.func)

    def _saved(self, call: ast.Call) -> ast.expr | None:
        """The model whose state a call saves, if it is not gathered for it."""
        if isinstance(call.func, ast.Attribute) and call.func.attr == "save_pretrained":
            if any(keyword.arg is None for keyword in call.keywords):
                return None
            state = keyword(call, "state_dict")
            owner = call.func.value
            return owner if state is None or self._is_own_state(state) else None
        if dotted_name(call.func) in ("torch.save", "accelerator.save") and call.args:
            state = call.args[0]
            if (
                isinstance(state, ast.Call)
                and isinstance(state.func, ast.Attribute)
                and state.func.attr == "state_dict"
            ):
                return state.func.value
        return None

    def _is_own_state(self, node: ast.expr) -> bool:
        """Whether a state is made of what this rank has: of ``state_dict()`` or ``named_parameters()`` alone."""
        value = self.trained.meant(node)
        if value is None or not isinstance(value, (ast.Call, ast.DictComp)):
            return False
        words = identifiers(value, self.names)
        if any(part in word.lower() for word in words for part in _GATHERS):
            return False
        return not words.isdisjoint({"named_parameters", "state_dict"})

    # ---------------------------------------------------------------------------------------------------- one rank

    def _on_one_rank(self) -> Iterator[CallOnOneRank]:
        for call in self.names.calls:
            at_stage_3 = self._needs_all_ranks(call)
            if at_stage_3 is None:
                continue
            condition = self.trained.condition_of_one_rank(call)
            if condition is not None and not self.trained.is_gathered(call):
                function = written(call.func)
                yield CallOnOneRank(function, place(call.func), place(condition), at_stage_3)

    def _needs_all_ranks(self, call: ast.Call) -> bool | None:
        """Whether every rank must make a call at stage 3 (True), always (False), or that is not known (None)."""
        if self.trained.is_trained(call.func):  # the forward pass
            return True
        if self._is_barrier(call):
            return False
        if self.imported.full_name(dotted_name(call.func)).endswith("zero.GatheredParameters"):
            return True
        if not isinstance(call.func, ast.Attribute):
            return None
        owner, method = call.func.value, call.func.attr
        last = dotted_name(owner).rpartition(".")[2]
        if method in _OF_STAGE_3 and self.trained.is_trained(owner):
            return True
        if method == "save_checkpoint" and self.trained.is_engine(owner):
            return False
        if last == "accelerator" and method in ("get_state_dict", "save_model", "save_state"):
            return method != "save_state"
        if method in _OF_TRAINER:
            return False if self._is_trainer(owner) else None
        return True if last == "trainer" and method == "save_model" else None

    def _is_trainer(self, owner: ast.expr) -> bool:
        """Whether an object is made by a class of transformers or trl."""
        made = self.trained.meant(owner)
        full = self.imported.full_name(dotted_name(made.func)) if isinstance(made, ast.Call) else ""
        return full.startswith(("transformers.", "trl.")) and full.endswith("Trainer")

    def _is_barrier(self, call: ast.Call) -> bool:
        """Whether a call waits for all ranks, and no other one of the module meets it on the others."""
        name = dotted_name(call.func)
        full = self.imported.full_name(name)
        is_own = full in _BARRIERS and not call.args and not call.keywords
        if not is_own and name.rpartition(".")[0].rpartition(".")[2] + "." + last_name(call) != _WAITS:
            return False
        meeting = [one for one in self.names.calls if last_name(one) == last_name(call)]
        return not any(self.trained.runs_on_the_others(one) for one in meeting)

    # ---------------------------------------------------------------------------------------------------- the engine

    def _autocast(self) -> Iterator[AutocastCall]:
        for call in self.names.calls:
            if not self.trained.is_engine(call.func):
                continue
            for entered in self.trained.entered(call):
                context = self.trained.meant(entered)
                if not isinstance(context, ast.Call) or not self._is_autocast_of_gpus(context):
                    continue
                enabled = keyword(context, "enabled")
                value = True if enabled is None else literal(enabled)
                if value is not False:
                    yield AutocastCall(dotted_name(call.func), place(context), True if value is True else None)
                    break

    def _is_autocast_of_gpus(self, context: ast.Call) -> bool:
        """Whether it is an autocast that the engine looks for: not that of CPUs."""
        name = self.imported.full_name(dotted_name(context.func)) or dotted_name(context.func)
        if name == "torch.cuda.amp.autocast":
            return True
        device = keyword(context, "device_type") or next(iter(context.args[:1]), None)
        is_cuda = literal(device) == "cuda" or (device is not None and dotted_name(device).endswith(_DEVICE))
        return name in ("torch.autocast", "torch.amp.autocast") and is_cuda

    def _checkpointing(self) -> CheckpointingCall | None:
        calls = [call for call in self.names.calls if dotted_name(call.func).endswith("checkpointing.configure")]
        if len(calls) != 1 or len(calls[0].args) > 1:
            return None
        keywords = [keyword.arg for keyword in calls[0].keywords]
        if None in keywords or "deepspeed_config" in keywords:
            return None
        return CheckpointingCall(place(calls[0].func), tuple(str(keyword) for keyword in keywords))

    def _parameters(self) -> Iterator[ParameterCall]:
        """The functions of ``deepspeed/utils/tensor_fragment.py``."""
        for call in self.names.calls:
            name = self.imported.full_name(dotted_name(call.func))
            if name.startswith("deepspeed.") and last_name(call).startswith(("safe_get_", "safe_set_")):
                yield ParameterCall(last_name(call), place(call.func))

    def _reference(self) -> ReferenceModel | None:
        for call in self.names.calls:
            if self.imported.full_name(dotted_name(call.func)).partition(".")[0] != "trl":
                continue
            model = keyword(call, "ref_model") or next(iter(call.args[1:2]), None)
            meant = self.trained.meant(model)
            is_given = meant is not None and not isinstance(meant, (ast.Constant, ast.IfExp))
            if last_name(call) in WITH_REFERENCE and is_given and not self._spares_reference():
                return ReferenceModel(last_name(call), place(call.func))
        return None

    def _spares_reference(self) -> bool:
        """Whether the module has adapters, or computes the answers of the reference model before the training."""
        words = {one.arg for call in self.names.calls for one in call.keywords}
        return self.trained.has_adapters or "precompute_ref_log_probs" in words
