"""Runs when a Python of the user's command starts, because its folder is the first on ``PYTHONPATH``.

It runs in every process of the command, with the user's interpreter, whatever its release, and before any library: it
leaves a file that tells the driver so, keeps what the process is about to overwrite, runs the user's own
``sitecustomize``, and loads the probe when the first library that it hooks is about to be imported.
"""

import os
import sys

_VARIABLE = "DS_LINT_PROBE"  # ``ds_lint.smoke.probe.plan.VARIABLE``; ds-lint may not be importable here
_LIBRARIES = (  # that train, write or send; the probe hooks them
    "torch", "deepspeed", "transformers", "accelerate", "safetensors", "tokenizers", "pyarrow", "huggingface_hub",
    "wandb", "swanlab", "neptune", "trackio", "comet_ml", "mlflow", "aim", "clearml", "tensorboardX",
)  # fmt: skip
_IS_SUPPORTED = sys.version_info >= (3, 10)  # ``requires-python`` of ds-lint
_OVER = "over"  # ``ds_lint.smoke.probe.plan.Plan.over``
_HERE = os.path.dirname(os.path.abspath(__file__))
_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(_HERE))))  # of the package ds_lint


class _FirstImport:
    """The first import of a library that is hooked loads the probe, which sees to the rest."""

    @classmethod
    def find_spec(cls, name: str, path: object = None, target: object = None) -> object:
        if name not in _LIBRARIES:
            return None
        sys.meta_path.remove(cls)  # type: ignore[arg-type,unused-ignore]
        _load_probe()
        # Python goes on behind the finders that the probe has put first: they would miss this import.
        finders = [finder for finder in sys.meta_path if hasattr(finder, "find_spec")]
        found = (finder.find_spec(name, path, target) for finder in finders)  # type: ignore[arg-type,unused-ignore]
        return next((spec for spec in found if spec is not None), None)


def _load_probe() -> None:
    """Start the probe; a script that would train unobserved ends instead."""
    try:
        if not _IS_SUPPORTED:
            raise ImportError("the probe of ds-lint needs Python 3.10 or later")  # noqa: TRY301 - one way out
        import ds_lint.smoke.probe  # noqa: F401 - importing it starts it
    except Exception as error:  # noqa: BLE001 - a script may expect an ImportError, and go on
        _leave(f"{type(error).__name__}: {error}")
        import traceback

        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


def _begin() -> None:
    if os.path.exists(os.path.join(_own_folder(), _OVER)):
        _leave("", "later")
        os._exit(0)  # a shell script goes on to its next program: merges, evaluates, trains another model
    _leave("")
    sys.meta_path.insert(0, _FirstImport)  # type: ignore[arg-type,unused-ignore] # a class can be a finder
    if not _IS_SUPPORTED:
        return
    sys.path.insert(0, _ROOT)  # ds_lint is imported from where this file lies
    try:
        from ds_lint.smoke.journal import hook
    finally:
        del sys.path[0]
    hook.install(os.path.dirname(os.environ[_VARIABLE]))


def _own_folder() -> str:
    folder, plan = os.path.split(os.environ[_VARIABLE])  # plan-train.json
    return os.path.join(folder, plan.partition("-")[2].partition(".")[0])


def _leave(error: str, kind: str = "python") -> None:
    """Leave a file for the driver, which ``ds_lint.smoke.script.hooked`` reads: this process has run the hook."""
    release = ".".join(map(str, sys.version_info[:3]))
    words = getattr(sys, "orig_argv", [sys.executable])
    try:
        with open(os.path.join(_own_folder(), f"{kind}-{os.getpid()}"), "w", encoding="utf-8") as file:
            file.write("\0".join([release, error, *words]))
    except (OSError, ValueError):
        return  # a machine that does not see the folder; the driver finds no process there


def _run_own() -> None:
    """Run the ``sitecustomize`` that this one hides; Python itself runs ``usercustomize`` after it."""
    this = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # type: ignore[import-not-found,unused-ignore] # noqa: F401 - importing it runs it
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        if this is not None:
            sys.modules["sitecustomize"] = this


# The processes that this one starts find the folder in PYTHONPATH. A sitecustomize that looks for the next one itself
# must not find this one again.
sys.path[:] = [path for path in sys.path if os.path.abspath(path or os.curdir) != _HERE]
if os.environ.get(_VARIABLE):
    _begin()
_run_own()
