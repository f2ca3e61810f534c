"""Releases are listed and unpacked with pip, from an index that is a folder here, and nothing of them is run."""

from __future__ import annotations

import io
import tarfile
import zipfile

import pytest

from tools.extract.releases import UnavailableError, available, fetch, is_final

pytest.importorskip("pip")

METADATA = "Metadata-Version: 2.1\nName: made-library\nVersion: {release}\n"
SETUP = "raise SystemExit('setup.py was run')"


@pytest.fixture(autouse=True)
def index(tmp_path, monkeypatch):
    """An index with source distributions, one wheel and releases that are not final."""
    folder = tmp_path / "index"
    folder.mkdir()
    for release in ("0.9.0", "0.10.0", "1.0.0rc1", "1.0.0"):
        source_distribution(folder, release)
    wheel(folder, "1.0.0")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))


def source_distribution(folder, release, extra=()):
    members = {
        "PKG-INFO": METADATA.format(release=release),
        "setup.py": SETUP,
        "made_library/__init__.py": "",
        **dict(extra),
    }
    with tarfile.open(folder / f"made_library-{release}.tar.gz", "w:gz") as archive:
        for name, text in members.items():
            member = tarfile.TarInfo(f"made_library-{release}/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))


def wheel(folder, release):
    with zipfile.ZipFile(folder / f"made_library-{release}-py3-none-any.whl", "w") as archive:
        archive.writestr("made_library/from_wheel.py", "")
        archive.writestr(f"made_library-{release}.dist-info/METADATA", METADATA.format(release=release))
        archive.writestr(f"made_library-{release}.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"made_library-{release}.dist-info/RECORD", "")


def wheel_of_torch(folder, release, tag):
    with zipfile.ZipFile(folder / f"torch-{release}-{tag}.whl", "w") as archive:
        for name in ("torch/__init__.py", "torch/optim/sgd.py", "torch/lib/libtorch.dylib", "functorch/x.py"):
            archive.writestr(name, "")
        metadata = METADATA.format(release=release).replace("made-library", "torch")
        archive.writestr(f"torch-{release}.dist-info/METADATA", metadata)
        archive.writestr(f"torch-{release}.dist-info/WHEEL", f"Wheel-Version: 1.0\nTag: {tag}\n")
        archive.writestr(f"torch-{release}.dist-info/RECORD", "")


def test_final_releases_by_number():
    assert available("made-library") == ["0.9.0", "0.10.0", "1.0.0"]


def test_a_source_distribution_is_unpacked_and_not_built(tmp_path):
    tree = fetch("made-library", "0.10.0", tmp_path / "cache")
    assert (tree / "made_library" / "__init__.py").is_file()
    assert (tree / "setup.py").read_text() == SETUP


def test_a_wheel_is_preferred(tmp_path):
    tree = fetch("made-library", "1.0.0", tmp_path / "cache")
    assert (tree / "made_library" / "from_wheel.py").is_file()


def test_what_was_fetched_is_not_fetched_again(tmp_path, monkeypatch):
    tree = fetch("made-library", "0.9.0", tmp_path / "cache")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    assert fetch("made-library", "0.9.0", tmp_path / "cache") == tree


def test_a_download_leaves_nothing_but_the_tree(tmp_path):
    tree = fetch("made-library", "0.9.0", tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == [tree]


def test_a_member_that_would_lie_outside_of_the_tree_is_refused(tmp_path):
    source_distribution(tmp_path / "index", "2.0.0", {"../../outside": "text"})
    with pytest.raises(UnavailableError, match="outside"):
        fetch("made-library", "2.0.0", tmp_path / "cache")


def test_of_torch_the_python_files_of_the_wheel_for_macos_are_kept(tmp_path):
    wheel_of_torch(tmp_path / "index", "2.0.1", "cp311-cp311-manylinux_2_28_x86_64")  # which is not even looked at
    wheel_of_torch(tmp_path / "index", "2.0.1", "cp310-none-macosx_11_0_arm64")
    tree = fetch("torch", "2.0.1", tmp_path / "cache")
    assert {str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()} == {
        "torch/__init__.py",
        "torch/optim/sgd.py",
        "torch-2.0.1.dist-info/METADATA",
    }


def test_a_release_of_torch_without_a_wheel_for_macos_is_one_line(tmp_path):
    wheel_of_torch(tmp_path / "index", "2.0.1", "cp311-cp311-manylinux_2_28_x86_64")
    with pytest.raises(UnavailableError, match=r"^pip: No matching distribution found for torch==2\.0\.1$"):
        fetch("torch", "2.0.1", tmp_path / "cache")


def test_what_may_be_installed_does_not_bound_what_is_read(tmp_path, monkeypatch):
    constraints, configuration = tmp_path / "constraints.txt", tmp_path / "pip.conf"
    constraints.write_text("made-library<0.10\n")
    configuration.write_text(f"[global]\nconstraint = {constraints}\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(configuration))
    assert fetch("made-library", "0.10.0", tmp_path / "cache").is_dir()
    monkeypatch.setenv("PIP_CONSTRAINT", str(constraints))
    assert fetch("made-library", "1.0.0", tmp_path / "cache").is_dir()


@pytest.mark.parametrize("release", ["9.9.9", "not a number"])
def test_a_release_that_does_not_exist_is_one_line(tmp_path, release):
    with pytest.raises(UnavailableError) as raised:
        fetch("made-library", release, tmp_path / "cache")
    assert "\n" not in str(raised.value)


def test_a_library_that_does_not_exist():
    with pytest.raises(UnavailableError, match="no-such-library"):
        available("no-such-library")


def test_an_index_that_cannot_be_reached(tmp_path, monkeypatch):
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/")
    monkeypatch.setenv("PIP_RETRIES", "1")
    with pytest.raises(UnavailableError, match="cannot reach the package index"):
        fetch("made-library", "9.9.9", tmp_path / "cache")


@pytest.mark.parametrize(
    ("release", "final"), [("1.0", True), ("0.10.2", True), ("1.0rc1", False), ("1.0.dev3", False)]
)
def test_final_releases(release, final):
    assert is_final(release) is final
