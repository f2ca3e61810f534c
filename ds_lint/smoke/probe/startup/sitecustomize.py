"""Runs when a Python of the user's command starts, because its folder is the first on ``PYTHONPATH``.

It runs in every process of the command, with the user's interpreter, whatever its release, and before any library: it
leaves a file that tells the driver so, keeps what the process is about to overwrite, runs the user's own
``sitecustomize``, and loads the probe when the first library that it hooks is about to be imported.
"""

import contextlib
import os
import sys

_VARIABLE = "DS_LINT_PROBE"  # ``ds_lint.smoke.probe.plan.VARIABLE``; ds-lint may not be importable here
_LIBRARIES = (  # that train, write or send; the probe hooks them
    "torch", "deepspeed", "transformers", "accelerate", "safetensors", "tokenizers", "pyarrow", "huggingface_hub",
    "wandb", "swanlab", "neptune", "trackio", "comet_ml", "mlflow", "aim", "clearml", "tensorboardX",
)  # fmt: skip
_IS_SUPPORTED = sys.version_info >= (3, 10)  # ``requires-python`` of ds-lint
_OVER = "over"  # ``ds_lint.smoke.probe.plan.Plan.over``
_RESTORE = "restore"  # ``ds_lint.smoke.probe.plan.RESTORE``
_MARK = "DS_LINT_SMOKE"  # ``ds_lint.smoke.processes.leftovers.MARK``
_RUN = "ds-lint-smoke-"  # ``ds_lint.smoke.processes.client.PREFIX``
_DRIVER = "node-of-driver"  # ``ds_lint.smoke.journal.areas``
_READY = "ready"  # ``ds_lint.smoke.script.node_agent``
_UNSEEN = 98  # ``ds_lint.smoke.script.elsewhere.UNSEEN``
_OF_NODES = ("deepspeed", "accelerate", "mpirun", "runner")  # launchers in Python that start processes on other nodes
_PATIENCE = 120.0  # seconds for an agent to restore
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


class _ArgumentParsers:
    """The first import of ``argparse``: what its parsers refuse is left for the driver."""

    @classmethod
    def find_spec(cls, name: str, path: object = None, target: object = None) -> object:
        if name != "argparse":
            return None
        sys.meta_path.remove(cls)  # type: ignore[arg-type,unused-ignore]
        finders = [finder for finder in sys.meta_path if hasattr(finder, "find_spec")]
        found = (finder.find_spec(name, path, target) for finder in finders)  # type: ignore[arg-type,unused-ignore]
        spec = next((one for one in found if one is not None), None)
        run = getattr(getattr(spec, "loader", None), "exec_module", None)
        if spec is not None and run is not None:

            def run_and_watch(module: object) -> None:
                run(module)
                _watch_parsers(module)

            spec.loader.exec_module = run_and_watch  # type: ignore[method-assign,union-attr,unused-ignore]
        return spec


def _watch_parsers(argparse: object) -> None:
    """Leave the message of a parser that ends the program."""
    parsers = argparse.ArgumentParser  # type: ignore[attr-defined,unused-ignore]
    refuse = parsers.error

    def error(self: object, message: str) -> None:
        _leave_end("ArgumentError", message, getattr(self, "prog", "") or "")
        refuse(self, message)

    parsers.error = error


def _watch_ends() -> None:
    """Leave what ends a program, as long as no library has loaded the probe, which tells more of it.

    An exception, the message of ``sys.exit``, arguments that a parser refuses, or a file that is not there: Python
    itself prints them to standard error, which the driver does not read.
    """
    show, leave = sys.excepthook, sys.exit

    def shown(kind: type, error: BaseException, trace: object) -> None:
        place, inner = "", error.__traceback__
        while inner is not None:
            place = f"{os.path.basename(inner.tb_frame.f_code.co_filename)}:{inner.tb_lineno}"
            inner = inner.tb_next
        _leave_end(kind.__name__, str(error), place)
        show(kind, error, trace)  # type: ignore[arg-type,unused-ignore]

    def left(status: object = None) -> None:
        if isinstance(status, str):
            _leave_end("SystemExit", status, "")
        leave(status)  # type: ignore[arg-type,unused-ignore]

    sys.excepthook, sys.exit = shown, left  # type: ignore[assignment,unused-ignore]
    script = sys.argv[0] if getattr(sys, "argv", None) else ""
    if script and not script.startswith("-") and not os.path.exists(script):
        _leave_end("FileNotFoundError", f"there is no file {script}", "")
    if "argparse" in sys.modules:
        _watch_parsers(sys.modules["argparse"])
    else:
        sys.meta_path.insert(0, _ArgumentParsers)  # type: ignore[arg-type,unused-ignore]


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
    own, part = _own_folder(), os.path.basename(_own_folder())
    if not os.path.isdir(own):
        _refuse(
            f"{_node()} does not see {os.path.dirname(own)}, the folder of the run: all nodes must share it (--folder)"
        )
    if part == _RESTORE:
        _restore(own)
    elif os.path.exists(os.path.join(own, _OVER)):
        _leave("", "later")
        os._exit(0)  # a shell script goes on to its next program: merges, evaluates, trains another model
    _leave("")
    if not _is_on_node_of_driver(own):
        _start_agent(own)
        _use_own_temporary_folder(own)
    sys.meta_path.insert(0, _FirstImport)  # type: ignore[arg-type,unused-ignore] # a class can be a finder
    if not _IS_SUPPORTED:
        return
    _watch_ends()
    sys.path.insert(0, _ROOT)  # ds_lint is imported from where this file lies
    try:
        from ds_lint.smoke.journal import hook
    finally:
        del sys.path[0]
    hook.install(os.path.dirname(os.environ[_VARIABLE]))


