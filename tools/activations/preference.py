"""Write ``schemas/preference_losses.json``: what losses over preferences hold for each token and vocabulary entry.

    python -m tools.activations.preference          # adds the installed release of trl to those that the file has
    python -m tools.activations.preference KTOTrainer

Run it in an environment that has torch, transformers, trl and datasets, on the CPU. Real trainers of trl compute the
loss of one batch and its gradients with small models, and every storage is noted as it comes and goes. Two vocabularies
and two lengths tell what grows with both: the bytes of the logits, and of what is made of them. Beside trl, a loss is
measured that takes log-probabilities of fp32 logits, as LLaMA-Factory does (``llamafactory/train/dpo/trainer.py``).
"""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
from typing import TYPE_CHECKING, Any

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers

from ds_lint.frameworks.trl import METHODS
from tools.activations.store import SCHEMAS, measured_with, settle
from tools.activations.timeline import Recorder, Timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

STORE = SCHEMAS / "preference_losses.json"
TRAINERS = ("CPOTrainer", "DPOTrainer", "KTOTrainer", "ORPOTrainer")
VOCABULARIES, TOKENS = (4000, 8000), (2048, 3072)  # of a sequence: more than the tiles of fused heads have
BATCH, HIDDEN = 2, 32
_WORDS = [f"w{place}" for place in range(60)]


def bytes_of_entry(peak: Callable[[int, int], tuple[int, int]]) -> float:
    """The bytes for each token and entry of the vocabulary, of peaks with the tokens of their batch."""
    found = {(size, length): peak(size, length) for size in VOCABULARIES for length in TOKENS}
    (small, large), (short, long) = VOCABULARIES, TOKENS
    of_short, of_long = (found[large, length][0] - found[small, length][0] for length in (short, long))
    tokens = found[small, long][1] - found[small, short][1]
    return round((of_long - of_short) / (large - small) / tokens, 1)


def of_trainer(name: str) -> float:
    """What a trainer of the installed trl holds."""
    return bytes_of_entry(lambda vocabulary, length: _step_of(name, vocabulary, length))


def _step_of(name: str, vocabulary: int, length: int) -> tuple[int, int]:
    config, trainer = (_class(name.replace("Trainer", kind)) for kind in ("Config", "Trainer"))
    arguments = config(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=BATCH,
        max_length=2 * length,
        bf16=False,
        use_cpu=True,
        gradient_checkpointing=False,
        report_to=[],
    )
    more = {"ref_model": _model(vocabulary)} if name in ("DPOTrainer", "KTOTrainer") else {}
    made = trainer(
        model=_model(vocabulary),
        args=arguments,
        train_dataset=_samples(name, length),
        processing_class=_tokenizer(),
        **more,
    )
    batch = next(iter(made.get_train_dataloader()))
    tensors = [one for one in batch.values() if torch.is_tensor(one)]
    known = [*made.model.parameters(), *made.model.buffers(), *tensors]
    for other in more.values():
        known += [*other.parameters(), *other.buffers()]
    peak = _peak(known, made.model.parameters(), lambda: made.compute_loss(made.model.train(), batch))
    rows = BATCH * next(method.samples for method in METHODS.values() if method.trainer == name)
    width = max(one.shape[1] for one in tensors if one.dim() == 2)
    return peak, rows * width


def in_fp32(*, has_reference: bool) -> float:
    """What a loss holds that takes log-probabilities of fp32 logits."""

    def step(vocabulary: int, length: int) -> tuple[int, int]:
        length //= 8
        head = torch.nn.Parameter(torch.randn(vocabulary, HIDDEN, dtype=torch.bfloat16))
        hidden = torch.randn(BATCH, length, HIDDEN, dtype=torch.bfloat16, requires_grad=True)
        labels = torch.randint(0, vocabulary, (BATCH, length))

        def answers() -> tuple[torch.Tensor, torch.Tensor]:
            logits = (hidden @ head.t()).to(torch.float32)
            chosen = labels[:, 1:].clone().unsqueeze(2)
            return torch.gather(logits[:, :-1].log_softmax(-1), 2, chosen).sum(), logits

        def loss() -> torch.Tensor:
            mine, _logits = answers()  # which the caller holds, as the trainer does
            if has_reference:
                with torch.no_grad():
                    other, _ = answers()
                mine = mine - other
            return torch.nn.functional.logsigmoid(mine)

        return _peak([head, hidden, labels], [head], loss), BATCH * length

    return bytes_of_entry(step)


