"""Models that ship with ds-lint have exactly the parameters that are published with their weights."""

from __future__ import annotations

import pytest

from ds_lint.facts.model import load
from ds_lint.facts.published import published
from ds_lint.facts.shapes import count
from ds_lint.facts.unreadable import UnreadableFact
from ds_lint.knowledge import tables

# By the pages of the models, or of their safetensors files.
COUNTS = {
    "huggyllama/llama-7b": 6_738_415_616,
    "huggyllama/llama-13b": 13_015_864_320,
    "huggyllama/llama-30b": 32_528_943_616,
    "huggyllama/llama-65b": 65_285_660_672,
    "openlm-research/open_llama_3b": 3_426_473_600,
    "meta-llama/Llama-2-7b-hf": 6_738_415_616,
    "meta-llama/Llama-2-13b-hf": 13_015_864_320,
    "meta-llama/Llama-2-70b-hf": 68_976_648_192,
    "codellama/CodeLlama-7b-hf": 6_738_546_688,
    "codellama/CodeLlama-13b-hf": 13_016_028_160,
    "codellama/CodeLlama-34b-hf": 33_743_970_304,
    "meta-llama/Meta-Llama-3-8B": 8_030_261_248,
    "meta-llama/Meta-Llama-3-70B": 70_553_706_496,
    "meta-llama/Llama-3.1-8B": 8_030_261_248,
    "meta-llama/Llama-3.1-70B": 70_553_706_496,
    "meta-llama/Llama-3.1-405B": 405_853_388_800,
    "meta-llama/Llama-3.2-1B": 1_235_814_400,
    "meta-llama/Llama-3.2-3B": 3_212_749_824,
    "TinyLlama/TinyLlama-1.1B-Chat-v1.0": 1_100_048_384,
    "01-ai/Yi-6B": 6_061_035_520,
    "01-ai/Yi-1.5-9B": 8_829_407_232,
    "01-ai/Yi-34B": 34_388_917_248,
    "deepseek-ai/deepseek-llm-7b-base": 6_910_365_696,
    "deepseek-ai/deepseek-coder-1.3b-base": 1_346_471_936,
    "deepseek-ai/deepseek-coder-6.7b-base": 6_740_512_768,
    "deepseek-ai/deepseek-coder-33b-base": 33_342_991_360,
    "HuggingFaceTB/SmolLM2-135M": 134_515_008,
    "HuggingFaceTB/SmolLM2-360M": 361_821_120,
    "HuggingFaceTB/SmolLM2-1.7B": 1_711_376_384,
    "HuggingFaceTB/SmolLM3-3B": 3_075_098_624,
    "mistralai/Mistral-7B-v0.1": 7_241_732_096,
    "mistralai/Mistral-7B-v0.3": 7_248_023_552,
    "mistralai/Mistral-Nemo-Base-2407": 12_247_782_400,
    "mistralai/Mistral-Small-24B-Base-2501": 23_572_403_200,
    "mistralai/Ministral-8B-Instruct-2410": 8_019_808_256,
    "mistralai/Codestral-22B-v0.1": 22_247_282_688,
    "mistralai/Mistral-Large-Instruct-2407": 122_610_069_504,
    "mistralai/Mixtral-8x7B-v0.1": 46_702_792_704,
    "mistralai/Mixtral-8x22B-v0.1": 140_620_634_112,
    "mistralai/Mixtral-8x22B-Instruct-v0.1": 140_630_071_296,
    "Qwen/Qwen1.5-0.5B": 463_987_712,
    "Qwen/Qwen1.5-1.8B": 1_836_828_672,
    "Qwen/Qwen1.5-4B": 3_950_369_280,
    "Qwen/Qwen1.5-7B": 7_721_324_544,
    "Qwen/Qwen1.5-14B": 14_167_290_880,
    "Qwen/Qwen1.5-32B": 32_512_218_112,
    "Qwen/Qwen1.5-72B": 72_287_920_128,
    "Qwen/Qwen2.5-0.5B": 494_032_768,
    "Qwen/Qwen2.5-1.5B": 1_543_714_304,
    "Qwen/Qwen2.5-3B": 3_085_938_688,
    "Qwen/Qwen2.5-7B": 7_615_616_512,
    "Qwen/Qwen2.5-14B": 14_770_033_664,
    "Qwen/Qwen2.5-32B": 32_763_876_352,
    "Qwen/Qwen2.5-72B": 72_706_203_648,
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B": 1_777_088_000,
    "Qwen/Qwen1.5-MoE-A2.7B": 14_315_784_192,
    "Qwen/Qwen3-0.6B": 596_049_920,
    "Qwen/Qwen3-1.7B": 1_720_574_976,
    "Qwen/Qwen3-4B": 4_022_468_096,
    "Qwen/Qwen3-8B": 8_190_735_360,
    "Qwen/Qwen3-14B": 14_768_307_200,
    "Qwen/Qwen3-32B": 32_762_123_264,
    "Qwen/Qwen3-30B-A3B": 30_532_122_624,
    "Qwen/Qwen3-235B-A22B": 235_093_634_560,
    "Qwen/Qwen3-Coder-480B-A35B-Instruct": 480_154_875_392,
    "google/gemma-2b": 2_506_172_416,
    "google/gemma-7b": 8_537_680_896,
    "google/gemma-2-2b": 2_614_341_888,
    "google/gemma-2-9b": 9_241_705_984,
    "google/gemma-2-27b": 27_227_128_320,
    "google/gemma-3-270m": 268_098_176,
    "google/gemma-3-1b-pt": 999_885_952,
    "microsoft/phi-1_5": 1_418_270_720,
    "microsoft/phi-2": 2_779_683_840,
    "microsoft/Phi-3-mini-4k-instruct": 3_821_079_552,
    "microsoft/Phi-3-mini-128k-instruct": 3_821_079_552,
    "microsoft/Phi-3-medium-4k-instruct": 13_960_238_080,
    "microsoft/Phi-3-medium-128k-instruct": 13_960_238_080,
    "microsoft/phi-4": 14_659_507_200,
    "microsoft/Phi-4-mini-instruct": 3_836_021_760,
    "microsoft/Phi-3.5-MoE-instruct": 41_873_153_344,
    "openai-community/gpt2": 124_439_808,
    "openai-community/gpt2-medium": 354_823_168,
    "openai-community/gpt2-large": 774_030_080,
    "openai-community/gpt2-xl": 1_557_611_200,
    "distilbert/distilgpt2": 81_912_576,
    "facebook/opt-125m": 125_239_296,
    "facebook/opt-350m": 331_196_416,
    "facebook/opt-1.3b": 1_315_758_080,
    "facebook/opt-2.7b": 2_651_596_800,
    "facebook/opt-6.7b": 6_658_473_984,
    "facebook/opt-13b": 12_853_473_280,
    "facebook/opt-30b": 29_974_540_288,
    "bigscience/bloom-560m": 559_214_592,
    "bigscience/bloom-1b1": 1_065_314_304,
    "bigscience/bloom-1b7": 1_722_408_960,
    "bigscience/bloom-3b": 3_002_557_440,
    "bigscience/bloom-7b1": 7_069_016_064,
    "bigscience/bloom": 176_247_271_424,
    "EleutherAI/pythia-70m": 70_426_624,
    "EleutherAI/pythia-160m": 162_322_944,
    "EleutherAI/pythia-410m": 405_334_016,
    "EleutherAI/pythia-1b": 1_011_781_632,
    "EleutherAI/pythia-1.4b": 1_414_647_808,
    "EleutherAI/pythia-2.8b": 2_775_208_960,
    "EleutherAI/pythia-6.9b": 6_857_302_016,
    "EleutherAI/pythia-12b": 11_846_072_320,
    "EleutherAI/gpt-neox-20b": 20_554_567_680,
    "EleutherAI/gpt-j-6b": 6_050_882_784,
    "EleutherAI/gpt-neo-125m": 125_198_592,
    "EleutherAI/gpt-neo-1.3B": 1_315_575_808,
    "EleutherAI/gpt-neo-2.7B": 2_651_307_520,
    "tiiuae/falcon-7b": 6_921_720_704,
    "tiiuae/falcon-40b": 41_303_293_952,
    "tiiuae/falcon-rw-1b": 1_311_625_216,
    "mosaicml/mpt-7b": 6_649_286_656,
    "google-t5/t5-small": 60_506_624,
    "google-t5/t5-base": 222_903_552,
    "google-t5/t5-large": 737_668_096,
    "google-t5/t5-3b": 2_851_598_336,
    "google-t5/t5-11b": 11_307_321_344,
    "google/flan-t5-small": 76_961_152,
    "google/flan-t5-base": 247_577_856,
    "google/flan-t5-large": 783_150_080,
    "google/flan-t5-xl": 2_849_757_184,
    "google/flan-t5-xxl": 11_135_332_352,
    "google/mt5-small": 300_176_768,
    "google/mt5-base": 582_401_280,
    "google/mt5-large": 1_229_581_312,
    "google/mt5-xl": 3_742_619_648,
    "google/mt5-xxl": 12_921_057_280,
    "google-bert/bert-base-uncased": 109_514_298,
    "google-bert/bert-large-uncased": 335_174_458,
    "google-bert/bert-base-cased": 108_340_804,
    "google-bert/bert-large-cased": 333_610_308,
    "google-bert/bert-base-chinese": 102_290_312,
    "google-bert/bert-base-multilingual-cased": 177_974_523,
    "FacebookAI/roberta-base": 124_697_433,
    "FacebookAI/roberta-large": 355_412_057,
    "FacebookAI/xlm-roberta-base": 278_295_186,
    "FacebookAI/xlm-roberta-large": 560_142_482,
    "distilbert/distilbert-base-uncased": 66_985_530,
    "facebook/bart-base": 139_420_416,
    "facebook/bart-large": 406_291_456,
    "facebook/bart-large-cnn": 406_290_432,
    "facebook/mbart-large-50": 610_879_488,
    "facebook/nllb-200-distilled-600M": 615_073_792,
    "facebook/nllb-200-3.3B": 3_344_863_232,
    "zai-org/glm-4-9b": 9_399_951_360,
    "zai-org/chatglm2-6b": 6_243_584_000,
    "zai-org/chatglm3-6b": 6_243_584_000,
    "zai-org/glm-4-9b-hf": 9_399_951_360,
    "zai-org/GLM-4-9B-0414": 9_400_279_040,
    "zai-org/GLM-4-32B-0414": 32_566_081_536,
    "deepseek-ai/DeepSeek-V2-Lite": 15_706_484_224,
    "deepseek-ai/DeepSeek-V2": 235_741_434_880,
    "deepseek-ai/DeepSeek-V3": 671_026_404_352,
    "bigcode/starcoder2-3b": 3_030_371_328,
    "bigcode/starcoder2-7b": 7_173_923_840,
    "bigcode/starcoder2-15b": 15_957_889_024,
    "bigcode/starcoder": 15_517_456_384,
    "allenai/OLMo-1B-hf": 1_176_764_416,
    "allenai/OLMo-7B-hf": 6_888_095_744,
    "allenai/OLMo-2-1124-7B": 7_298_617_344,
    "allenai/OLMo-2-1124-13B": 13_716_198_400,
    "allenai/OLMo-2-0425-1B": 1_484_916_736,
    "allenai/OLMoE-1B-7B-0924": 6_919_161_856,
    "stabilityai/stablelm-2-1_6b": 1_644_515_328,
    "stabilityai/stablelm-3b-4e1t": 2_795_443_200,
    "CohereForAI/c4ai-command-r-v01": 34_980_831_232,
    "CohereForAI/aya-expanse-8b": 8_028_033_024,
    "openai/gpt-oss-20b": 20_914_757_184,
    "openai/gpt-oss-120b": 116_829_156_672,
    "ibm-granite/granite-3.0-2b-base": 2_533_531_648,
    "ibm-granite/granite-3.0-8b-base": 8_170_848_256,
    "ByteDance-Seed/Seed-OSS-36B-Base": 36_151_104_512,
    "baidu/ERNIE-4.5-0.3B-PT": 360_748_032,
    "swiss-ai/Apertus-8B-2509": 8_053_338_176,
    "openai/whisper-large-v3": 1_543_490_560,
    "openai/whisper-small": 241_734_912,
    "Qwen/Qwen2-VL-2B-Instruct": 2_208_985_600,
    "Qwen/Qwen2-VL-7B-Instruct": 8_291_375_616,
    "Qwen/Qwen2-VL-72B-Instruct": 73_405_560_320,
    "Qwen/Qwen2.5-VL-3B-Instruct": 3_754_622_976,
    "Qwen/Qwen2.5-VL-7B-Instruct": 8_292_166_656,
    "Qwen/Qwen2.5-VL-32B-Instruct": 33_452_718_336,
    "Qwen/Qwen2.5-VL-72B-Instruct": 73_410_777_344,
    "google/gemma-3-4b-pt": 4_300_079_472,
    "google/gemma-3-12b-pt": 12_187_325_040,
    "google/gemma-3-27b-pt": 27_432_406_640,
    "llava-hf/llava-1.5-7b-hf": 7_063_427_072,
}
# Their weights hold the output embeddings a second time; transformers 5 shares them with the input embeddings.
SHARED_SINCE = ("google/flan-t5-", "google/mt5-")