def _own_folder() -> str:
    folder, plan = os.path.split(os.environ[_VARIABLE])  # plan-train.json
    return os.path.join(folder, plan.partition("-")[2].partition(".")[0])


def _find_plan() -> None:
    """Set the variable from PYTHONPATH: launchers such as deepspeed's pass only that one on to other nodes."""
    folders = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    for here, folder in zip(folders, folders[1:]):  # noqa: B905, RUF007 - Python 3.9
        run, part = os.path.split(folder)
        if os.path.abspath(here) == _HERE and os.path.basename(run).startswith(_RUN):
            os.environ[_VARIABLE] = os.path.join(run, f"plan-{part}.json")
            os.environ.setdefault(_MARK, run)  # for what this process starts


def _node() -> str:
    return os.uname().nodename


def _place(own: str) -> str:
    """Where the processes of this node leave what is about them (``ds_lint.smoke.journal.areas``)."""
    if _is_on_node_of_driver(own):
        return own
    place = os.path.join(own, f"node-{_node()}")
    os.makedirs(place, exist_ok=True)
    return place


def _is_on_node_of_driver(own: str) -> bool:
    try:
        with open(os.path.join(os.path.dirname(own), _DRIVER), encoding="utf-8") as file:
            return file.read() == _node()
    except OSError:
        return True


def _refuse(why: str) -> None:
    """End a process that nothing could restore."""
    sys.stderr.write(f"ds-lint: {why}\n")
    sys.stderr.flush()
    os._exit(_UNSEEN)


def _start_agent(own: str) -> None:
    """The first process on a node starts what ends, watches and restores this node, because the driver cannot."""
    place = _place(own)
    ready = os.path.join(place, _READY)
    try:
        os.close(os.open(os.path.join(place, "agent"), os.O_CREAT | os.O_EXCL))
    except FileExistsError:  # another has
        _wait_for(ready)
        return
    _run_agent(own, is_awaited=False)
    _wait_for(ready)


def _restore(own: str) -> None:
    """The command only starts for this: its first process on each node restores what the script changed there."""
    launcher = " ".join(os.path.basename(word) for word in getattr(sys, "orig_argv", [""])[1:4])
    if not _is_on_node_of_driver(own):
        try:
            os.close(os.open(os.path.join(_place(own), "agent"), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            pass
        else:
            _run_agent(own, is_awaited=True)
    elif any(name in launcher for name in _OF_NODES):
        return  # it starts the processes on the other nodes
    os._exit(0)


def _run_agent(own: str, *, is_awaited: bool) -> None:
    import subprocess

    program = f"import sys; sys.path.insert(0, {_ROOT!r}); from ds_lint.smoke.script.node_agent import main; main()"
    unseen = (_VARIABLE, _MARK, "PYTHONPATH", "PYTHONSTARTUP")
    environment = {name: value for name, value in os.environ.items() if name not in unseen}
    command = [sys.executable, "-c", program, own]
    child = 0 if is_awaited else os.fork()
    if child:
        os.waitpid(child, 0)  # a script that waits for its children never sees the agent, the child of a child
        return
    nothing = os.open(os.devnull, os.O_RDWR)
    process = subprocess.Popen(  # noqa: S603 - ourselves
        command, env=environment, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True
    )
    if not is_awaited:
        os._exit(0)
    process.wait()


def _wait_for(path: str) -> None:
    """Wait for the agent, which restores first what an earlier start has left on this node."""
    import time

    until = time.monotonic() + _PATIENCE
    while not os.path.exists(path) and time.monotonic() < until:
        time.sleep(0.02)


def _use_own_temporary_folder(own: str) -> None:
    """Temporary files of this node do not go to the folder of the run, which may be on a slow disk of the network."""
    run = os.path.dirname(own)
    if os.environ.get("TMPDIR", "").startswith(run):
        os.environ["TMPDIR"] = f"/tmp/{os.path.basename(run)}.node"  # noqa: S108 - a random name; the agent removes it
        os.makedirs(os.environ["TMPDIR"], 0o700, exist_ok=True)


def _leave(error: str, kind: str = "python") -> None:
    """Leave a file for the driver, which ``ds_lint.smoke.script.hooked`` reads: this process has run the hook."""
    release = ".".join(map(str, sys.version_info[:3]))
    words = getattr(sys, "orig_argv", [sys.executable])
    try:
        with open(os.path.join(_place(_own_folder()), f"{kind}-{os.getpid()}"), "w", encoding="utf-8") as file:
            file.write("\0".join([release, error, *words]))
    except (OSError, ValueError):
        return  # the disk is full; the driver finds no process there


def _leave_end(kind: str, text: str, where: str) -> None:
    """Leave a file for the driver about what ends this program."""
    path = os.path.join(_own_folder(), f"end-{os.getpid()}")
    with contextlib.suppress(OSError), open(path, "w", encoding="utf-8", errors="replace") as file:
        file.write(f"{kind}\0{where}\0{text}")


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
if not os.environ.get(_VARIABLE):
    _find_plan()
if os.environ.get(_VARIABLE):
    _begin()
_run_own()
