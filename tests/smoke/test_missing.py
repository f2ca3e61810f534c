"""What a script ends for: files that are not on this machine, and libraries that need a GPU."""

from __future__ import annotations

import types

import pytest

from ds_lint.smoke.probe.missing import from_this_machine

HUB = "class LocalEntryNotFoundError(FileNotFoundError): pass\n"
# How the libraries call each other: the functions that load, with the names of their arguments.
LIBRARIES = {
    "datasets.load": HUB
    + "def load_dataset(path, name=None, data_files=None):\n"
    + "    if name == 'no-split': raise ValueError('Unknown split')\n"
    + "    raise ConnectionError(f\"Couldn't reach '{path}' on the Hub (OfflineModeIsEnabled)\")\n"
    + "def load_from_disk(dataset_path):\n    raise FileNotFoundError(dataset_path)\n",
    "huggingface_hub.file_download": HUB
    + "def hf_hub_download(repo_id, filename):\n    raise LocalEntryNotFoundError('offline')\n",
    "transformers.models.auto": "import huggingface_hub.file_download as hub\n"
    "class AutoImageProcessor:\n"
    "    @classmethod\n"
    "    def from_pretrained(cls, pretrained_model_name_or_path):\n"
    "        hub.hf_hub_download(pretrained_model_name_or_path, 'preprocessor_config.json')\n"
    "class LlamaForCausalLM:\n"
    "    @classmethod\n"
    "    def from_pretrained(cls, pretrained_model_name_or_path):\n"
    "        raise OSError('no file named model.safetensors')\n"
    "    @classmethod\n"
    "    def from_other(cls, pretrained_model_name_or_path):\n"
    "        raise OSError('of the script itself')\n",
    "bitsandbytes.optim": "def step():\n    raise RuntimeError('no kernel')\n",
}


@pytest.fixture
def libraries(monkeypatch):
    """Modules with the names of the libraries."""
    import sys

    made = {}
    for name, text in LIBRARIES.items():
        module = types.ModuleType(name)
        parent = types.ModuleType(name.partition(".")[0])
        setattr(parent, name.rpartition(".")[2], module)
        monkeypatch.setitem(sys.modules, parent.__name__, parent)
        monkeypatch.setitem(sys.modules, name, module)
        exec(text, module.__dict__)  # noqa: S102
        made[name] = module
    return made


def ended_for(script, libraries, *, uses_cpu=True):
    names = {name.rpartition(".")[2]: module for name, module in libraries.items()}
    try:
        exec(script, {"__name__": "__main__", **names})  # noqa: S102
    except Exception as error:
        return from_this_machine(error, uses_cpu=uses_cpu)
    raise AssertionError("the script goes on")


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("load.load_dataset('imdb')", "the data set `imdb` is not on this machine"),
        ("load.load_dataset('json', data_files={'train': ['a.json']})", "the data set `a.json` is not on this machine"),
        ("load.load_from_disk('tokens')", "the data set `tokens` is not on this machine"),
        ("file_download.hf_hub_download('a/b', 'x.bin')", "`x.bin` of `a/b` is not on this machine"),
        ("auto.AutoImageProcessor.from_pretrained('a/b')", "the image processor of `a/b` is not on this machine"),
        ("auto.LlamaForCausalLM.from_pretrained('a/b')", "the weights of `a/b` are not on this machine"),
        ("import flash_attn", "`flash_attn` computes on GPUs only"),
        ("raise ImportError('Using `bitsandbytes` 4-bit quantization requires it')", "`bitsandbytes` computes on GPUs"),
        ("optim.step()", "`bitsandbytes` computes on GPUs only"),
    ],
)
def test_the_name_that_the_script_gives_is_told(script, words, libraries):
    found = ended_for(script, libraries)
    assert found is not None
    assert found.startswith(words)


@pytest.mark.parametrize(
    "script",
    [
        "open('absent.txt')",
        "auto.LlamaForCausalLM.from_other('a/b')",
        "import absent_library",
        "raise ValueError('a loss of the script')",
        f"load.load_dataset({__file__!r}, 'no-split')",
    ],
)
def test_another_cause_is_not_taken_for_something_absent(script, libraries):
    assert ended_for(script, libraries) is None


def test_a_library_for_gpus_is_missed_on_cpus_alone(libraries):
    assert ended_for("import flash_attn", libraries, uses_cpu=False) is None


def test_an_error_that_a_script_passes_on_counts_and_one_that_it_leaves_behind_does_not(libraries):
    caught = "try:\n  load.load_dataset('imdb')\nexcept Exception as error:\n  raise RuntimeError('no data')"
    assert ended_for(caught, libraries) is None
    assert ended_for(f"{caught} from error", libraries).startswith("the data set `imdb` is not on this machine")
