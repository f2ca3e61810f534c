"""What ``engine.compile()`` does with the section ``compile``: what it refuses, and what changes nothing.

Torch's backend is "eager", which takes no compiler. DeepCompile's own library takes CUDA; an object that notes what it
is told stands for it, so all that DeepSpeed does in Python before and after is reached.
"""

from __future__ import annotations

from typing import Any

import pytest
from linted import lint_dict

pytest.importorskip("deepspeed")

from installed import INSTALLED, knowledge, measured_with_the_newest
from oracle import HIDDEN, Job, Oracle

from ds_lint.facts import Facts

pytestmark = [pytest.mark.fidelity, measured_with_the_newest]

STAGE_1, STAGE_2, STAGE_3 = ({"zero_optimization": {"stage": stage}} for stage in (1, 2, 3))
CPU = {"device": "cpu"}
EXPERTS = {"expert_parallel": {"enabled": True}}


def config(section: dict[str, Any], **rest: Any) -> dict[str, Any]:
    adamw = {"type": "AdamW", "params": {"lr": 1e-3}}
    return {"train_micro_batch_size_per_gpu": 1, "optimizer": adamw, "compile": section, **rest}


def deep(*names: str, **rest: Any) -> dict[str, Any]:
    """DeepCompile with switches, or passes."""
    passes = [name for name in names if name in ("z1", "z3", "autosp", "autotp")]
    switches = dict.fromkeys(set(names) - set(passes), True)
    return config({"deepcompile": True, **switches, **({"passes": passes} if passes else {})}, **rest)


def found(given: dict[str, Any], code: str) -> set[str]:
    """The keys that the findings of a rule are about."""
    report = lint_dict(given, target=INSTALLED, stack="deepspeed", facts=Facts(world_size=1))
    return {finding.message.split("`")[1] for finding in report.findings if finding.code == code}


def compiled(engine: Any) -> dict[str, Any]:
    """What torch's ``compile`` and DeepCompile's library are told, or what is raised; the weights after a step."""
    from unittest.mock import MagicMock

    import torch
    import torch._dynamo
    from deepspeed.compile import init_z1_and_2, init_z3
    from deepspeed.compile.passes import offload_activation, offload_adam_states

    torch._dynamo.config.disable = False  # the oracle disables it
    library = MagicMock()
    torch.ops.dc = MagicMock()  # the operators that it would register
    offload_activation.register_activation_offload_ops = lambda: None
    offload_adam_states.init_offload_opt_states = lambda *_: None  # streams of a GPU
    told: list[str] = []
    engine._initialize_deepcompile_native = lambda _: library
    for module in (init_z1_and_2, init_z3):
        schedule = module.init_schedule
        module.init_schedule = lambda one, schedule=schedule: (
            told.extend(f"{step} {given.__name__}" for step, passes in one for given in passes),
            schedule(one),
        )
    compile_module = engine.module.compile

    def noted(**named: Any) -> None:
        backend = named["backend"]
        told.append(backend if isinstance(backend, str) else "DeepSpeed's")
        compile_module(**named)

    object.__setattr__(engine.module, "compile", noted)
    try:
        engine.compile(backend="eager")
    except (ValueError, NotImplementedError) as error:
        return {"error": f"{type(error).__name__}: {error}"}
    told += [call[0] for call in library.method_calls]
    if "eager" not in told:
        return {"error": None, "told": told}
    torch.manual_seed(0)
    engine.backward(engine(torch.randn(2, HIDDEN)).pow(2).mean())
    engine.step()
    return {
        "error": None,
        "told": told,
        "frames": sum(torch._dynamo.utils.counters["frames"].values()) > 0,
        "weights": [getattr(one, "ds_tensor", one).tolist() for one in engine.module.parameters()],
    }


