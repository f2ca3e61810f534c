"""What the plugin for FSDP, which ``Accelerator()`` makes, reads of the settings of a launch.

Source: ``FullyShardedDataParallelPlugin`` in ``accelerate/utils/dataclasses.py``, which gets every setting as the text
of an environment variable. Up to accelerate 0.33 it compares words as they are written.
"""

from __future__ import annotations

from ds_lint.knowledge.unknown import UNKNOWN
from ds_lint.record import Record
from ds_lint.semantics.accelerate.conversions import flag
from ds_lint.semantics.accelerate.refusal import is_integer
from ds_lint.source.counts import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ds_lint.knowledge.records import StackFacts
    from ds_lint.semantics.accelerate.launch import AccelerateLaunch
    from ds_lint.semantics.made_config import SourceSetting
    from ds_lint.source.tree import KeyPath, Member

TRANSFORMER, SIZE, NO_WRAP = "TRANSFORMER_BASED_WRAP", "SIZE_BASED_WRAP", "NO_WRAP"
LOADING, SYNCING = "fsdp_cpu_ram_efficient_loading", "fsdp_sync_module_states"
# Words for a strategy that gathers the parameters again for the backward pass, and for one that keeps them; the words
# of version 2 too.
_RESHARDS, _KEEPS = ("FULL_SHARD", "1", "TRUE"), ("SHARD_GRAD_OP", "2", "FALSE")
_INSTEAD = {
    "fsdp_sharding_strategy": "Write `fsdp_reshard_after_forward: true` for FULL_SHARD, or `false` for SHARD_GRAD_OP.",
    "fsdp_reshard_after_forward": "Write `fsdp_sharding_strategy`, or `fsdp_version: 2`.",
}

_HYBRID = (
    "Write `parallelism_config` with `parallelism_config_dp_replicate_size` and `parallelism_config_dp_shard_size`, "
    "whose product is the number of ranks."
)


