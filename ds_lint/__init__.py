"""ds-lint reports what DeepSpeed, the Hugging Face Trainer and Accelerate really do with a config."""

from __future__ import annotations

from ds_lint.version import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Mapping
    from typing import Any

    from ds_lint.callback import ConfigError, TrainerCallback
    from ds_lint.diagnostics.finding import Finding

__all__ = ["ConfigError", "TrainerCallback", "__version__", "check"]


def __getattr__(name: str) -> type:
    """The callback and its error, which alone import transformers, on first use."""
    if name in ("ConfigError", "TrainerCallback"):
        from ds_lint import callback

        found: type = getattr(callback, name)
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def check(
    config: Mapping[str, Any] | str | os.PathLike[str],
    *,
    stack: str | None = None,
    deepspeed_version: str | None = None,
    transformers_version: str | None = None,
    accelerate_version: str | None = None,
    world_size: int | None = None,
    nodes: int | None = None,
    training_args: object = None,
    model: str | os.PathLike[str] | None = None,
    gpu: str | None = None,
    host_memory: str | None = None,
) -> list[Finding]:
    """Check a config and return its findings; ``config`` is a path, or a dict as the library gets it.

    ``stack`` is what loads it: ``deepspeed``, ``trainer`` or ``accelerate``; by default it is inferred from the config
    if possible. The versions are releases or ranges such as ``>=0.14``; by default they are the ones that the project
    around the path (or around the working directory) pins, the installed ones, or the newest known. ``training_args``
    is a transformers.TrainingArguments, a dict of its fields, the path of a JSON or YAML file of them, or flags.
    ``model`` is a folder or the name of a downloaded model, ``gpu`` a name such as ``A100-80GB``, ``host_memory`` the
    memory of each machine, such as ``512GB``. The settings of a project are not read; comments in a file suppress
    findings. Warns about a release that ds-lint does not know. Raises OSError if a path cannot be read, TypeError or
    ValueError for invalid arguments.
    """
    # not at import time: ``import ds_lint`` must cost a training script nothing
    from os.path import dirname

    from ds_lint.diagnostics.finding import STACKS
    from ds_lint.facts import Sources
    from ds_lint.facts.readers import gather
    from ds_lint.knowledge.keys import knowledge
    from ds_lint.linter.choice import choose
    from ds_lint.linter.lint import lint_for
    from ds_lint.semantics.basis import Basis
    from ds_lint.source import documents
    from ds_lint.source.files import bytes_of

    if stack not in (None, *STACKS):
        raise ValueError(f"stack must be one of {', '.join(STACKS)}, not {stack!r}")
    for fact, number in (("rank", world_size), ("node", nodes)):
        if number is not None and not isinstance(number, int):
            raise TypeError(f"the number of {fact}s must be an int, not {type(number).__name__}")
        if number is not None and number < 1:
            raise ValueError(f"a run has at least one {fact}, not {number}")
    for fact, words in (("gpu", gpu), ("host_memory", host_memory)):
        if words is not None and not isinstance(words, str):
            raise TypeError(f"{fact} must be a str, not {type(words).__name__}")
    sources = Sources(
        world_size=world_size,
        nodes=nodes,
        trainer_args=training_args,
        model=str(model) if model is not None else None,
        gpu=gpu,
        host_memory=host_memory,
        said_by="ds_lint.check",
    )
    facts = gather(sources)
    named = {"deepspeed": deepspeed_version, "transformers": transformers_version, "accelerate": accelerate_version}
    versions = {library: version for library, version in named.items() if version is not None}
    if isinstance(config, str) or hasattr(config, "__fspath__"):
        path = str(config)
        data = bytes_of(path)
        found = documents.configs_in(data, path) or documents.unparsed(data, path, is_named=True)
        choice = choose(dirname(path), versions)
    elif hasattr(config, "keys"):
        found = [documents.from_dict(config)]
        choice = choose("", versions)
    else:
        raise TypeError(f"a config must be a dict or a path, not {type(config).__name__}")
    for note in choice.notes:
        from warnings import warn  # of a release that ds-lint does not know

        warn(note, stacklevel=2)
    basis = Basis(knowledge(choice.newest), stack, facts)
    return [finding for document in found for finding in lint_for(choice, document, basis).findings]