REFUSED = {
    "states twice": (
        deep("offload_opt_states", zero_optimization={"stage": 3, "offload_optimizer": CPU}),
        "zero_optimization.offload_optimizer",
    ),
    "states and parameters": (deep("offload_opt_states", "offload_parameters", **STAGE_3), "one offloading target"),
    "activations and parameters": (deep("offload_activation", "offload_parameters", **STAGE_3), "offload_activation"),
    "activations and states": (deep("offload_activation", "offload_opt_states", **STAGE_3), "offload_activation"),
    "activations and both of ZeRO": (
        deep("offload_activation", zero_optimization={"stage": 3, "offload_optimizer": CPU, "offload_param": CPU}),
        "offload_activation",
    ),
    "tensor parallelism and ZeRO": (deep("autotp", "z1", **STAGE_1), "AutoTP compile pass"),
    "tensor and sequence parallelism": (deep("autotp", "autosp"), "AutoTP compile pass"),
    "around experts, deep": (deep("autoep_non_moe", **EXPERTS), "DeepCompile"),
    "around no experts": (config({"autoep_non_moe": True}), "requires at least one AutoEPMoELayer"),
    "around experts at stage 3": (config({"autoep_non_moe": True}, **EXPERTS, **STAGE_3), "Stage 3"),
    "around experts, offloaded": (
        config({"autoep_non_moe": True}, **EXPERTS, zero_optimization={"stage": 2, "offload_optimizer": CPU}),
        "offload",
    ),
    "activations": (deep("offload_activation", **STAGE_3), None),
    "states": (deep("offload_opt_states", **STAGE_3), None),
    "parameters": (deep("offload_parameters", **STAGE_3), None),
    "activations and states at stage 2": (deep("offload_activation", "offload_opt_states", **STAGE_2), None),
}
SWITCHES = ("offload_activation", "offload_opt_states", "offload_parameters", "free_activation", "symmetric_memory")
SAME = {  # with the key, and without it
    "deepcompile without ZeRO": (deep(), config({})),
    "sequence parallelism at stage 2": (deep("autosp", **STAGE_2), config({}, **STAGE_2)),
    "sequence parallelism at stage 3": (deep("autosp", **STAGE_3), config({}, **STAGE_3)),
    "tensor parallelism that is off": (deep("autotp", **STAGE_1), config({}, **STAGE_1)),
    "passes alone": (config({"passes": ["z3"]}, **STAGE_3), config({}, **STAGE_3)),
    "switches alone": (config(dict.fromkeys(SWITCHES, True), **STAGE_3), config({}, **STAGE_3)),
    "offload at stage 1": (deep(*SWITCHES[:3], **STAGE_1), deep(**STAGE_1)),
    "offload at stage 2": (deep(*SWITCHES[:3], **STAGE_2), deep(**STAGE_2)),
}
NAMED = {"deepcompile without ZeRO": "deepcompile"}  # the others name passes, or their switches
DIFFERENT = {
    "deepcompile at stage 1": (deep(**STAGE_1), config({}, **STAGE_1)),
    "deepcompile at stage 3": (deep(**STAGE_3), config({}, **STAGE_3)),
    **{f"{name} at stage 3": (deep(name, **STAGE_3), deep(**STAGE_3)) for name in SWITCHES[:3]},
}


@pytest.fixture(scope="module")
def seen():
    """What is seen of each config, by its text."""
    pairs = [*SAME.values(), *DIFFERENT.values(), *([given] for given, _ in REFUSED.values())]
    configs = {str(one): one for pair in pairs for one in pair}
    with Oracle(timeout=120) as oracle:
        verdicts = oracle.run([Job(one, level="initialize", look=compiled) for one in configs.values()])
    assert [verdict.error for verdict in verdicts] == [None] * len(configs)
    return {text: verdict.facts for text, verdict in zip(configs, verdicts, strict=True)}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name, seen):
    """DS811."""
    given, words = REFUSED[name]
    error = seen[str(given)]["error"]
    assert (error is None) == (words is None), error
    assert (words or "") in (error or "")
    assert (found(given, "DS811") != set()) == (words is not None)


@pytest.mark.parametrize("name", SAME)
def test_what_changes_nothing(name, seen):
    """DS812: torch and DeepCompile's library are told the same, and a step leaves the same weights."""
    given, plain = (seen[str(one)] for one in SAME[name])
    assert given == plain
    assert given["told"] == ["eager"] or "DeepSpeed's" in given["told"]
    assert given.get("frames", True)
    named = {key for key in SWITCHES if SAME[name][0]["compile"].get(key)} or {NAMED.get(name, "passes")}
    assert found(SAME[name][0], "DS812") == {f"compile.{key}" for key in named}


@pytest.mark.parametrize("name", DIFFERENT)
def test_where_the_key_counts(name, seen):
    given, plain = (seen[str(one)] for one in DIFFERENT[name])
    assert given["told"] != plain["told"]
    assert not found(DIFFERENT[name][0], "DS812")


def test_the_newest_release_refuses_both():
    does = knowledge().does
    assert does("deepcompile-refuses-two-offloads")
    assert does("deepcompile-refuses-activations-beside")
