"""Rules about the files that a launch, a script or a config names and that are not in the project (DS88x)."""

from __future__ import annotations

from ds_lint.diagnostics.finding import Edit, Fix
from ds_lint.diagnostics.problem import IGNORED, Problem, rejected
from ds_lint.diagnostics.rule import rule
from ds_lint.launches.hostfile import MISSING
from ds_lint.source.absent_name import AbsentName

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.semantics.config import Config
    from ds_lint.source.absent_name import Role

# What happens, and the error as the libraries word it: HfDeepSpeedConfig in accelerate/utils/deepspeed.py and
# load_ds_config in deepspeed/runtime/tensor_parallel/init_utils.py; load_config_from_file in
# accelerate/commands/config/config_args.py.
_WHAT_HAPPENS: dict[Role, tuple[str, str]] = {
    "config": (
        "the run stops when it loads the config",
        "DeepSpeed and the Trainer raise ValueError: Expected a string path to an existing deepspeed config.",
    ),
    "script": (
        "Python cannot open the script",
        "Each rank stops with: can't open file, [Errno 2] No such file or directory.",
    ),
    "accelerate": (
        "`accelerate launch` raises",
        "It raises FileNotFoundError: The passed configuration file does not exist.",
    ),
    "recipe": ("the training does not start", "The framework raises FileNotFoundError when it opens the recipe."),
}
_ELSEWHERE = "If something outside the project creates the file, add it to .gitignore."


@rule("DS881", "absent-file", severity="warning", effects=("rejected",), kind="syntax", alone_on="names")
def absent_file(config: Config) -> Iterator[Problem]:
    """A config, script or recipe that a launch, a script or another config names is not in the project."""
    for name in _names(config):
        if name.role != "hostfile":
            happens, error = _WHAT_HAPPENS[name.role]
            yield Problem(
                None,
                name.span,
                f"`{_shown(name.found)}` is not in the project: {happens}",
                rejected("load"),
                help=f"{_meant(name)}{error} {_ELSEWHERE}",
                label="no such file",
                fix=_fix(name, config),
            )


@rule("DS882", "absent-hostfile", severity="info", effects=("ignored",), kind="syntax", alone_on="names")
def absent_hostfile(config: Config) -> Iterator[Problem]:
    """The hostfile that a launch names is not in the project."""
    for name in _names(config):
        if name.role == "hostfile" and name.found not in MISSING:  # which DeepSpeed reads as none
            yield Problem(
                None,
                name.span,
                f"the hostfile `{_shown(name.found)}` is not in the project: `deepspeed` warns, and trains on one node",
                IGNORED,
                help=f"{_meant(name)}It uses the GPUs of the local node, and raises if `--num_nodes` is above 1. "
                f"{_ELSEWHERE}",
                label="no such file",
            )


def _names(config: Config) -> list[AbsentName]:
    return [issue for issue in config.document.issues if isinstance(issue, AbsentName)]


def _fix(name: AbsentName, config: Config) -> Fix | None:
    """The name that may be meant, if the text has this one as it is."""
    text = config.document.text[name.span.start : name.span.end]
    if not name.nearest or text != name.found or config.document.notebook is not None:
        return None
    return Fix(f"Write {name.nearest}", "unsafe", [Edit(name.span, name.nearest)])


def _meant(name: AbsentName) -> str:
    return f"Did you mean {name.nearest}? " if name.nearest else ""


_LONGEST = 45  # characters of a name that a message repeats


def _shown(name: str) -> str:
    return name if len(name) <= _LONGEST else f"...{name[-_LONGEST:]}"
