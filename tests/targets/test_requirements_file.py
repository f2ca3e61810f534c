from __future__ import annotations

import pytest

from ds_lint.targets.files import requirements_of


@pytest.mark.parametrize(
    ("text", "specifier", "line"),
    [
        ("deepspeed==0.16.9", "==0.16.9", 1),
        ("\n\ndeepspeed==0.16.9", "==0.16.9", 3),
        ("deepspeed==0.16.9# no comment", None, None),
        ("deepspeed==0.16.9\t# a comment", "==0.16.9", 1),
        ("# deepspeed==0.1.0 \\\ndeepspeed==0.16.9", "==0.16.9", 2),
        ("tqdm\ndeepspeed\\\n==\\\n0.16.9", "==0.16.9", 2),
        ("deepspeed==0.16.9 \\\n    --hash=sha256:00 \\\n    # via a", "==0.16.9", 1),
        ("deepspeed==0.16.9 \\", "==0.16.9", 1),
        ("deepspeed==0.16.9 --config-settings='a'", "==0.16.9", 1),
        ("-e git+https://github.com/deepspeedai/DeepSpeed@v0.16.9", "==0.16.9", 1),
        ("--editable=git+https://github.com/deepspeedai/DeepSpeed@v0.16.9", "==0.16.9", 1),
        ("--find-links https://example.org/deepspeed-0.16.9.tar.gz", None, None),
        ("--extra-index-url https://example.org/deepspeed", None, None),
        ("\r\ndeepspeed==0.16.9\r\n", "==0.16.9", 2),
    ],
)
def test_the_lines_of_a_file(project, text, specifier, line):
    project({"requirements.txt": ""})
    with open("requirements.txt", "w", encoding="utf-8", newline="") as file:
        file.write(text)
    found = [(each.specifier, str(each.place)) for each in requirements_of("requirements.txt")]
    assert found == ([(specifier, f"requirements.txt:{line}")] if specifier else [])


@pytest.mark.parametrize("option", ["-r ", "-r", "-c ", "--requirement ", "--requirement=", "--constraint="])
def test_files_include_files(project, option):
    project({"a/requirements.txt": f"{option}../b/more.txt", "b/more.txt": "\n-r ../a/requirements.txt\ndeepspeed<1"})
    assert [str(each.place) for each in requirements_of("a/requirements.txt")] == ["b/more.txt:3"]
