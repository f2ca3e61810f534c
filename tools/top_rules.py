"""Which rules are translated: those found in the most real configs, that cost the most, that a guide leads to.

The first come from ``tests/corpus_table.json``: the newest version of every published config, as the Trainer loads it
or whoever does, whichever makes more findings. The others need what no published config says, the training arguments
or the model, or are rare there and ruin the whole run; each has its reason. The last are about what a reader of the
DeepSpeed guide of Transformers does, in Chinese or Korean, or of a comparison of ZeRO and FSDP; each has its passage.

    python -m tools.top_rules    lists them
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

TABLE = Path(__file__).parent.parent / "tests" / "corpus_table.json"
FOUND = 16
COSTLY = {
    "DS202": "trains for days and saves a model of empty tensors, without a warning",
    "DS204": "the Trainer's config under plain DeepSpeed: silently fp32 or stage 0, or a stop in the first step",
    "DS450": "fp16 for a model that was trained in bf16: the loss is NaN, or every step is skipped",
    "DS512": "stops every rank of a machine with another number of GPUs, after all have started",
    "DS517": "the learning rate never comes down, though cosine was asked for: the most reported silent one",
    "DS524": "trains with another optimizer than the one that was asked for",
    "DS610": "the most frequent message of the Trainer about a config, after the model is loaded on every rank",
    "DS613": "gradients are clipped at another norm than the one that was asked for, or not at all",
    "DS614": "trains with twenty times the learning rate that was asked for",
}
GUIDED = {
    "DS002": "a config for stage 2 ends with a trailing comma",
    "DS201": "some values are entered by hand",
    "DS208": "the script for ZeRO inference sets a bucket to 0.9 times the square of the hidden size",
    "DS302": "inference without the Trainer, and the examples of the stages, have no optimizer",
    "DS311": "`nvme_path` must lead to an NVMe drive",
    "DS313": "what is offloaded: the optimizer, the parameters, or neither",
    "DS315": "stage 0, which means no ZeRO, and offload",
    "DS316": "ZeRO-Infinity needs ZeRO-3",
    "DS351": "a larger persistence threshold keeps more parameters on the GPU",
    "DS353": "checkpointing of activations in models of Transformers and in others",
    "DS369": "with offload, every optimizer but Lamb",
    "DS401": "fp32, fp16 and bf16: one of them",
    "DS416": "the data type of communication",
    "DS451": "mixed precision saves memory, fp32 has to be chosen",
    "DS502": "the schedulers that DeepSpeed supports",
    "DS507": "other optimizers than those that DeepSpeed supports",
    "DS516": "OneBitAdam among the optimizers that DeepSpeed supports",
    "DS518": "`warmup_num_steps`, and `total_num_steps`, which the Trainer computes",
    "DS519": "a learning rate that is set to different values in two places",
    "DS522": "without an optimizer in the config, the Trainer chooses",
    "DS612": "`--fp16` on the command line beside a config that says otherwise",
    "DS615": "accumulation of gradients, by the argument or in the config",
    "DS616": "values that are taken from the config of the model",
    "DS641": "ZeRO inference needs ZeRO-3, and `--do_eval`",
    "DS706": "`save_on_each_node` instead of `use_node_local_storage`",
    "DS803": "ZeRO on a single GPU, for its offload",
    "DS821": "the weights of ZeRO-3 are saved only if they are gathered",
    "DS823": "with offload, DeepSpeed's CPU Adam or `zero_force_ds_cpu_optimizer`",
    "DS825": "`HfDeepSpeedConfig` must be made before the model",
    "DS826": "`HfDeepSpeedConfig` must be kept alive",
    "DS830": "a notebook emulates what a launcher sets",
    "DS835": "torchrun on two nodes, with the address of the first",
    "DS837": "nodes without shared storage",
    "DS850": "bf16 on Ampere GPUs and newer, fp16 on older ones",
    "DS851": "a process that is killed at startup: offload to the CPU",
    "DS852": "the requirements of memory, and which stage to try next",
    "DS853": "offload to NVMe, and a benchmark for `aio`",
    "DS863": "ZeRO-3 splits the parameters of a model over the ranks",
    "DS869": "`generate` with `synced_gpus` on several GPUs",
    "DS907": "a loss of NaN",
    "DS908": "OVERFLOW in each step: the scale of the loss",
}


def chosen() -> list[str]:
    """The codes of all, the most found first."""
    return [*most_found(), *COSTLY, *GUIDED]


def most_found() -> list[str]:
    """The codes of the rules found most, without those that have a reason of their own."""
    table: dict[str, dict[str, dict[str, int]]] = json.loads(TABLE.read_text(encoding="utf-8"))
    newest: Counter[str] = Counter()
    every: Counter[str] = Counter()
    for part in table.values():
        newest |= _files(part, "newest files")  # the larger of the two
        every |= _files(part, "files")
    found = sorted(newest, key=lambda code: (-newest[code], -every[code], code))
    return [code for code in found if code not in COSTLY and code not in GUIDED][:FOUND]


def _files(part: dict[str, dict[str, int]], count: str) -> Counter[str]:
    files: Counter[str] = Counter()
    for name, row in part.items():
        files[name.partition(" ")[0]] += row[count]
    return files


if __name__ == "__main__":
    sys.stdout.write("".join(f"{code}\n" for code in most_found()))
    sys.stdout.write("".join(f"{code}: {reason}\n" for code, reason in (COSTLY | GUIDED).items()))
