"""Where a script writes and what it sends; small made-up libraries stand for the real ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ds_lint.smoke.probe import loggers
from ds_lint.smoke.probe import plan as plans
from ds_lint.smoke.script.restore import restore

ROOT = Path(__file__).parents[2]
STARTUP = ROOT / "ds_lint" / "smoke" / "probe" / "startup"

LIBRARIES = {
    "transformers/__init__.py": "",
    "transformers/training_args.py": """
class TrainingArguments:
    def __init__(self, output_dir, logging_dir=None):
        self.output_dir, self.logging_dir = output_dir, logging_dir
        self.__post_init__()
    def __post_init__(self): pass
""",
    "transformers/trainer.py": """
import os
def get_last_checkpoint(folder):
    found = sorted(os.listdir(folder))
    return os.path.join(folder, found[-1]) if found else None
class Trainer:
    def train(self): pass
    def save_model(self, output_dir=None): pass
""",
    "transformers/modeling_utils.py": """
import os
class PreTrainedModel:
    def save_pretrained(self, save_directory, is_main_process=True):
        os.makedirs(save_directory, exist_ok=True)
        open(os.path.join(save_directory, "model"), "w").write("new")
""",
    # They write in another language, which Python does not see; here it is another program.
    "tokenizers/__init__.py": """
import subprocess
class Tokenizer:
    def save(self, path, pretty=True): subprocess.run(["sh", "-c", 'echo tokens > "$0"', path], check=True)
""",
    "pyarrow/__init__.py": """
import subprocess
class OSFile:
    def __new__(cls, path, mode="r"):
        if "w" in mode: subprocess.run(["sh", "-c", 'echo rows > "$0"', path], check=True)
        return super().__new__(cls)
""",
    "accelerate/__init__.py": "",
    "accelerate/utils/__init__.py": "",
    "accelerate/utils/dataclasses.py": """
class ProjectConfiguration:
    def __init__(self, project_dir=None, logging_dir=None):
        self.project_dir, self.logging_dir = project_dir, logging_dir
        self.set_directories(project_dir)
    def set_directories(self, project_dir=None):
        self.project_dir = project_dir
        if self.logging_dir is None: self.logging_dir = project_dir
""",
    "torch/__init__.py": """
def save(obj, f): open(f, "w").write(obj)
def load(f): return open(f).read()
""",
    "deepspeed/__init__.py": "initialize = print",
    "deepspeed/runtime/__init__.py": "",
    "deepspeed/runtime/zero/__init__.py": "",
    "deepspeed/runtime/zero/stage3.py": """
import os
class DeepSpeedZeroOptimizer_Stage3:
    def _configure_tensor_swapping(self, offload_optimizer_config, aio_config):
        os.makedirs(offload_optimizer_config.nvme_path / "zero_stage_3")
        os.system(f"echo states > {offload_optimizer_config.nvme_path}/zero_stage_3/a.swp")
""",
    "wandb/__init__.py": "def init(project=None, mode='online'): return mode\ndef login(): raise OSError('sends')",
    "trackio/__init__.py": "def init(project, space_id=None): return space_id",
    "mlflow/__init__.py": (
        "import os\ndef get_tracking_uri(): return os.environ['MLFLOW_TRACKING_URI']\n"
        "def set_tracking_uri(uri): os.environ['MLFLOW_TRACKING_URI'] = uri"
    ),
    "aim/__init__.py": "class Run:\n def __init__(self, run_hash=None, *, repo=None): self.repo = run_hash, repo",
    "comet_ml/__init__.py": (
        "class Experiment:\n def __init__(self, api_key): raise OSError('sends')\n"
        "class OfflineExperiment:\n def __init__(self, offline_directory): self.at = offline_directory\n"
        "def start(online=None, project_name=None): return online"
    ),
    "tensorboardX/__init__.py": "from tensorboardX.writer import SummaryWriter",
    "tensorboardX/writer.py": (
        "class SummaryWriter:\n"
        " def __init__(self, logdir=None, comment=''): self.logdir, self.comment = logdir, comment"
    ),
    "huggingface_hub/__init__.py": "from huggingface_hub.hf_api import HfApi, create_repo, upload_folder, list_models",
    "huggingface_hub/hf_api.py": """