def _peak(known: list[torch.Tensor], trained: Iterable[torch.Tensor], loss: Callable[[], torch.Tensor]) -> int:
    """The most bytes at once beside what is known, and the gradients of what is trained."""
    recorder = Recorder(known)

    def take_away(parameter: torch.Tensor) -> None:
        if parameter.grad is not None:
            recorder.leave_out(parameter.grad)
            parameter.grad = None

    for parameter in trained:
        parameter.register_post_accumulate_grad_hook(take_away)
    with torch.enable_grad(), recorder:
        loss().backward()
    return Timeline(recorder.storages(), [], recorder.moments - 1, recorder.moments).peak


def _class(name: str) -> Any:
    """A class of trl, which moved those of some methods into ``experimental``."""
    method = name.removesuffix("Trainer").removesuffix("Config").lower()
    for module in ("trl", f"trl.experimental.{method}"):
        try:
            return getattr(importlib.import_module(module), name)
        except (AttributeError, ImportError):  # noqa: PERF203 - two places
            continue
    raise LookupError(name)


def _model(vocabulary: int) -> Any:
    config = transformers.LlamaConfig(
        hidden_size=HIDDEN,
        intermediate_size=2 * HIDDEN,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=vocabulary,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        tie_word_embeddings=False,
        max_position_embeddings=4 * max(TOKENS),
    )
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(config).to(torch.bfloat16)


def _tokenizer() -> Any:
    special = ("<pad>", "<s>", "</s>", "<unk>")
    vocabulary = {word: place for place, word in enumerate((*special, *_WORDS))}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))  # noqa: S106 - a word
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    names = dict(zip(("pad_token", "bos_token", "eos_token", "unk_token"), special, strict=True))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, **names)


def _samples(name: str, length: int) -> Any:
    datasets = importlib.import_module("datasets")
    text = " ".join(_WORDS[place % len(_WORDS)] for place in range(length // 2))
    count = 4 * BATCH
    if name == "KTOTrainer":
        labels = [place % 2 == 0 for place in range(count)]
        return datasets.Dataset.from_dict({"prompt": [text] * count, "completion": [text] * count, "label": labels})
    return datasets.Dataset.from_dict({key: [text] * count for key in ("prompt", "chosen", "rejected")})


def main() -> int:
    """Measure the installed release; 1 if a trainer cannot be measured."""
    trl = importlib.import_module("trl")
    settle()
    store = json.loads(STORE.read_text(encoding="utf-8")) if STORE.exists() else {"trl": {}}
    failures = 0
    for name in sys.argv[1:] or TRAINERS:
        try:
            found = of_trainer(name)
        except Exception as reason:  # noqa: BLE001, PERF203 - whatever a release raises over a way to make a trainer
            failures += 1
            sys.stderr.write(f"{name}: {type(reason).__name__} {reason}\n"[:200])
        else:
            store["trl"].setdefault(name, {})[trl.__version__] = found
            sys.stdout.write(f"{name} {trl.__version__}: {found} bytes\n")
    own = {"alone": in_fp32(has_reference=False), "with_reference": in_fp32(has_reference=True)}
    made = measured_with(apart_from=("peft", "liger"))
    text = json.dumps({**made, "trl": dict(sorted(store["trl"].items())), "in_fp32": own}, indent=1)
    STORE.write_text(text + "\n", encoding="utf-8", newline="\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
