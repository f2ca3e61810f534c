# ruff: noqa: S106, S311 - the tokens are of texts, and nothing here is secret
"""What the scripts read, made on this machine: tokenizers, models of random weights, data.

Each function takes the folder that the command runs in. Names follow the scripts: one that asks for ``bert-base-cased``
or ``nyu-mll/glue`` finds a folder of that name before it would ask a hub.
"""

from __future__ import annotations

import array
import json
import math
import random
import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    Make = Callable[[Path], None]

MODULES = "modules"  # the folder of those that a command imports
ROWS = 400  # enough for the steps of a run, and few enough to be tokenized in no time
WORDS = ("rank", "stage", "loss", "scale", "batch", "micro", "gather", "reduce", "step", "shard", "weight", "norm")
CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>\n{% generation %}{{ message['content'] }}{{ eos_token }}"
    "{% endgeneration %}\n{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)


def sentence(seed: int, words: int = 12) -> str:
    """Words in an order that the seed decides."""
    return " ".join(random.Random(seed).choices(WORDS, k=words))


def tokenizer(
    name: str, *, padded: str = "<pad>", masked: bool = False, begins: bool = False, segments: bool = True
) -> Make:
    """A byte-level tokenizer of a few hundred tokens, with a chat template.

    Texts may begin with ``<s>``, and ``segments`` adds ``token_type_ids``, which not every model takes.
    """

    def make(folder: Path) -> None:
        from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
        from transformers import PreTrainedTokenizerFast

        special = ["<s>", padded, "</s>", "<unk>", "<mask>"]
        trained = Tokenizer(models.BPE(unk_token="<unk>"))
        trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        trained.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=400,
            special_tokens=special,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        trained.train_from_iterator((sentence(row) for row in range(ROWS)), trainer)
        if begins:
            trained.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
        made = PreTrainedTokenizerFast(
            tokenizer_object=trained,
            bos_token="<s>",
            eos_token="</s>",
            unk_token="<unk>",
            pad_token=padded,
            model_max_length=128,
            **({"mask_token": "<mask>", "cls_token": "<s>", "sep_token": "</s>"} if masked else {}),
            **({} if segments else {"model_input_names": ["input_ids", "attention_mask"]}),
        )
        made.chat_template = CHAT_TEMPLATE
        made.save_pretrained(folder / name)
        config = folder / name / "tokenizer_config.json"
        content = json.loads(config.read_text(encoding="utf-8"))
        content["tokenizer_class"] = "PreTrainedTokenizerFast"  # the name that releases before 5 know too
        config.write_text(json.dumps(content, indent=1), encoding="utf-8")

    return make


def model(name: str, kind: str, architecture: str, **sizes: Any) -> Make:
    """A model of random weights, saved as the classes of transformers save it."""

    def make(folder: Path) -> None:
        import torch
        import transformers

        torch.manual_seed(0)
        config = transformers.AutoConfig.for_model(kind, **sizes)
        getattr(transformers, architecture)(config).save_pretrained(folder / name)

    return make


def llama(name: str, architecture: str = "LlamaForCausalLM", **sizes: Any) -> Make:
    """A Llama with grouped attention."""
    return model(name, "llama", architecture, **{
        "vocab_size": 512, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256,
        "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, **sizes,
    })  # fmt: skip


def bert(name: str, architecture: str = "BertForSequenceClassification") -> Make:
    """A BERT that classifies, or another one."""
    return model(name, "bert", architecture,
                 vocab_size=512, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                 max_position_embeddings=128, pad_token_id=1)  # fmt: skip


def gpt_neox(name: str) -> Make:
    """A GPT-NeoX, whose attention has one matrix for queries, keys and values."""
    return model(name, "gpt_neox", "GPTNeoXForCausalLM",
                 vocab_size=512, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                 max_position_embeddings=256, bos_token_id=0, eos_token_id=2)  # fmt: skip


def opt(name: str, architecture: str = "OPTForCausalLM") -> Make:
    """An OPT, whose output weights are those of the embedding."""
    return model(name, "opt", architecture,
                 vocab_size=512, hidden_size=64, ffn_dim=128, num_hidden_layers=2, num_attention_heads=4,
                 max_position_embeddings=256, word_embed_proj_dim=64,
                 bos_token_id=0, pad_token_id=1, eos_token_id=2)  # fmt: skip


