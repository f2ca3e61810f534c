"""From a document or a dict to the config that rules see."""

from __future__ import annotations

from ds_lint.semantics.config import Config
from ds_lint.source.tree import Member, Node, Span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from ds_lint.semantics.basis import Basis
    from ds_lint.source.document import Document


def from_document(document: Document, basis: Basis) -> Config:
    """The config in a document, with the values that the stack puts in place of ``"auto"`` where they are known."""
    if document.preset is not None:
        from ds_lint.semantics.preset_config import as_released  # few projects name one

        document, of_framework = as_released(document, basis)
        basis = basis.but(stack=basis.stack or document.stack)
        config = _read(document, basis)
        config.preset = of_framework
        return config
    return _read(document, basis)


def _read(document: Document, basis: Basis) -> Config:
    launch = basis.facts.launch
    if document.is_inline and launch is not None and launch.composed is not None:
        document = launch.composed.as_composed(document)
        if document.may_have_own_keys and basis.stack == launch.stack:
            basis = basis.but(stack=None)  # it is not known whether the script hands it to that
    if document.kind == "accelerate":
        return _from_accelerates(document, basis)
    if document.kind == "recipe":
        return _from_recipe(document, basis)
    if document.kind == "TrainingArguments":
        return _from_arguments(document, basis)
    if document.kind == "FSDP":
        return Config(document, Node("missing", Span(0, 0)), basis)
    if document.kind != "deepspeed":
        return _from_call(document, basis)
    root = document.root or Node("missing", Span(0, 0))
    if document.stack is not None and basis.stack is None:
        basis = basis.but(stack=document.stack)
    is_template = any(issue.kind == "template" for issue in document.issues)  # hjson sees no placeholders
    if document.issues and basis.stack == "deepspeed" and not is_template and not document.is_python:
        root = _as_deepspeed_reads(document) or root
    if basis.facts.launch is not None:
        from ds_lint.semantics.launched_values import as_launched  # few configs are checked with a launch

        root = as_launched(document, root, basis.facts.launch, basis.knowledge)
        if document.is_fragment and basis.facts.launch.imports(document):
            from copy import copy

            document = copy(document)  # as that of the script is whole
            document.is_fragment = False
    config = Config(document, root, basis)
    if config.facts.training is None and config.facts.launch is None:
        return config
    from ds_lint.semantics.preparation.filled import fill_in  # without training arguments hardly anything is known

    return fill_in(config)


def _from_recipe(document: Document, basis: Basis) -> Config:
    """The config that a recipe holds, or an absent one if it names a file."""
    from ds_lint.facts.training_recipe import TrainingRecipe  # most configs are JSON
    from ds_lint.source.recognition import held

    if basis.facts.recipe is None:  # else a launch starts with it
        basis = basis.but(facts=basis.facts.with_recipe(TrainingRecipe(document)))
    named, root, of_framework = (
        basis.facts.recipe.preset if basis.facts.recipe is not None else None,
        held(document),
        None,
    )
    if named is not None and root is None:
        from ds_lint.semantics.preset_config import preset_root  # few recipes name one

        root, of_framework = preset_root(named, basis)
    config = Config(document, root or Node("missing", Span(0, 0)), basis)
    config.preset = of_framework
    if config.facts.training is None or config.root.kind != "object":
        return config
    from ds_lint.semantics.preparation.filled import fill_in

    return fill_in(config)


def _from_accelerates(document: Document, basis: Basis) -> Config:
    """The config that Accelerate's plugin makes of a YAML, or an absent one.

    The Trainer takes the plugin's config, too; that it does only training arguments or the user tell.
    """
    from ds_lint.semantics.accelerate.file import AccelerateFile  # most configs are JSON

    is_trainer = basis.stack == "trainer" or (basis.stack is None and basis.facts.training is not None)
    basis = basis.but(stack="trainer" if is_trainer else "accelerate")
    file = AccelerateFile(document, basis.knowledge, _flags_beside(document, basis))
    if basis.facts.launch is not None and document.command is None:
        file.inherit(basis.facts.launch.launch.environment)
    config = Config(document, file.made.root if file.made is not None else Node("missing", Span(0, 0)), basis)
    config.accelerate = file
    if file.launch is not None and config.facts.training is not None:
        arguments = (config.argument(name) for name in ("fsdp", "deepspeed"))
        file.launch.has_own_plugin = any(one is None or bool(one.value) for one in arguments)
    launch = config.facts.launch
    if launch is not None and config.facts.training is None and file.made is not None:
        from ds_lint.facts.accelerator_precision import script_precision
        from ds_lint.facts.script_plugin import script_plugin

        plugin = script_plugin(launch)
        if plugin is not None:
            file.replace(plugin.values, has_config=plugin.has_config or not plugin.is_known)
            config = Config(document, file.made.root if file.made is not None else Node("missing", Span(0, 0)), basis)
            config.accelerate = file
        own = script_precision(launch)
        if own is not None and file.made is not None:
            file.replace_precision(own.word)
    if config.facts.training is None or file.made is None:
        return config
    from ds_lint.semantics.accelerate.deepspeed_config import replace_precision
    from ds_lint.semantics.preparation.filled import fill_in

    enabled = (name for name in ("fp16", "bf16") if (one := config.argument(name)) is not None and one.value is True)
    if (word := next(enabled, None)) is not None:
        replace_precision(file.made, word)
    return fill_in(config)


def _flags_beside(document: Document, basis: Basis) -> list[Member]:
    """The flags of the launch that names the YAML, which come before what is in it."""
    launch = basis.facts.launch
    if launch is not None and document.preset is not None:
        from ds_lint.semantics.preset_config import flags_beside

        return flags_beside(launch.launch)
    if launch is None or document.command is not None or not launch.launch.names_yaml(document.path):
        return []
    return [
        Member(name, Span(0, 0), Node("template" if value is None else "string", Span(0, 0), value or ""))
        for name, value in launch.launch.surroundings.options
    ]


def _from_arguments(document: Document, basis: Basis) -> Config:
    """No config of DeepSpeed, but the training arguments that set FSDP up; the call has them if nothing else tells."""
    basis = basis.but(stack="trainer")
    if basis.facts.training is None and document.command is None:
        from ds_lint.semantics.fsdp_arguments import arguments_of_call

        facts = basis.facts.copy()
        facts.training = arguments_of_call(document)
        basis = basis.but(facts=facts)
    return Config(document, Node("missing", Span(0, 0)), basis)


def _from_call(document: Document, basis: Basis) -> Config:
    """The config that a class makes of the keywords of a call, or an absent one."""
    from ds_lint.semantics.config_call import ConfigCall

    is_trainer = basis.stack == "trainer" and document.kind == "DeepSpeedPlugin"
    basis = basis.but(stack="trainer" if is_trainer else document.stack)
    call = ConfigCall(document, basis.knowledge)
    config = Config(document, call.made.root if call.made is not None else Node("missing", Span(0, 0)), basis)
    config.call = call
    return config


def from_dict(config: Mapping[str, Any], basis: Basis) -> Config:
    """The config in a dict."""
    from ds_lint.source import documents  # most configs are files

    return from_document(documents.from_dict(config), basis)


def _as_deepspeed_reads(document: Document) -> Node | None:
    """What hjson makes of a text that is not clean JSON; None where it refuses it too."""
    from ds_lint.source import hjson
    from ds_lint.source.dialect import as_hjson_reads

    try:
        return as_hjson_reads(document)
    except hjson.Refused:
        return None
