"""Configs in Markdown through the whole of ds-lint: when it is searched, and what is checked of a block."""

from __future__ import annotations

import json

import pytest

TEXT = """\
# Training

Start with ZeRO:

1. Write the config:

   ```json
   {
     "zero_optimization": {
       "stage": 2,
       "overlap_com": true,
       ...
     },
     "gradient_clipping": "0.5"
   }
   ```

> ```python
> config = {"train_micro_batch_size_per_gpu": 4, "gradient_cliping": 1.0, "bf16": {"enabled": True}}
> engine = deepspeed.initialize(model=model, config=config)
> ```
"""
FIXED = TEXT.replace("overlap_com", "overlap_comm").replace('"0.5"', "0.5").replace("cliping", "clipping")


@pytest.fixture
def page(tmp_path):
    path = tmp_path / "README.md"
    path.write_text(TEXT)
    return path


def shown(run, *arguments):
    files = json.loads(run("check", "--show-files", "--output-format", "json", *arguments).stdout)["files"]
    return [(file["path"], file["kind"], [config["line"] for config in file["configs"]]) for file in files]


def test_markdown_is_searched_only_if_asked_for(run, page, tmp_path):
    found = ("./README.md", "markdown", [8, 19])
    assert shown(run) == []
    assert shown(run, "--include-markdown") == [found]
    assert shown(run, "README.md") == [("README.md", *found[1:])]
    (tmp_path / "ds-lint.toml").write_text("include-markdown = true\n")
    assert shown(run) == [found]
    assert shown(run, "--no-include-markdown") == []
    settings = run("check", "--show-settings", "--output-format", "json").stdout
    assert '"include-markdown"' in settings


def test_a_fragment_is_checked_for_what_it_says(run, page):
    report = json.loads(run("check", "--output-format", "json", "README.md").stdout)
    found = [(one["code"], one["key"], one["span"]["start"]["line"]) for one in report["findings"]]
    assert found[:3] == [
        ("DS101", "zero_optimization.overlap_com", 11),
        ("DS201", "gradient_clipping", 14),
        ("DS101", "gradient_cliping", 19),
    ]
    assert all(line == 19 for _, _, line in found[3:])
    assert len(report["files"]) == 2


def test_blocks_are_fixed(run, page):
    run("check", "--fix", "--unsafe-fixes", "--select", "DS101,DS201", "README.md")
    assert page.read_text() == FIXED


def test_a_comment_at_the_top_suppresses_findings(run, page):
    page.write_text(f"<!-- ds-lint: ignore-file[unknown-key] -->\n{TEXT}")
    result = run("check", "--output-format", "concise", "README.md")
    assert "DS101" not in result.stdout
    assert "DS201" in result.stdout


def test_accelerates_yaml_is_checked_and_a_part_of_it_for_what_it_says(run, page):
    block = "```yaml\n{}distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stag: 3\n```\n"
    page.write_text(block.format("compute_environment: LOCAL_MACHINE\nnum_processes: 4\n") + block.format(""))
    found = json.loads(run("check", str(page), "--output-format", "json").stdout)["findings"]
    assert [(finding["code"], finding["span"]["start"]["line"]) for finding in found] == [("DS653", 6), ("DS653", 11)]


def test_what_a_part_of_a_yaml_for_fsdp_leaves_out_may_decide(run, page):
    policy = "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
    block = "```yaml\ndistributed_type: FSDP\nfsdp_config:\n{}  fsdp_reshard_after_forward: false\n```\n"
    page.write_text(block.format("") + block.format(f"  fsdp_version: 1\n{policy}"))
    found = json.loads(run("check", str(page), "--output-format", "json").stdout)["findings"]
    assert [(finding["code"], finding["span"]["start"]["line"]) for finding in found] == [("DS653", 11)]


def test_a_block_of_yaml_that_pyyaml_cannot_read_is_a_finding(run, tmp_path):
    broken = "```yml\ncompute_environment:i\ndeepspeed_config:\n```\n"
    unknown = "```yml\ncompute_environment:\ni:xedprecin:\nnum_processes:"
    (tmp_path / "README.md").write_text(broken + unknown)
    done = run("check", "README.md")
    assert (done.returncode, done.stderr) == (1, "")
    assert "DS650" in done.stdout
