"""Flags become what the real HfArgumentParser makes of them for the installed TrainingArguments."""

from __future__ import annotations

import contextlib
import io
import random
import shlex

import pytest

pytest.importorskip("transformers")

from installed import knowledge
from transformers import HfArgumentParser, TrainingArguments

from ds_lint import arguments
from ds_lint.config import Config
from ds_lint.facts import Sources
from ds_lint.facts.gathering import gather
from ds_lint.linting import as_text

pytestmark = pytest.mark.fidelity

# Fields whose values the Trainer's agreement with a config rests on; TrainingArguments leaves them as they are.
FIELDS = (
    "adam_beta1", "adam_epsilon", "auto_find_batch_size", "average_tokens_across_devices", "bf16",
    "dataloader_pin_memory", "fp16_full_eval", "gradient_accumulation_steps", "learning_rate", "max_grad_norm",
    "max_steps", "per_device_train_batch_size", "save_on_each_node", "warmup_steps", "weight_decay",
)  # fmt: skip
TEXTS = ["1", "0", "-1", "2.5", "1e-4", "true", "False", "yes", "n", "ten", "", "1e3", "inf", "08"]


class Parser(HfArgumentParser):
    def error(self, message):
        raise ValueError(message)


def command_line(seed: int) -> str:
    dice = random.Random(seed)
    words = []
    for name in dice.sample(FIELDS, 3):
        flag = f"--{name.replace('_', '-') if dice.random() < 0.3 else name}"
        if dice.random() < 0.15:
            flag = f"--no_{name}"
        text = dice.choice(TEXTS)
        words += dice.choice([[flag], [f"{flag}={text}"], [flag, text], [flag, text], [flag, text]])
    return shlex.join(words)


def real(flags: str) -> dict[str, object] | None:
    """The fields, or None where the parser refuses the flags."""
    with contextlib.redirect_stderr(io.StringIO()):
        try:
            namespace, _ = Parser(TrainingArguments).parse_known_args(shlex.split(flags))
        except ValueError:
            return None
    return {name: getattr(namespace, name) for name in FIELDS}


@pytest.mark.parametrize("seed", range(150))
def test_a_flag_is_read_as_the_parser_reads_it(seed):
    flags = command_line(seed)
    document = as_text({})
    config = Config(document, document.root, knowledge(), facts=gather(Sources(trainer_args=flags)))
    expected = real(flags)
    refused = [names for names, message in arguments.refusals(config) if message.startswith("--")]
    assert bool(refused) == (expected is None), flags
    if expected is not None:
        assert {name: config.argument(name).value for name in FIELDS} == expected, flags
