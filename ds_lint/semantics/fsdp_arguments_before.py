"""The same of ``fsdp`` and ``fsdp_config`` before transformers 5.10.1, which makes variables or a plugin of them.

Sources: ``__post_init__`` and ``_process_fsdp_args`` in ``transformers/training_args.py``.
"""

from __future__ import annotations

from ds_lint.knowledge.suggestions import choice
from ds_lint.semantics.accelerate.conversions import flag
from ds_lint.semantics.accelerate.refusal import is_integer, listed
from ds_lint.source.counts import count
from ds_lint.source.spelling import as_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ds_lint.facts.training import Argument
    from ds_lint.knowledge.records import StackFacts
    from ds_lint.semantics.config import Config
    from ds_lint.source.document import Document

    Trouble = tuple[str | None, str, str]  # the key as it is written, what is wrong, and what to do

_LAYERS, _SIZE, _WRAP = "transformer_layer_cls_to_wrap", "min_num_params", "auto_wrap"
_PREFETCH = "backward_prefetch"
_SWITCHES = ("cpu_ram_efficient_loading", "forward_prefetch", "sync_module_states", "use_orig_params")
_OF_VERSION_1 = (_PREFETCH, "forward_prefetch", "use_orig_params")


class OlderFsdpArguments:
    """The two arguments as an older release reads them; ``values`` has the names that count."""

    __slots__ = (
        "_conversions",
        "_keys",
        "_options",
        "_replaced",
        "_words",
        "_written",
        "argument",
        "file",
        "given",
        "values",
    )

    switch = 'Write `fsdp` as "full_shard auto_wrap".'

    def __init__(
        self, config: Config, argument: Argument, given: Argument | None, values: dict[str, Any], *, is_file: bool
    ) -> None:
        before = config.knowledge.table("transformers", "fsdp_before")
        self._keys: dict[str, StackFacts] = config.knowledge.table("transformers", "fsdp_config")
        self._conversions = config.knowledge.table("accelerate", "fsdp_plugin")
        self._words = config.knowledge.table("accelerate", "words")
        self._options = before["options"]["choices"]
        drops = ("files" if is_file else "dicts") in before["prefix"]["choices"]
        self.argument = argument
        self.given = given
        self.file: Document | None = None  # the JSON that ``fsdp_config`` names
        self._written = {(name.removeprefix("fsdp_") if drops else name): name for name in values}
        self._replaced = [name for name in values if name not in self._written.values()]
        self.values = {name: values[written] for name, written in self._written.items()}

    @property
    def is_on(self) -> bool:
        """Whether FSDP is on, and not that of XLA."""
        return bool(self.argument.value) and not self.values.get("xla")

    @property
    def version(self) -> int | None:
        """The version of FSDP; None if it is not a whole number."""
        version = self.values.get("version", 1) if "version" in self._keys else 1
        return int(version) if isinstance(version, (int, float, str)) and is_integer(version) else None

    @property
    def policy(self) -> str | None:
        """The policy by which the model is wrapped: by its layers only with an option of ``fsdp``."""
        size = self.values.get(_SIZE, 0)
        is_by_layer = _WRAP in self._given and not (isinstance(size, (int, float)) and size > 0)
        return "TRANSFORMER_BASED_WRAP" if is_by_layer else None

    @property
    def _given(self) -> list[str]:
        value = self.argument.value
        words = value.split() if isinstance(value, str) else value if isinstance(value, list) else ["full_shard"]
        return [word for word in words if isinstance(word, str)]

    def as_written(self, name: str) -> str:
        """A key as it is written."""
        return self._written.get(name, name)

    def refusals(self) -> Iterator[Trouble]:
        """Why TrainingArguments or the plugin raises."""
        words = self._given
        for word in words if isinstance(self.argument.value, str) else ():
            if word not in self._options:
                yield "fsdp", f"`fsdp` has an unknown option, {word}", f"Write one of {listed(self._options)}."
        if words == ["offload"]:
            yield "fsdp", "`fsdp` is offload alone, without what is sharded", 'Write "full_shard offload".'
        if {"full_shard", "shard_grad_op"} <= {*words}:
            yield "fsdp", "`fsdp` is both full_shard and shard_grad_op", "Write one of the two."
        size = self.values.get(_SIZE, 0)
        if not isinstance(size, (int, float)):
            yield self._wrong(_SIZE, "not a number", "Write a number.")
        elif size > 0 and self.values.get(_LAYERS) is not None:
            what = f"`{_SIZE}` and `{_LAYERS}` of `fsdp_config` are both set"
            yield self.as_written(_SIZE), what, "Write one of the two."
        yield from self._values()

    def unread(self) -> Iterator[tuple[str, str, str]]:
        """The keys that nothing reads, as they are written, why, and what to do."""
        for written in self._replaced:
            yield written, "another key sets it, too", "Delete one of the two."
        for name, written in self._written.items():
            plain = name.removeprefix("fsdp_")
            if name not in self._keys and plain in self._keys:
                why = "the Trainer drops `fsdp_` only from the keys of a file"
                yield written, why, f"Write `{plain}`."
            elif name not in self._keys:
                meant = choice(name, list(self._keys))
                advice = f"Write `{meant}`." if meant else _INSTEAD.get(plain, "Delete the key.")
                yield written, "this release of transformers has no such key", advice
            elif name in (_LAYERS, _SIZE) and _WRAP not in self._given:
                why = f"`fsdp` has no option {_WRAP}"
                yield written, why, f'Add it: `fsdp` is "{" ".join([*self._given, _WRAP])}".'
            elif name in _OF_VERSION_1 and self.version == 2:
                yield written, "FSDP 2 does not read it", "Delete the key."

    def is_telling(self, written: str) -> bool:
        """Whether a key that nothing reads asks for something that the run would not do anyway."""
        name = next((name for name, one in self._written.items() if one == written), None)
        if name is None:
            return True
        value = self.values[name]
        anyway = {"use_orig_params": "true", "sync_module_states": "true", "limit_all_gathers": "true"}
        standing = {"state_dict_type": "full_state_dict", "version": "1", _PREFETCH: "no_prefetch"}
        usual = (anyway | standing).get(name.removeprefix("fsdp_"))
        return bool(value) and str(value).lower() not in ("false", usual)

    def _values(self) -> Iterator[Trouble]:
        if self.version not in (1, 2):
            if self.version is None:
                yield self._wrong("version", "not a whole number", "Write 1 or 2.")
            return
        for name in _SWITCHES:
            is_read = name in self._keys and name in self.values and not (self.version == 2 and name in _OF_VERSION_1)
            is_converted = self._conversions.get(name, {}).get("kind") == "flag"
            if is_read and is_converted and flag(self.values[name]) is None:
                yield self._wrong(name, "neither true nor false", "Write true or false.")
        loading = "cpu_ram_efficient_loading"
        needed = self._keys.get(loading, {}).get("needs")
        is_loaded = str(self.values.get(loading, "false")).lower() == "true"
        if needed is not None and is_loaded and str(self.values.get(needed, "true")).lower() == "false":
            what = f"`{needed}` of `fsdp_config` is off, and `{loading}` is on"
            yield self.as_written(needed), what, f"Write `{needed}: true`, or `{loading}: false`."
        prefetch, words = self.values.get(_PREFETCH), self._words.get("FSDP_BACKWARD_PREFETCH", {}).get("choices", [])
        is_read = _PREFETCH in self._keys and self.version == 1
        if is_read and isinstance(prefetch, str) and count(prefetch) is None and prefetch.upper() not in words:
            yield self._wrong(_PREFETCH, f"not one of {listed(words)}", "Write one of these words.")

    def _wrong(self, name: str, problem: str, advice: str) -> Trouble:
        what = f"`{name}` of `fsdp_config` is {as_json(self.values[name])}, {problem}"
        return self.as_written(name), what, advice


_INSTEAD = {
    "cpu_offload": 'Write "full_shard offload" as `fsdp`.',
    "offload_params": 'Write "full_shard offload" as `fsdp`.',
    "auto_wrap_policy": 'Write "full_shard auto_wrap" as `fsdp`.',
    "sharding_strategy": 'Write it in small letters as `fsdp`: "full_shard".',
    "reshard_after_forward": 'Write "full_shard" or "shard_grad_op" as `fsdp`.',
    "state_dict_type": "Set the variable FSDP_STATE_DICT_TYPE, which the plugin reads.",
}