def critic_weights(name: str) -> Make:
    """The checkpoint of a reward model as DeepSpeed-Chat saves it: that of an OPT, and the head of the values.

    It has a multiple of 8 tokens. Embeddings of another size would be left uninitialized.
    """

    def make(folder: Path) -> None:
        import torch
        import transformers

        whole = transformers.AutoModel.from_pretrained(folder / name)
        tokens = len(transformers.AutoTokenizer.from_pretrained(folder / name))
        whole.resize_token_embeddings(8 * math.ceil(tokens / 8))
        weights = {f"rwtransformer.{key}": value for key, value in whole.state_dict().items()}
        torch.save({**weights, "v_head.weight": torch.randn(1, 64)}, folder / name / "pytorch_model.bin")

    return make


def t5(name: str, padded: int = 1, ends: int = 2) -> Make:
    """A T5."""
    return model(name, "t5", "T5ForConditionalGeneration",
                 vocab_size=512, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4,
                 pad_token_id=padded, eos_token_id=ends, decoder_start_token_id=padded)  # fmt: skip


def sentence_pieces(name: str) -> Make:
    """The vocabulary that the tokenizer of T5 reads."""

    def make(folder: Path) -> None:
        import sentencepiece  # type: ignore[import-not-found] # packages of requirements.txt

        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(sentence(row) for row in range(ROWS)), model_prefix=str(folder / name / "spiece"),
            vocab_size=60, hard_vocab_limit=False, pad_id=0, eos_id=1, unk_id=2, bos_id=-1, minloglevel=2,
        )  # fmt: skip

    return make


def lines(name: str) -> Make:
    """A text with one sentence a line."""

    def make(folder: Path) -> None:
        _write(folder / name, (sentence(row, 40) for row in range(ROWS)))

    return make


def rows(name: str, row: Callable[[int], dict[str, Any]], count: int = ROWS) -> Make:
    """JSON lines."""

    def make(folder: Path) -> None:
        _write(folder / name, (json.dumps(row(number)) for number in range(count)))

    return make


def document(name: str, content: Any) -> Make:
    """A JSON document."""

    def make(folder: Path) -> None:
        _write(folder / name, [json.dumps(content, indent=1)])

    return make


def dataset(name: str, row: Callable[[int], dict[str, Any]], *splits: str, count: int = ROWS) -> Make:
    """A folder that ``load_dataset`` takes for the data set of its name; ``count`` is the rows of ``train``."""

    def make(folder: Path) -> None:
        for split in splits or ("train", "test"):
            rows(f"{name}/{split}.jsonl", row, count if split == "train" else count // 10)(folder)

    return make


def saved_dataset(name: str, row: Callable[[int], dict[str, Any]]) -> Make:
    """A data set as ``save_to_disk`` writes it."""

    def make(folder: Path) -> None:
        import pyarrow as pa  # type: ignore[import-not-found] # packages of requirements.txt
        from datasets import Dataset, DatasetDict  # type: ignore[import-not-found]

        tables = {
            split: pa.Table.from_pylist([row(number) for number in range(count)])
            for split, count in (("train", ROWS), ("test", 40))
        }
        splits = {split: Dataset(table, fingerprint=split) for split, table in tables.items()}
        DatasetDict(splits).save_to_disk(folder / name)

    return make


def named_dataset(
    name: str, subset: str, row: Callable[[int], dict[str, Any]], *splits: str, count: int = ROWS
) -> Make:
    """The same for one that is loaded with the name of a subset."""

    def make(folder: Path) -> None:
        dataset(name, row, *splits, count=count)(folder)
        files = "".join(f"  - split: {split}\n    path: {split}.jsonl\n" for split in splits)
        _write(folder / name / "README.md", [f"---\nconfigs:\n- config_name: {subset}\n  data_files:\n{files}---"])

    return make


def metric(name: str) -> Make:
    """A metric that ``evaluate.load`` takes for the one of its name."""
    text = """import datasets
import evaluate


class Metric(evaluate.Metric):
    def _info(self):
        features = datasets.Features({"predictions": datasets.Value("int64"), "references": datasets.Value("int64")})
        return evaluate.MetricInfo(description="", citation="", inputs_description="", features=features)

    def _compute(self, predictions, references):
        return {"accuracy": sum(a == b for a, b in zip(predictions, references)) / len(references), "f1": 0.0}"""

    def make(folder: Path) -> None:
        _write(folder / name / f"{name}.py", [text])

    return make


def sequence_lengths(name: str, count: int, low: int, high: int, seed: int) -> Make:
    """What DeepSpeed's analyzer of data writes about sequences of these lengths."""

    def make(folder: Path) -> None:
        import torch
        from deepspeed.runtime.data_pipeline.data_sampling.indexed_dataset import MMapIndexedDatasetBuilder

        path = folder / name / "seqlen" / "seqlen_sample_to_metric"
        path.parent.mkdir(parents=True)
        chosen = random.Random(seed)
        builder = MMapIndexedDatasetBuilder(f"{path}.bin", dtype=torch.int64)
        for _ in range(count):
            builder.add_item(torch.tensor([chosen.randrange(low, high)]))
        builder.finalize(f"{path}.idx")

    return make


def token_file(name: str, *, documents: int, length: int, vocabulary: int) -> Make:
    """Documents of one sequence as ``tools/preprocess_data.py`` of Megatron writes them: tokens, and an index."""

    def make(folder: Path) -> None:
        chosen = random.Random(0)
        tokens = array.array("H", (chosen.randrange(vocabulary) for _ in range(documents * length)))
        (folder / f"{name}.bin").write_bytes(tokens.tobytes())
        starts = range(0, documents * length * tokens.itemsize, length * tokens.itemsize)
        uint16 = 8  # as the format numbers its types
        index = b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, uint16, documents, documents + 1)
        index += struct.pack(f"<{documents}i", *[length] * documents)
        index += struct.pack(f"<{2 * documents + 1}q", *starts, *range(documents + 1))
        (folder / f"{name}.idx").write_bytes(index)

    return make


