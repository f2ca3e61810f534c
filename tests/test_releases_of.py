"""``python -m tools.releases_of`` on made-up releases: what it runs, reads, prints, writes and refuses."""

from __future__ import annotations

import json

import pytest

from tools.extract.releases import UnavailableError
from tools.releases_of import __main__ as command
from tools.releases_of import environments, stand_ins
from tools.releases_of.environments import Need
from tools.releases_of.outcomes import agree, is_right
from tools.releases_of.ranges import Stretch, stretches, within, words
from tools.releases_of.trees import Trees

# What each release of a made-up library does; 1.10 comes after 1.9.
RELEASES = {
    "1.8": "VALUE = 1.0\n",
    "1.9": "VALUE = 0.25  # lost\n",
    "1.10": "VALUE = 1.0\n",
    "1.11": "VALUE = 0.25  # lost\nLATER = True\n",
    "2.0": "VALUE = 1.0\n",
}
CLAIM = "import sys\nimport made\nprint('noise')\nprint(f'{made.VALUE * int(sys.argv[1]):.3f}')\n"
CHILD = "import sys\nprint('a.b.OddError: of a child\\n  more', file=sys.stderr, flush=True)\n"
PATTERN = [{"file": "made/__init__.py", "regex": "# lost$"}]


def publish(folder, library, release, text):
    package = folder / f"{library}-{release}" / library
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(text, encoding="utf-8")


@pytest.fixture
def folder(tmp_path):
    for release, text in RELEASES.items():
        publish(tmp_path / "releases", "made", release, text)
    return tmp_path


@pytest.fixture
def ask(folder, monkeypatch, capsys):
    """Runs the command, offline, and returns its status and what it prints."""

    def unavailable(*_):
        raise UnavailableError("pip cannot reach the package index")

    monkeypatch.setattr("tools.releases_of.trees.available", lambda _: [*RELEASES])
    monkeypatch.setattr("tools.releases_of.trees.fetch", unavailable)
    monkeypatch.setattr(environments, "installed_release", lambda _: None)
    monkeypatch.chdir(folder)

    def ask(*arguments):
        try:
            status = command.main(
                ["--releases-in", str(folder / "releases"), "--cache", str(folder / "cache"), *arguments]
            )
        except SystemExit as stopped:
            status = stopped.code
        return status, *capsys.readouterr()

    return ask


@pytest.fixture
def claim(folder):
    def claim(text, name="claim"):
        path = folder / "claims" / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return str(path)

    return claim


# ---------------------------------------------------------------------------------------------- asking a claim


def test_a_defect_that_comes_and_goes_and_comes_again(ask, claim):
    status, out, _ = ask(claim(CLAIM), "--library", "made", "--right", "4", "--", "4")
    assert status == 0
    assert out.splitlines() == [
        "made 1.8   4.000",
        "made 1.9   1.000",
        "made 1.10  4.000",
        "made 1.11  1.000",
        "made 2.0   4.000",
        "affected: 1.9, 1.11",
    ]


def test_a_specifier_chooses_releases_and_names_are_put_in_order(ask, claim):
    path = claim(CLAIM)
    assert ask(path, "--library", "made", "--releases", ">1.9", "<2", "--", "4")[1].split() == [
        "made", "1.10", "4.000", "made", "1.11", "1.000",
    ]  # fmt: skip
    found = ask(path, "--library", "made", "--releases", "1.10", "1.9", "--", "4")[1].split()
    assert found == ["made", "1.9", "1.000", "made", "1.10", "4.000"]


