"""What an extractor printed about a release, as the report and the changelog say it."""

from __future__ import annotations

import re
from typing import NamedTuple

_HEAD = re.compile(r"(\S+) (\S+) \(after (\S+)\)|(\S+) (\S+): the oldest in the store")
_RECORD = re.compile(r"(\w+): `(.+?)` is (new|gone)")
_DEFAULT = re.compile(r"default\S* .* (became|->) |default of |defaults? of ")
# What a table of a store has records of, for a reader who has never seen the store.
NOUNS = {
    "arguments": "training argument",
    "behaviours": "behaviour",
    "beside_file": "setting beside deepspeed_config_file",
    "changes": "key that a framework sets in a config",
    "chosen_experts": "model type with chosen experts",
    "classes": "class of arguments",
    "defaults": "default",
    "deprecated": "deprecated training argument",
    "fabric_names": "registered name of a strategy of Fabric",
    "fields": "field",
    "fills": "filled key",
    "fsdp_before": "fact about the arguments for FSDP",
    "fsdp_config": "key of fsdp_config",
    "fsdp_plugin": "argument of FullyShardedDataParallelPlugin",
    "fsdp_variables": "FSDP setting",
    "hidden_sizes": "model type without a plain hidden_size",
    "inserts": "inserted key",
    "launch_arguments": "flag of accelerate launch",
    "launchers": "launcher",
    "names": "name for FSDP",
    "optimizers": "optimizer",
    "options": "way in which HfArgumentParser makes options",
    "overwrites": "overwritten key",
    "plugin": "argument of DeepSpeedPlugin",
    "presets": "shipped config",
    "refusals": "error message",
    "required": "required key",
    "requires": "required library",
    "sagemaker": "key of SageMaker's YAML",
    "schedulers": "scheduler",
    "seq2seq_arguments": "argument of Seq2SeqTrainingArguments",
    "sets": "training argument that is set",
    "strategy": "keyword of DeepSpeedStrategy",
    "strategy_config": "key of DeepSpeedStrategy's config",
    "taken": "name that a recipe may have",
    "trainer_names": "registered name of a strategy of Trainer",
    "trainers": "trainer",
    "training_arguments": "training argument",
    "unknown": "field without a constant default",
    "words": "enumeration",
    "yaml": "key of Accelerate's YAML",
}
# Of which users notice the field.
_INNER = ("field without a constant default", "default", "name that a recipe may have")
MOST, LONGEST = 6, 50  # names in a sentence, and characters of one


class Change(NamedTuple):
    """One line of a change log."""

    kind: str  # "new", "gone", "default" or "other"
    noun: str  # what is new or removed
    name: str
    line: str


class Entry(NamedTuple):
    """What changed in one release."""

    library: str
    release: str
    after: str | None
    changes: list[Change]


def entries(printed: str) -> list[Entry]:
    """The entries of the change log that an extractor prints."""
    found: list[Entry] = []
    for line in printed.splitlines():
        if head := _HEAD.fullmatch(line):
            library, release = head[1] or head[4], head[2] or head[5]
            found.append(Entry(library, release, head[3], []))
        elif found and line.startswith("* ") and line != "* nothing changed":
            found[-1].changes.append(_change(line.removeprefix("* ")))
    return found


def _change(line: str) -> Change:
    if record := _RECORD.match(line):
        return Change(record[3], NOUNS[record[1]], record[2], line)
    if came := re.match(r"new `([^`]+)`", line):
        return Change("new", "key", came[1], line)
    if went := re.match(r"(?:refused|no longer read) `([^`]+)`", line):
        return Change("gone", "key", went[1], line)
    name = re.search(r"`([^`]+)`", line)
    return Change("default" if _DEFAULT.search(line) else "other", "", name[1] if name else line, line)


def sentence(entry: Entry) -> str:
    """What users notice of a release, to be put into the changelog."""
    parts = [
        *_by_noun("new", "new {}", entry),
        *_by_noun("gone", "removed {}", entry),
        *_listed("other defaults of", [one.name for one in entry.changes if one.kind == "default"]),
        *_listed("changes of", [one.name for one in entry.changes if one.kind == "other"]),
    ]
    return "; ".join(parts) or "nothing that ds-lint reads changed"


def _by_noun(kind: str, title: str, entry: Entry) -> list[str]:
    by_noun: dict[str, list[str]] = {}
    for one in entry.changes:
        if one.kind == kind and one.noun not in _INNER:
            by_noun.setdefault(one.noun, []).append(one.name)
    return [
        part
        for noun, names in by_noun.items()
        for part in _listed(title.format(noun if len(set(names)) == 1 else _plural(noun)), names)
    ]


def _plural(noun: str) -> str:
    """``keys of fsdp_config``."""
    return re.sub(r"^(.*?)(?= of | with | without | beside | that |$)", r"\1s", noun, count=1)


def _listed(title: str, names: list[str]) -> list[str]:
    """``new keys `a`, `b` and 3 more``, if there is one at all; messages are only counted: ``2 new error messages``."""
    names = list(dict.fromkeys(names))
    shown = [f"`{name}`" for name in names if len(name) <= LONGEST and "`" not in name][:MOST]
    rest = len(names) - len(shown)
    if not shown:
        return [f"{rest} {title}"] if rest else []
    return [f"{title} {', '.join(shown)}{f' and {rest} more' if rest else ''}"]
