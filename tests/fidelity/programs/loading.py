"""Load a model from a folder with the keywords of argument 2 (JSON; ``dtype`` by its name), and print its memory.

    python loading.py FOLDER '{"dtype": "float32"}'

The answer has the elements of the model, and the bytes of private memory (``RssAnon``) that loading took at its peak.
"""

from __future__ import annotations

import json
import sys
import threading
import time

import torch
from transformers import AutoModelForCausalLM


def private_memory() -> int:
    """The bytes of memory that only this process has, and that no file backs."""
    with open("/proc/self/status", encoding="ascii") as file:
        line = next(line for line in file if line.startswith("RssAnon:"))
    return int(line.split()[1]) * 1024


def main() -> None:
    """Watch the memory while the model is loaded."""
    folder, keywords = sys.argv[1], json.loads(sys.argv[2])
    keywords = {name: getattr(torch, value, value) for name, value in keywords.items()}
    torch.set_num_threads(1)
    AutoModelForCausalLM.from_pretrained(sys.argv[3])  # what is imported on the way
    before, highest, is_loaded = private_memory(), 0, threading.Event()

    def watch() -> None:
        nonlocal highest
        while not is_loaded.is_set():
            highest = max(highest, private_memory())
            time.sleep(0.002)

    watcher = threading.Thread(target=watch)
    watcher.start()
    model = AutoModelForCausalLM.from_pretrained(folder, **keywords)
    highest = max(highest, private_memory())
    is_loaded.set()
    watcher.join()
    elements = sum(parameter.numel() for parameter in model.parameters())
    sys.stdout.write(json.dumps({"elements": elements, "peak": highest - before, "after": private_memory() - before}))


if __name__ == "__main__":
    main()