def test_the_table_for_programs(ask, claim):
    arguments = ["--library", "made", "--releases", "1.8", "1.9", "3.0", "--right", "1.000", "--json", "--", "1"]
    status, out, _ = ask(claim(CLAIM), *arguments)
    assert status == 0
    assert json.loads(out) == {
        "library": "made",
        "claim": "claim",
        "arguments": ["1"],
        "ranks": 1,
        "right": "1.000",
        "measured": {"1.8": "1.000", "1.9": "0.250"},
        "unanswered": {"3.0": "pip cannot reach the package index"},
        "stretches": [{"introduced": "1.9", "fixed": None}],
    }


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("import made, time\ntime.sleep(60)\n", "hangs"),
        ("import made\nraise TypeError('a' * 200 + '\\nand more')\n", f"TypeError: {'a' * 100}"),
        ("import made, json\njson.loads('{')\n", "json.decoder.JSONDecodeError: Expecting property name"),
        ("import made\nassert made.VALUE == 0\n", "AssertionError"),
        ("import made, sys\nsys.exit('cannot go on')\n", "SystemExit: cannot go on"),
        ("import made, sys\nprint('completes')\nsys.exit()\n", "completes"),
        ("import made, os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n", "ends with SIGSEGV"),
        ("import made, os\nos._exit(3)\n", "ends with status 3"),
        (f"import made, sys\n{CHILD}sys.exit(1)\n", "a.b.OddError: of a child"),
        (f"import made, os\n{CHILD}os._exit(1)\n", "a.b.OddError: of a child"),
        ("import made\n", "prints nothing"),
        ("import made, pathlib\npathlib.Path('left').touch()\nprint(*pathlib.Path().glob('le*'))", "left"),
    ],
)
def test_outcomes(ask, claim, folder, text, outcome):
    timeout = "3" if outcome == "hangs" else "60"
    status, out, _ = ask(claim(text), "--library", "made", "--releases", "1.8", "--timeout", timeout)
    assert status == 0
    assert out.startswith(f"made 1.8  {outcome}")
    assert not (folder / "left").exists()


def test_a_release_that_cannot_be_imported_gives_no_answer(ask, claim, folder):
    publish(folder / "releases", "made", "1.7", "import not_there\n")
    _, out, _ = ask(claim(CLAIM), "--library", "made", "--releases", "1.7", "1.8", "--right", "1", "--", "1")
    assert out.splitlines() == [
        "made 1.7  cannot be imported: ModuleNotFoundError: No module named 'not_there'",
        "made 1.8  1.000",
        "affected: none",
        "no answer: 1.7",
    ]


RANKS = """\
import os, pathlib, sys, time
import made
rank = int(os.environ["RANK"])
pathlib.Path(f"rank-{rank}").touch()
while len(list(pathlib.Path().glob("rank-*"))) < int(os.environ["WORLD_SIZE"]):
    time.sleep(0.01)
if rank == int(sys.argv[1]):
    raise ValueError(f"on rank {rank}")
if rank == int(sys.argv[2]):
    time.sleep(60)
print(f"{rank} of {os.environ['WORLD_SIZE']}")
"""


@pytest.mark.parametrize(
    ("raising", "sleeping", "outcome"),
    [("-1", "-1", "0 of 2"), ("1", "-1", "ValueError: on rank 1"), ("1", "0", "ValueError: on rank 1")],
)
def test_several_ranks(ask, claim, raising, sleeping, outcome):
    arguments = ["--library", "made", "--releases", "1.8", "--ranks", "2", "--timeout", "60"]
    assert ask(claim(RANKS), *arguments, "--", raising, sleeping)[1] == f"made 1.8  {outcome}\n"


def test_a_release_of_another_library_beside_it(ask, claim, folder):
    publish(folder / "releases", "other", "0.5", "VALUE = 5\n")
    text = "import made, other\nprint(made.VALUE + other.VALUE)\n"
    arguments = ["--library", "made", "--releases", "1.8", "--with", "other==0.5"]
    assert ask(claim(text), *arguments)[1] == "made 1.8  6.0\n"


def test_another_build_of_torch_is_not_installed(ask, claim):
    arguments = ["--library", "made", "--releases", "1.8", "--with", "torch==1.13.0", "--right", "1"]
    _, out, _ = ask(claim(CLAIM), *arguments)
    assert out.startswith("made 1.8  needs torch 1.13.0, and ")
    assert out.endswith("affected: none\nno answer: 1.8\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "a claim, --patterns or --newest is missing"),
        (["claim.py"], "claim.py is not a file"),
        (["claim.py", "--with", "torch"], "argument --with: torch is not LIBRARY==RELEASE"),
        (["claim.py", "--ranks", "0"], "argument --ranks: 0 ranks cannot be started"),
        (["--patterns", "none.json"], "FileNotFoundError: "),
    ],
)
def test_wrong_usage_is_one_line(ask, arguments, message):
    status, _, error = ask(*arguments)
    assert (status, error.startswith(f"error: {message}"), error.count("\n")) == (2, True, 1)


# ---------------------------------------------------------------------------------------------- ranges


def test_stretches():
    releases = [*RELEASES]
    assert stretches(releases, {"1.9", "1.11"}) == [Stretch("1.9", "1.10"), Stretch("1.11", "2.0")]
    assert stretches(releases, {"1.8", "1.9", "2.0"}) == [Stretch(None, "1.10"), Stretch("2.0", None)]
    assert stretches(releases, set()) == []
    for affected in ({"1.8", "1.10"}, {"1.9", "1.10", "1.11"}, set(releases)):
        assert within(releases, stretches(releases, affected)) == affected
    assert words(releases, {"1.8", "1.9", "1.10", "2.0"}) == "1.8 to 1.10, 2.0"