@pytest.mark.parametrize("name", COUNTS)
def test_the_shapes_give_the_published_count(name):
    config = tables.load("published_models")["models"][name]
    shared = config["vocab_size"] * config["d_model"] if name.startswith(SHARED_SINCE) else 0
    assert count(config) + shared == COUNTS[name]


def test_every_model_has_a_published_count():
    store = tables.load("published_models")
    assert store["models"].keys() == COUNTS.keys()
    assert set(store["also"].values()) <= COUNTS.keys()
    assert not store["also"].keys() & COUNTS.keys()


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("meta-llama/Llama-2-7b-hf", "meta-llama/Llama-2-7b-hf"),
        ("llama-2-7b", "meta-llama/Llama-2-7b-hf"),
        ("meta-llama/Llama-2-7b-chat-hf", "meta-llama/Llama-2-7b-hf"),
        ("NousResearch/Llama-2-7b-hf", "meta-llama/Llama-2-7b-hf"),
        ("meta-llama/Meta-Llama-3-8B-Instruct", "meta-llama/Meta-Llama-3-8B"),
        ("Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B"),
        ("mistralai/Mistral-7B-Instruct-v0.2", "mistralai/Mistral-7B-v0.1"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "mistralai/Mistral-7B-v0.3"),
        ("qwen/qwen2.5-7b-instruct", "Qwen/Qwen2.5-7B"),
        ("Qwen2.5-Coder-32B-Instruct", "Qwen/Qwen2.5-32B"),
        ("google/gemma-2-9b-it", "google/gemma-2-9b"),
        ("gpt2", "openai-community/gpt2"),
        ("t5-base", "google-t5/t5-base"),
        ("bigscience/T0_3B", "google/flan-t5-xl"),
        ("models/T0pp", "google/flan-t5-xxl"),
        ("bert-base-uncased", "google-bert/bert-base-uncased"),
        ("deepseek-ai/DeepSeek-R1", "deepseek-ai/DeepSeek-V3"),
        ("THUDM/glm-4-9b-chat", "zai-org/glm-4-9b"),
        ("Qwen2.5-VL-7B", "Qwen/Qwen2.5-VL-7B-Instruct"),
    ],
)
def test_a_name_is_found_in_its_spellings(name, meant):
    found, config = published(name)
    assert (found, config) == (meant, tables.load("published_models")["models"][meant])


@pytest.mark.parametrize(
    "name", ["t5", "bert", "Qwen2.5-7B-Instruct-GPTQ-Int4", "Qwen2.5-8B", "unsloth/llama-3-8b-bnb-4bit", "", "7b", "hf"]
)
def test_another_model_is_not_found(name):
    assert published(name) is None


def test_variants_do_not_make_two_models_one():
    """A name without its variant stands for one size: what two models would share tells them apart."""
    store = tables.load("published_models")
    for name, meant in {**{one: one for one in store["models"]}, **store["also"]}.items():
        assert count(store["models"][published(name)[0]]) == count(store["models"][meant])


def test_a_name_that_is_not_in_the_cache_is_one_that_ships(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    model = load("Qwen/Qwen2.5-7B-Instruct")
    assert (model.model_type, model.parameter_count, model.dtype) == ("qwen2", 7_615_616_512, "bfloat16")
    assert model.origin == "Qwen/Qwen2.5-7B-Instruct, by the shapes of Qwen/Qwen2.5-7B that ship with ds-lint"
    with pytest.raises(UnreadableFact, match="ds-lint does not know its shapes"):
        load("Qwen/Qwen9-7B")