def module(path: str, text: str) -> Make:
    """A module in the place of one that this machine may not have, and of which the script only needs the import."""

    def make(folder: Path) -> None:
        file = folder / MODULES / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n", encoding="utf-8")

    return make


def pair(number: int) -> dict[str, Any]:
    """Two sentences, and whether they say the same."""
    return {"sentence1": sentence(number), "sentence2": sentence(number + 1), "label": number % 2, "idx": number}


def conversation(number: int) -> dict[str, Any]:
    """A question and its answer, as messages."""
    turns = {"user": sentence(number), "assistant": sentence(number + 1)}
    return {"messages": [{"role": role, "content": content} for role, content in turns.items()]}


def preference(number: int) -> dict[str, Any]:
    """A question with a better and a worse answer."""
    return {
        "prompt": sentence(number),
        "chosen": " " + sentence(number + 1),
        "rejected": " " + sentence(number + 2),
    }


def prompt(number: int) -> dict[str, Any]:
    """A question alone."""
    return {"prompt": sentence(number)}


def translation(number: int) -> dict[str, Any]:
    """A sentence in two languages."""
    return {"translation": {"en": sentence(number), "ro": sentence(number + 1)}}


def instruction(number: int) -> dict[str, Any]:
    """A row as the Alpaca data has them."""
    return {"instruction": sentence(number), "input": "", "output": sentence(number + 1)}


def answer(number: int) -> dict[str, Any]:
    """A row as the Dolly data has them."""
    return {"instruction": sentence(number), "context": "", "response": sentence(number + 1), "category": "open_qa"}


def turns(number: int) -> dict[str, Any]:
    """A question and its answer, as the data of Vicuna has them."""
    spoken = {"human": sentence(number), "gpt": sentence(number + 1)}
    return {"id": str(number), "conversations": [{"from": role, "value": value} for role, value in spoken.items()]}


def chat(number: int) -> dict[str, Any]:
    """A row as UltraChat has them."""
    return {"prompt": sentence(number), "prompt_id": str(number), **conversation(number)}


def passages(number: int) -> dict[str, Any]:
    """A query with a passage that answers it, and others that do not."""
    others = [sentence(number + more) for more in range(2, 6)]
    return {"query": sentence(number), "pos": [sentence(number + 1)], "neg": others}


def article(number: int) -> dict[str, Any]:
    """A text and its headline."""
    return {"text": sentence(number, 30), "headline": sentence(number, 6)}


def text(number: int) -> dict[str, Any]:
    """A text."""
    return {"text": sentence(number, 30)}


def _write(path: Path, content: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in content), encoding="utf-8")