class FsdpPlugin(Record):
    """What the plugin reads of a launch; ``version`` is that of FSDP, UNKNOWN if it is not known."""

    _launch: AccelerateLaunch

    def __post_init__(self) -> None:
        self._variables = self._launch.table("fsdp_variables")
        self._fields = {} if self._launch.has_own_plugin else self._launch.table("fsdp_plugin")
        self.version = self._find_version()

    @property
    def variables(self) -> dict[str, str | None]:
        """The variable that the launch makes of each of its arguments about FSDP."""
        return {name: facts["variable"] for name, facts in self._variables.items()}

    @property
    def is_known(self) -> bool:
        """Whether it is known how the release reads the settings, and the script does not make a plugin of its own."""
        return bool(self._fields)

    @property
    def is_alone(self) -> bool:
        """Whether there is one rank only, or that is not known."""
        return self._launch.value("num_processes") in (1, "1", UNKNOWN)

    @property
    def is_settled(self) -> bool:
        """Whether the file says what decides about the other settings: the version and the policy."""
        return all(self.setting(field).member is not None for field in ("fsdp_version", "auto_wrap_policy"))

    @property
    def path(self) -> KeyPath:
        """The section of the settings, or the key that switches FSDP on."""
        return (self.place.key,)

    @property
    def place(self) -> Member:
        """The member of this key."""
        root = self._launch.root
        member = root.member("fsdp_config") or root.member("distributed_type")
        if member is None and self._launch.is_command:
            member = next((one for one in self._launch.flags if one.key == "use_fsdp"), None)
        assert member is not None  # noqa: S101 - FSDP is on
        return member

    @property
    def policy(self) -> Any:
        """The policy by which the model is wrapped, in capital letters."""
        text = self.text("auto_wrap_policy")
        if text is UNKNOWN or "takes" not in self._fields.get("auto_wrap_policy", {}):
            return text if text is UNKNOWN else text.upper()
        return text if text in (TRANSFORMER, SIZE) else NO_WRAP

    @property
    def state_dict_type(self) -> Any:
        """The type of checkpoint, in capital letters."""
        text, words = self.text("state_dict_type"), self._launch.words("FSDP_STATE_DICT_TYPE")
        if text is UNKNOWN:
            return UNKNOWN
        return words[number - 1] if (number := count(text)) and number <= len(words) else text.upper()

    def argument(self, field: str) -> str | None:
        """The argument of the launch that sets a field; None if the release has no such argument."""
        variable = self._fields.get(field, {}).get("variable")
        return next((name for name, facts in self._variables.items() if facts["variable"] == variable), None)

    def setting(self, field: str) -> SourceSetting:
        """The setting behind a field."""
        return self._launch.setting(self.argument(field) or "")

    def text(self, field: str) -> Any:
        """The text that the plugin gets for a field, or what stands in for it; UNKNOWN if it is not known."""
        name = self.argument(field)
        facts = self._variables[name] if name is not None else {}
        value = self._launch.value(name) if name is not None else None
        if value is UNKNOWN:
            return UNKNOWN
        if self._launch.variables and name not in self._launch.exported:
            name = None  # without a command of accelerate, none of its defaults
        if name is None or (value is None and facts.get("if_given")):
            otherwise = self._fields.get(field, {}).get("otherwise")
            return otherwise.get(str(self.version), UNKNOWN) if isinstance(otherwise, dict) else otherwise
        return str(value).lower() if facts["lowered"] else str(value)

    def is_on(self, field: str) -> bool | None:
        """Whether a switch is on; None if that is not known, or it is refused."""
        text = self.text(field)
        return None if text is UNKNOWN else flag(text)

    def knows(self, argument: str) -> bool:
        """Whether it is known what becomes of an argument in a run with FSDP."""
        return bool(self._launch.value("use_fsdp")) and self._facts(argument) is not None

    def reads(self, argument: str) -> bool:
        """Whether the value of an argument makes a difference to the plugin."""
        facts = self._facts(argument)
        if facts is None or self.version not in (1, 2):
            return True
        if argument == SYNCING and self.version not in facts["versions"]:
            return bool(self._launch.value(LOADING))  # the launch compares the two
        policy = self.policy
        return self.version in facts["versions"] and ("policy" not in facts or policy in (facts["policy"], UNKNOWN))

    def does_anyway(self, argument: str) -> bool:
        """Whether the run does what an argument asks for that does not count.

        FSDP 2 prefetches in the backward pass, and uses the original parameters. That it does not send the weights of
        rank 0 to the others unless it loads them there alone makes no difference to ranks that load the same weights.
        """
        value, default = self._launch.value(argument), self._launch.arguments.get(argument)
        if value is None or value == default or str(value).lower() == str(default).lower():
            return True
        strategy = str(value).upper()
        if argument == "fsdp_sharding_strategy":
            return strategy in (_RESHARDS if self.is_on("reshard_after_forward") else _KEEPS)
        if argument == "fsdp_reshard_after_forward":
            runs = str(self.text("sharding_strategy")).upper()
            return any({strategy, runs} <= {*words} for words in (_RESHARDS, _KEEPS))
        return strategy == {SYNCING: "TRUE", "fsdp_backward_prefetch": "BACKWARD_PRE"}.get(argument)

    def why_unread(self, argument: str) -> tuple[str, str]:
        """Why an argument does not count, and what to do."""
        facts = self._facts(argument) or {}
        if self.version not in facts.get("versions", ()):
            is_hybrid = str(self._launch.value(argument)).upper().startswith("HYBRID")
            advice = _HYBRID if is_hybrid else _INSTEAD.get(argument, "Delete the key.")
            return f"FSDP {self.version} does not read it", advice
        return (
            f"`fsdp_auto_wrap_policy` is {self.policy}, and only {facts.get('policy')} reads it",
            f"Write `fsdp_auto_wrap_policy: {facts.get('policy')}`, or delete the key.",
        )

    def checked(self) -> Iterator[tuple[str, StackFacts]]:
        """The fields whose texts are converted, also those that are dropped after that."""
        for field, facts in self._fields.items():
            if self.version in (*facts["versions"], *facts.get("checked", ())):
                yield field, facts

    def _facts(self, argument: str) -> StackFacts | None:
        variable = self._variables.get(argument, {}).get("variable")
        return next((facts for facts in self._fields.values() if facts["variable"] == variable), None)

    def _find_version(self) -> Any:
        if "fsdp_version" not in self._fields:
            return 1
        text = self.text("fsdp_version")
        return int(text) if text is not UNKNOWN and is_integer(text) else UNKNOWN