@pytest.mark.parametrize(
    ("outcome", "right", "expected"),
    [
        ("1.000", "1", True),
        ("1.049", "1.000", True),
        ("1.051", "1.000", False),
        ("0.000", "0.000", True),
        ("0.010", "0.000", False),
        ("nan", "1.000", False),
        ("completes", "completes", True),
        ("TypeError: no", "completes", False),
        ("TypeError: no", "1.000", False),
    ],
)
def test_what_is_right(outcome, right, expected):
    assert is_right(outcome, right) == expected


@pytest.mark.parametrize(
    ("outcome", "measured", "expected"),
    [
        ("0.250", "0.255", True),
        ("0.250", "0.900", True),  # both too small
        ("0.250", "4.000", False),
        ("1.000", "0.250", False),
        ("1.040", "1.000", True),
        ("TypeError: at 0x7f10 in /tmp/a/b.py", "TypeError: at 0x12 in /var/c.py", True),
        ("TypeError: no", "ValueError: no", False),
        ("TypeError: one", "TypeError: other", False),
        ("torch.distributed.DistBackendError: port 1234 is taken", "DistBackendError: port 99 is taken", True),
        ("hangs", "HANGS (60 s)", True),
        ("AssertionError", "AssertionError", True),
        ("0.250", "TypeError: no", False),
    ],
)
def test_runs_that_agree(outcome, measured, expected):
    assert agree(outcome, measured, "1.000") == expected


# ---------------------------------------------------------------------------------------------- a store


def record(*parts, identifier="DSA-1", **proof):
    stored = [{"introduced": introduced, "fixed": fixed, "pattern": PATTERN} for introduced, fixed in parts]
    return {"id": identifier, "libraries": {"made": stored}, "proof": proof or {"kind": "source"}}


@pytest.fixture
def store(folder):
    path = folder / "store.json"

    def store(*records):
        path.write_text(json.dumps({"advisories": records}, indent=2) + "\n", encoding="utf-8")
        return path

    return store


TRUE = [("1.9", "1.10"), ("1.11", "2.0")]


def test_ranges_that_the_sources_confirm(ask, store):
    assert ask("--patterns", str(store(record(*TRUE)))) == (0, "", "")


def test_ranges_that_the_sources_contradict(ask, store):
    path = store(record(("1.9", "2.0")), record(*TRUE, identifier="DSA-2"))
    before = path.read_text(encoding="utf-8")
    line = "DSA-1: made: the store has 1.9 to 1.11, the sources 1.9, 1.11\n"
    assert ask("--patterns", str(path)) == (1, line, "")
    assert path.read_text(encoding="utf-8") == before
    assert ask("--patterns", str(path), "--write") == (0, line, "")
    assert path.read_text(encoding="utf-8") == store(record(*TRUE), record(*TRUE, identifier="DSA-2")).read_text(
        encoding="utf-8"
    )


def test_a_stretch_without_a_pattern_stays(ask, store):
    mixed = record(("1.11", None))
    mixed["libraries"]["made"].append({"introduced": None, "fixed": "1.9"})
    path = store(mixed)
    assert ask("--patterns", str(path), "--write")[0] == 0
    (written,) = json.loads(path.read_text(encoding="utf-8"))["advisories"]
    assert [(one["introduced"], one["fixed"]) for one in written["libraries"]["made"]] == [(None, "1.9"), *TRUE]


def test_the_parts_of_a_pattern(ask, store, folder):
    def found(*pattern):
        one = record((None, None))
        one["libraries"]["made"][0]["pattern"] = pattern
        out = ask("--patterns", str(store(one)))[1]
        return out.removeprefix("DSA-1: made: the store has 1.8 to 2.0, the sources ").strip()

    file, missing = "made/__init__.py", "made/other.py"
    assert found({"file": file, "regex": "lost"}, {"file": file, "without": "LATER"}) == "1.9"
    assert found({"file": file, "regex": "VALUE.*lost.*LATER"}) == "1.11"
    assert found({"file": missing, "regex": ""}) == "none"
    assert found({"file": missing, "without": ""}, {"file": file, "regex": "^VALUE = 1"}) == "1.8, 1.10, 2.0"