class RepoUrl(str):
    @property
    def repo_id(self): return self.partition(".co/")[2]
class CommitInfo:
    def __init__(self, commit_url, commit_message, commit_description, oid): self.commit_url = commit_url
class HfApi:
    def create_repo(self, repo_id, *, private=None): raise OSError("sends")
    def upload_folder(self, *, repo_id, folder_path, commit_message=None, run_as_future=False): raise OSError("sends")
    def delete_repo(self, repo_id): raise OSError("sends")
    def list_models(self): return ["a"]
api = HfApi()
create_repo = api.create_repo
upload_folder = api.upload_folder
list_models = api.list_models
""",
}


class Project:
    """A folder of the user with an earlier output, made-up libraries, and a run."""

    def __init__(self, path):
        self.path = path / "project"
        self.plan = plans.Plan(str(path / "run"))
        self.outputs = self.plan.outputs + str(self.path)
        for name, text in LIBRARIES.items():
            (path / "libraries" / name).parent.mkdir(parents=True, exist_ok=True)
            (path / "libraries" / name).write_text(text)
        (self.path / "out" / "checkpoint-1").mkdir(parents=True)
        (self.path / "out" / "model").write_text("mine")
        (self.path / "empty").mkdir()
        own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "DS_LINT"))}
        self.environment = loggers.environment(self.plan, own | {"MLFLOW_RUN_ID": "1", "WANDB_MODE": "online"}) | {
            "PYTHONPATH": os.pathsep.join(map(str, (STARTUP, path / "libraries"))),
            plans.VARIABLE: plans.write(self.plan),
        }

    def script(self, code):
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=self.path, env=self.environment, capture_output=True, text=True,
            check=False, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    def files(self):
        return {str(path.relative_to(self.path)): path.read_text() for path in self.path.rglob("*") if path.is_file()}


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path.resolve())


def test_training_arguments_have_a_folder_that_looks_empty(project):
    said = project.script(
        "from transformers.training_args import TrainingArguments as T; import copy, os\n"
        "a = T('out', logging_dir='logs'); print(a.output_dir); print(a.logging_dir)\n"
        "print(os.path.exists(a.output_dir)); a.__post_init__(); print(a.output_dir)"
    )
    assert said == [f"{project.outputs}/out", f"{project.outputs}/logs", "False", f"{project.outputs}/out"]


def test_a_checkpoint_that_the_script_asks_for_is_read_where_it_is(project):
    said = project.script(
        "from transformers.training_args import TrainingArguments as T; from transformers import trainer; import os\n"
        "a = T('out'); print(trainer.get_last_checkpoint(a.output_dir))\n"
        "os.makedirs(a.output_dir + '/new'); print(trainer.get_last_checkpoint(a.output_dir))"
    )
    assert said == [str(project.path / "out" / "model"), f"{project.outputs}/out/new"]


def test_projects_of_accelerate(project):
    said = project.script(
        "from pathlib import Path; from accelerate.utils.dataclasses import ProjectConfiguration as P\n"
        "a = P(Path('out')); print(a.project_dir, type(a.project_dir).__name__ != 'str'); print(a.logging_dir)\n"
        "b = P('out', 'logs'); b.set_directories('other'); print(b.project_dir)\n"
        "print(b.logging_dir); print(P().project_dir)"
    )
    led = project.outputs
    assert said == [f"{led}/out True", f"{led}/out", f"{led}/other", f"{led}/logs", "None"]


@pytest.mark.parametrize("folder", ["new", "empty", "new/deep"])
def test_a_new_folder_is_written_in_place_and_removed(project, folder):
    """Whatever reads it again finds it."""
    before = project.files()
    code = f"from transformers.modeling_utils import PreTrainedModel as M; M().save_pretrained({folder!r})"
    assert project.script(
        f"{code}\nM().save_pretrained(save_directory={folder!r}); print(open('{folder}/model').read())"
    )
    assert project.files() == before | {f"{folder}/model": "new"}
    result = restore(project.plan.folder)
    assert not result.left
    assert project.files() == before
    assert (project.path / "empty").is_dir()
    assert not (project.path / "new").exists()


def test_what_the_user_has_is_not_saved_over(project):
    before = project.files()
    project.script(
        "from transformers.modeling_utils import PreTrainedModel as M; M().save_pretrained('out')\n"
        "from pathlib import Path; M().save_pretrained(Path('out'))"
    )
    assert project.files() == before
    assert Path(project.outputs, "out", "model").read_text() == "new"


def test_files_of_torch(project):
    said = project.script(
        "import torch; print(torch.load('out/model'))\n"
        "torch.save('new', 'out/model'); print(torch.load('out/model')); print(open('out/model').read())\n"
        "torch.save('new', f='fresh'); print(open('fresh').read())"
    )
    assert said == ["mine", "new", "mine", "new"]
    restore(project.plan.folder)
    assert project.files() == {"out/model": "mine"}


def test_loggers_stay_off_whatever_the_script_asks_for(project):
    said = project.script(
        "import wandb, trackio, mlflow, aim, comet_ml, tensorboardX, os\n"
        "wandb.login(); print(wandb.init('p', mode='online')); print(trackio.init('p', space_id='me/space'))\n"
        "mlflow.set_tracking_uri('https://example.org'); print(mlflow.get_tracking_uri())\n"
        "print(aim.Run('h', repo='r').repo)\n"
        "print(comet_ml.start(online=True)); print(comet_ml.Experiment('key').at)\n"
        "w = tensorboardX.SummaryWriter('runs', 'c'); print(w.logdir, w.comment)\n"
        "w = tensorboardX.SummaryWriter(logdir='x'); print(w.logdir)\n"
        "print(os.environ['WANDB_MODE'], os.environ.get('MLFLOW_RUN_ID'))"
    )
    folder = f"{project.plan.outputs}/loggers"
    assert said == [
        "disabled", "None", f"file://{folder}/mlruns", f"('h', '{folder}')", "False", folder,
        f"{project.outputs}/runs c", f"{project.outputs}/x", "disabled None",
    ]  # fmt: skip


def test_nothing_is_pushed_to_the_hub(project):
    said = project.script(
        "from huggingface_hub import HfApi, create_repo, upload_folder, list_models\n"
        "print(create_repo('name', private=True).repo_id); print(HfApi().create_repo('me/name').repo_id)\n"
        "print(upload_folder(repo_id='me/name', folder_path='out').commit_url)\n"
        "print(HfApi().upload_folder(repo_id='me/n', folder_path='o', run_as_future=True).result().commit_url[:28])\n"
        "print(HfApi().delete_repo('me/name'), list_models())"
    )
    commit = f"https://huggingface.co/me/name/commit/{'0' * 40}"
    assert said == ["user/name", "me/name", commit, "https://huggingface.co/me/n/", "None ['a']"]


def test_swap_files_are_of_the_run_and_on_the_disk_of_the_config(project):
    """They are written by C++, and those of another run have the same names."""
    (project.path / "nvme" / "zero_stage_3").mkdir(parents=True)
    (project.path / "nvme" / "zero_stage_3" / "a.swp").write_text("of another run")
    before = project.files()
    project.script(
        "from deepspeed.runtime.zero.stage3 import DeepSpeedZeroOptimizer_Stage3 as Z\n"
        "from pathlib import Path; from types import SimpleNamespace as N\n"
        f"Z()._configure_tensor_swapping(N(nvme_path=Path({str(project.path / 'nvme')!r})), None)"
    )
    assert project.files() == before | {"nvme/run/zero_stage_3/a.swp": "states\n"}
    assert not restore(project.plan.folder).left
    assert project.files() == before
    assert not (project.path / "nvme" / "run").exists()


def test_files_that_other_languages_write_are_restored(project):
    """A tokenizer in Rust, and what pandas lets pyarrow open in C++."""
    for name in ("tokenizer.json", "rows.parquet"):
        (project.path / name).write_text("mine")
    before = project.files()
    project.script(
        "import tokenizers, pyarrow\n"
        "tokenizers.Tokenizer().save('tokenizer.json'); pyarrow.OSFile('rows.parquet', mode='wb')\n"
        "pyarrow.OSFile('new.parquet', 'wb'); pyarrow.OSFile('out/model', 'rb')"
    )
    changed = {name for name, text in project.files().items() if before.get(name) != text}
    assert changed == {"tokenizer.json", "rows.parquet", "new.parquet"}
    restore(project.plan.folder)
    assert project.files() == before
