"""Emacs and Eglot with the configuration that docs/editors.md shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from editor import PACKAGE, TYPO, WRONG, Workplace, shown

pytestmark = pytest.mark.client

DRIVER = Path(__file__).with_name("emacs.el")


@pytest.fixture
def workplace(tmp_path):
    return Workplace(tmp_path)


@pytest.fixture
def emacs(workplace, program):
    """Runs a scenario in Emacs, and returns what it answered."""
    binary = program("emacs")

    def run(scenario):
        init = workplace.home / "init.el"
        init.write_text(shown("Emacs", "elisp")[0], encoding="utf-8")
        script = workplace.home / "scenario.el"
        script.write_text(f";; -*- lexical-binding: t; coding: utf-8 -*-\n{scenario}\n(leave)\n", encoding="utf-8")
        workplace.run(binary, "--batch", "-l", str(DRIVER), "-l", str(init), "-l", str(script))
        return workplace.answers()

    return run


def test_findings_stand_where_the_keys_are(workplace, emacs):
    workplace.write("ds_config.json", TYPO)
    found = emacs("""
        (open "ds_config.json")
        (wait-for "diagnostics" #'flymake-diagnostics)
        (answer "findings" (findings))
    """)
    assert found["findings"] == ['"gradient_cliping"', '"output_pth"']


def test_other_files_have_no_server(workplace, emacs):
    workplace.write("package.json", PACKAGE)
    emacs('(open "package.json") (cl-assert (null (eglot-current-server)))')


def test_a_key_is_explained(workplace, emacs):
    workplace.write("ds_config.json", TYPO)
    found = emacs("""
        (open "ds_config.json")
        (search-forward "zero_opt")
        (let (shown)
          (eglot-hover-eldoc-function (lambda (text &rest _) (setq shown text)))
          (answer "shown" (substring-no-properties (wait-for "a hover" (lambda () shown)))))
    """)
    assert "zero_optimization" in found["shown"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"steps_per_p|": 10', '"steps_per_print": 10'),
        ('"tensorboard": {"job_name": "🚀", "output_p|": ""}', '"tensorboard": {"job_name": "🚀", "output_path": ""}'),
        ('"scheduler": {"type": "WarmupDec|"}', '"scheduler": {"type": "WarmupDecayLR"}'),
    ],
)
def test_what_is_typed_is_completed_between_its_quotes(workplace, emacs, before, after):
    whole = '{\n  "train_micro_batch_size_per_gpu": 1,\n  %s\n}\n'
    workplace.write("ds_config.json", whole % before.replace("|", ""))
    emacs(f"""
        (open "ds_config.json")
        (goto-char {(whole % before).index("|") + 1})
        (completion-at-point)
        (let ((inhibit-message t)) (save-buffer))
    """)
    assert workplace.text("ds_config.json") == whole % after


def test_a_fix_is_applied_where_the_point_is(workplace, emacs):
    workplace.write("ds_config.json", TYPO)
    found = emacs("""
        (open "ds_config.json")
        (wait-for "diagnostics" #'flymake-diagnostics)
        (search-forward "output_p")
        (let ((completing-read-function
               (lambda (_prompt choices &rest _)
                 (answer "titles" (all-completions "" choices))
                 (car (all-completions "" choices)))))
          (call-interactively #'eglot-code-actions))
        (wait-for "what is left" (lambda () (equal (findings) '("\\"gradient_cliping\\""))))
        (save-buffer)
    """)
    assert "output_path" in found["titles"][0]
    assert workplace.text("ds_config.json") == TYPO.replace("output_pth", "output_path")


def test_all_that_is_safe_is_fixed_at_once(workplace, emacs):
    workplace.write("ds_config.json", WRONG)
    emacs("""
        (open "ds_config.json")
        (wait-for "diagnostics" #'flymake-diagnostics)
        (call-interactively #'ds-lint-fix)
        (wait-for "no diagnostics" (lambda () (null (flymake-diagnostics))))
        (save-buffer)
    """)
    fixed = WRONG.replace("cliping", "clipping").replace("overlap_com", "overlap_comm")
    assert workplace.text("ds_config.json") == fixed