@pytest.mark.parametrize("pattern", [[{"file": "a.py"}], [{"file": "made/__init__.py", "regex": "("}]])
def test_a_pattern_that_cannot_be_read(ask, store, pattern):
    one = record((None, None))
    one["libraries"]["made"][0]["pattern"] = pattern
    status, _, error = ask("--patterns", str(store(one)))
    assert (status, error.startswith("error: "), error.count("\n")) == (2, True, 1)


def proved(*parts, identifier="DSA-1", name="claim", needs=None):
    run = {"kind": "run", "claim": name, "library": "made", "arguments": ["1"], "ranks": 1, "right": "1.000"}
    return record(*parts, identifier=identifier, **run, measured={}, needs=needs or {})


def test_the_newest_release_agrees(ask, store, claim, folder):
    claim(CLAIM)
    path = store(proved(*TRUE))
    status, out, error = ask("--newest", str(path), "--claims", str(folder / "claims"))
    assert (status, out) == (0, "")
    assert error.splitlines() == ["newest: made 2.0", "DSA-1: made 2.0: 1.000"]


def test_the_newest_release_contradicts(ask, store, claim, folder):
    claim(CLAIM)
    claim("import made\nraise TypeError('other')\n", "raising")
    open_range = [("1.9", None)]
    path = store(
        proved(*open_range),
        proved(*TRUE, identifier="DSA-2", name="raising"),
        proved(*open_range, identifier="DSA-3", needs={"torch": "1.13.0"}),
    )
    status, out, _ = ask("--newest", str(path), "--claims", str(folder / "claims"))
    assert status == 1
    lines = out.splitlines()
    assert lines[:-1] == [
        "DSA-1: made 2.0 does not have its pattern, but the store has it as affected",
        "DSA-3: made 2.0 does not have its pattern, but the store has it as affected",
        "DSA-1: made 2.0: claim gives 1.000 (right: 1.000), but the store has it as affected",
        "DSA-2: made 2.0: raising gives TypeError: other (right: 1.000), but the store has it as not affected",
    ]
    assert lines[-1].startswith("DSA-3: made 2.0: claim cannot be run: needs torch 1.13.0, and ")


# ---------------------------------------------------------------------------------------------- environments


def test_the_stretches_of_a_need():
    bounded = Need("why", since="0.9.3", until="0.10.3")
    releases = ["0.9.2", "0.9.3", "0.10.0", "0.10.3", "0.11.0"]
    assert [release for release in releases if bounded.is_of(release)] == releases[1:4]
    assert Need("why").is_of("0.1")


def test_the_table_names_what_there_is():
    rows = [row for rows in environments.needs().values() for row in rows]
    assert {row.stand_in for row in rows if row.stand_in} == {*stand_ins.BEFORE, *stand_ins.AFTER}
    for row in rows:
        assert row.why
        assert sum(one is not None for one in (row.requires, row.beside, row.stand_in)) == 1


def test_what_does_not_fit_is_installed_with_what_it_demands(tmp_path, monkeypatch):
    def metadata(folder, name, release, *demands):
        path = folder / f"{name}-{release}.dist-info"
        path.mkdir(parents=True)
        lines = [f"Name: {name}", f"Version: {release}", *(f"Requires-Dist: {one}" for one in demands)]
        (path / "METADATA").write_text("Metadata-Version: 2.1\n" + "\n".join(lines) + "\n", encoding="utf-8")

    calls = []

    def install(requirements, target):
        calls.append(requirements)
        metadata(target, *(("tokens", "0.9", "hub>=1") if "tokens<1" in requirements else ("hub", "1.5")))

    present = {"tokens": "1.2", "arrays": "2.0", "torch": "2.0"}
    monkeypatch.setattr(environments, "installed_release", present.get)
    monkeypatch.setattr(environments, "_install", install)
    demands = (
        "tokens<1",
        "arrays>=1",
        "torch>=9",
        'extra; extra == "all"',
        "nvidia-ml-py",
        "old; python_version < '3'",
    )
    metadata(tmp_path / "made-1.0", "made", "1.0", *demands)
    trees = Trees(tmp_path / "cache", (tmp_path,))
    found = environments.fit({"made": "1.0"}, trees)
    assert calls == [["tokens<1"], ["hub>=1"]]
    assert found.paths[0] == tmp_path / "made-1.0"
    assert sorted(path.name for path in found.paths[1].iterdir()) == ["hub-1.5.dist-info", "tokens-0.9.dist-info"]
    assert environments.fit({"made": "1.0"}, trees) == found
    assert len(calls) == 2
