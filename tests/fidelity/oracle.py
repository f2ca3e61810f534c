"""What the real DeepSpeed does with a config: the truth that the fidelity tests hold ds-lint to.

    with Oracle() as oracle:
        oracle.verdict({"train_batch_size": 1, "gradient_cliping": 1.0}).ignored   # {"gradient_cliping"}

The process of an `Oracle` imports DeepSpeed once and forks a child for every config, or, at level "parse", for many.
The child patches the libraries to be watched, trains a tiny model on one CPU rank (gloo) and sends back what happened.

The machine that a config is linted for has GPUs with fp16 and bf16, and DeepSpeed's optional packages (README.md);
where a CPU shows something else, `ds_lint/smoke/standins/ops.py` and `packages.py` take the place of what is missing.
What cannot be had is `Verdict.undecided`, never a rejection.
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
import json
import logging
import math
import multiprocessing
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Literal, NamedTuple

import warm

from ds_lint.smoke.observe import recorder
from ds_lint.smoke.standins import ops

Level = Literal["parse", "construct", "initialize", "train"]
Stage = Literal["load", "parse", "initialize", "train"]
Config = dict[str, Any] | list[Any] | str | bytes | Path
Look = Callable[[Any], dict[str, Any]]  # what is to be known of the engine at the end; a function of a module
Script = Callable[..., dict[str, Any]]  # a run of another stack, from a config to facts: those of scripts.py

MAX_MESSAGE = 2000  # characters of an exception's text
MAX_MICRO_STEPS = 2000  # 4 s; a config with more gradient accumulation does not reach its boundary
HIDDEN = 16  # features of the tiny model
LEARNING_RATE = 1e-3  # of an optimizer that the script passes in
WHERE_NEEDED = "where needed"  # an optimizer from the script where the config names none, as in scripts that train
OURS = (str(Path(__file__).parent), str(Path(ops.__file__).parent))
_PACKAGES = re.compile(r"^.*/(site-packages|python3\.\d+)/")  # before the name of a package, or of Python's own module
PR_SET_PDEATHSIG = 1  # linux/prctl.h

# What the libraries say when this machine is at fault, and not the config.
MACHINE = {
    "cuda": r"only support(s|ed) (for |NVIDIA )?CUDA|not compiled with CUDA|accelerator device when none is available"
    r"|must be on supported devices",  # capturable of torch.optim
    "package": r"[Pp]lease install|make sure it is installed|No module named 'cupy'",
    "cpu": r"mixed dtype \(CPU\)|Invalid device string: '0'",  # the latter: older AutoTP, on device 0
    "memory": r"can't allocate memory|Cannot allocate memory",
    "ranks": r"Data inconsistency within the TP group",  # those that are not there have no data
}


class Ending(NamedTuple):
    """The exception that ended a run, as a traceback shows it; the frames of the oracle are left out."""

    raises: str  # the class, without its module
    message: str
    frames: list[tuple[str, str]]  # file, from the package on, and function, outermost first


@dataclass(slots=True)
class Verdict:
    """What happened.

    `ignored` are the topmost keys that nothing read up to the end of the run; a rejected config was not run to the
    end, and a key may be read by a feature that this run did not use (resuming, a pipeline model): the caller decides
    what that means.
    `facts` may hold: undecided, where (innermost library frame of the error), stage, train_batch_size,
    train_micro_batch_size_per_gpu, gradient_accumulation_steps, gradient_clipping, optimizer, zero_optimizer,
    scheduler, param_dtype, steps (optimizer steps done), lr.
    """

    rejected_at: Stage | None = None
    error: str | None = None
    ignored: frozenset[str] = frozenset()
    auto_dropped: frozenset[str] = frozenset()
    warnings: list[str] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    ending: Ending | None = None

    @property
    def undecided(self) -> str | None:
        """Why nothing can be said about the end of the run: a key of `MACHINE`, an op ("gpu_op"), a time limit."""
        return self.facts.get("undecided")


@dataclass(slots=True)
class Job:
    """One config to train; see `Oracle.verdict`."""

    config: Config
    level: Level = "train"
    world_size: int = 1
    as_file: bool = False
    steps: int = 2
    assume_gpu: bool = True
    look: Look | None = None
    passed_optimizer: str | None = WHERE_NEEDED
    script: Script | None = None


# -------------------------------------------------------------------------------------------------------- in the parent


class Oracle:
    """Trains configs in children that it forks. Close it, or use it as a context manager."""

    def __init__(self, *, processes: int = 2, timeout: float = 60.0) -> None:
        self.processes = processes
        self.timeout = timeout  # seconds for one config
        self._temporary = tempfile.TemporaryDirectory(prefix="ds-lint-oracle-", ignore_cleanup_errors=True)
        self.directory = Path(self._temporary.name)
        self._idle: list[_Worker] = []  # workers that may train another config at level "parse"
        _preload(self.directory)

    def __enter__(self) -> Oracle:  # noqa: PYI034 - typing.Self is Python 3.11's
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        while self._idle:
            self._idle.pop().stop()
        self._temporary.cleanup()

    def verdict(
        self,
        config: Config,
        *,
        level: Level = "train",
        world_size: int = 1,
        as_file: bool = False,
        steps: int = 2,
        assume_gpu: bool = True,
        look: Look | None = None,
        passed_optimizer: str | None = WHERE_NEEDED,
        script: Script | None = None,
    ) -> Verdict:
        """What happens to `config`: a dict, the text of a file, or the path of one.

        level: how far to go: "parse" (DeepSpeedConfig), "initialize" (deepspeed.initialize; "construct" is the same, it
        is fast enough), "train" (`steps` optimizer steps). world_size: above 1, rank 0 of a world that is not there
        (torch's fake process group); a config for more ranks than that is rejected. as_file: write a dict to a JSON
        file and let DeepSpeed read that. assume_gpu: whether fp16 is supported. look: what else to put into the facts.
        passed_optimizer: what the script gives deepspeed.initialize as `optimizer=`, over all parameters: a class of
        torch.optim that takes them with a learning rate, or "DeepSpeedCPUAdam"; None for nothing; AdamW or, with
        offload, DeepSpeedCPUAdam, where the config names none. script: what runs instead of the oracle's own loop, on
        one rank and with a dict: a function of scripts.py.
        """
        job = Job(config, level, world_size, as_file, steps, assume_gpu, look, passed_optimizer, script)
        return self.run([job])[0]

    def verdicts(
        self,
        configs: Sequence[Config],
        *,
        level: Level = "train",
        world_size: int = 1,
        as_file: bool = False,
        steps: int = 2,
        assume_gpu: bool = True,
        look: Look | None = None,
        passed_optimizer: str | None = WHERE_NEEDED,
    ) -> list[Verdict]:
        """`verdict` of each config, in `processes` processes at once."""
        return self.run(
            [Job(config, level, world_size, as_file, steps, assume_gpu, look, passed_optimizer) for config in configs]
        )

    def run(self, jobs: Sequence[Job]) -> list[Verdict]:
        if any(job.script is not None for job in jobs):
            warm.import_stacks()
            warm.freeze()
        verdicts: list[Verdict | None] = [None] * len(jobs)
        busy: dict[Connection, tuple[_Worker, int]] = {}
        waiting = iter(enumerate(jobs))
        try:
            while True:
                while len(busy) < self.processes and (item := next(waiting, None)):
                    index, job = item
                    if isinstance(job.config, Path):
                        job = replace(job, config=job.config.absolute())  # the child works elsewhere
                    worker = self._idle.pop() if self._idle and job.level == "parse" else _Worker(self.directory)
                    worker.start(job, self.timeout)
                    busy[worker.connection] = worker, index
                if not busy:
                    break
                soonest = min(worker.deadline for worker, _ in busy.values())
                wait(list(busy), max(0.0, soonest - time.monotonic()))
                for connection, (worker, index) in list(busy.items()):
                    verdict = worker.result()
                    if verdict is None:
                        continue
                    verdicts[index] = verdict
                    del busy[connection]
                    if jobs[index].level == "parse" and worker.alive:
                        self._idle.append(worker)
                    else:
                        worker.stop()
        finally:
            for worker, _ in busy.values():
                worker.stop()
        return [verdict for verdict in verdicts if verdict is not None]


class _Worker:
    """A forked child that trains configs; it dies with its parent."""

    def __init__(self, directory: Path) -> None:
        self.directory = Path(tempfile.mkdtemp(dir=directory))
        self.connection, theirs = multiprocessing.Pipe()
        self.deadline = 0.0
        self.timeout = 0.0
        self.alive = True
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads: the child uses none of them
            parent = os.getpid()
            self.pid = os.fork()
        if self.pid == 0:
            try:
                _serve(theirs, self.directory, parent)
            finally:
                os._exit(0)  # no exit handlers: they are the parent's
        theirs.close()

    def start(self, job: Job, timeout: float) -> None:
        self.timeout = timeout
        self.deadline = time.monotonic() + timeout
        with contextlib.suppress(BrokenPipeError):  # `result` will tell
            self.connection.send(job)

    def result(self) -> Verdict | None:
        """The verdict, or None while there is none."""
        try:
            if self.connection.poll():
                return self.connection.recv()
            if time.monotonic() < self.deadline:
                return None
            why = f"no answer within {self.timeout:g} s"
        except (EOFError, OSError):
            why = "the process died"
        self.alive = False
        return Verdict(error=why, facts={"undecided": why})

    def stop(self) -> None:
        """Kill the child with everything it started, and remove what they leave."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self.connection.close()
        shutil.rmtree(self.directory, ignore_errors=True)
        for leftover in Path("/dev/shm").glob(f"torch_{self.pid}_*"):  # tensors that ZenFlow shares between processes
            leftover.unlink(missing_ok=True)


def _preload(scratch: Path) -> None:
    """Import all that the children need, so that they start warm."""
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    # The directory is made at import.
    mine = os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(scratch)) == str(scratch)
    import torch.testing._internal.distributed.fake_pg  # noqa: F401

    warm.import_deepspeed()
    if mine:
        del os.environ["TORCHINDUCTOR_CACHE_DIR"]
    warm.freeze()


# --------------------------------------------------------------------------------------------------------- in the child


def _serve(connection: Connection, directory: Path, parent: int) -> None:
    """Train configs until the parent closes the connection or dies."""
    os.setsid()  # `stop` kills the group
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - pytest's lead elsewhere; open for good
    os.chdir(directory)
    os.environ.update(HOME=str(directory), TMPDIR=str(directory), MASTER_ADDR="127.0.0.1", MASTER_PORT="1")
    # As DeepSpeed's launcher sets them.
    os.environ.update(RANK="0", LOCAL_RANK="0", LOCAL_SIZE="1", CROSS_RANK="0", CROSS_SIZE="1")
    tempfile.tempdir = str(directory)
    trial = _Trial(directory)
    while True:
        connection.send(trial.verdict(connection.recv()))


class _Trial:
    """Runs jobs, with libraries that it patched so that they can be watched, in this process."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.stage: Stage = "load"
        self.original: Any = None  # the config, before anybody changes it
        self.log = recorder.ReadLog()
        self.messages: list[str] = []
        self._patch()

    def verdict(self, job: Job) -> Verdict:
        verdict = Verdict()
        self.stage = "load"
        self.messages.clear()
        # Accelerate asks for every key by name, to see whether "auto" stands there.
        self.original, self.log = None, recorder.start("deepspeed" if job.script else "")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                self._run(job, verdict.facts)
            except (Exception, SystemExit) as error:
                verdict.error = f"{type(error).__name__}: {error}"
                verdict.facts["where"] = where = _where(error)
                verdict.ending = ending_of(error)
                blame = _lacking(error) or next(
                    (name for name, text in MACHINE.items() if re.search(text, str(error))), None
                )
                if blame := blame or (None if where else "oracle"):
                    verdict.facts["undecided"] = blame
                else:
                    verdict.rejected_at = self.stage
        verdict.ignored = frozenset(map(_dotted, recorder.unread(self.original, self.log)))
        verdict.auto_dropped = frozenset(map(_dotted, self.log.auto_dropped))
        verdict.warnings = list(
            dict.fromkeys([*self.messages, *(str(warning.message) for warning in caught if _is_deepspeeds(warning))])
        )
        return verdict

    def _run(self, job: Job, facts: dict[str, Any]) -> None:
        import deepspeed.comm
        from deepspeed.runtime.config import DeepSpeedConfig

        if job.script is not None:
            self._run_script(job, job.script, facts)
            return
        # First the config by itself, so that its own errors are told from those of deepspeed.initialize. Reading a
        # file is a part of it; `load` in `_patch` tells that stage from the next.
        argument = self._argument(job)
        self.stage = "parse"
        try:
            deepspeed.comm.get_rank = lambda group=None: 0
            deepspeed.comm.get_world_size = lambda group=None: job.world_size
            config = DeepSpeedConfig(argument)
        finally:
            deepspeed.comm.get_rank, deepspeed.comm.get_world_size = self.get_rank, self.get_world_size
        facts.update(
            stage=int(config.zero_optimization_stage),
            train_batch_size=config.train_batch_size,
            train_micro_batch_size_per_gpu=config.train_micro_batch_size_per_gpu,
            gradient_accumulation_steps=config.gradient_accumulation_steps,
            gradient_clipping=config.gradient_clipping,
        )
        if job.level == "parse":
            return
        self.stage = "initialize"
        engine = self._initialize(job, _passed_name(job, config))
        facts.update(
            optimizer=_class(engine.basic_optimizer),
            zero_optimizer=_class(engine.optimizer),
            scheduler=_class(engine.lr_scheduler),
            param_dtype=str(next(engine.module.parameters()).dtype).removeprefix("torch."),
        )
        if job.level == "train":
            self.stage = "train"
            self._train(engine, job.steps, facts)
        if job.look is not None:
            facts.update(job.look(engine))

    def _run_script(self, job: Job, script: Script, facts: dict[str, Any]) -> None:
        """Run it, with what DeepSpeedConfig refuses told from what the stack and deepspeed.initialize do."""
        from deepspeed.runtime.config import DeepSpeedConfig

        read = DeepSpeedConfig.__init__

        def reading(config: Any, *arguments: Any, **more: Any) -> None:
            self.stage, before = "parse", self.stage
            read(config, *arguments, **more)
            self.stage = before

        DeepSpeedConfig.__init__ = reading
        os.environ["ACCELERATE_TORCH_DEVICE"] = "cpu"
        self._prepare_process(job)
        self.stage = "initialize"
        facts.update(script(self._argument(job), self._enter))

    def _enter(self, stage: Stage) -> None:
        self.stage = stage

    def _prepare_process(self, job: Job) -> None:
        import deepspeed
        import torch

        if job.assume_gpu:
            accelerator = deepspeed.get_accelerator()
            accelerator.is_fp16_supported = accelerator.is_bf16_supported = lambda: True
            accelerator.supported_dtypes = lambda: [torch.float, torch.half, torch.bfloat16]
        os.environ.update(WORLD_SIZE=str(job.world_size))
        torch.set_num_threads(1)  # a forked OpenMP pool hangs
        os.environ["OMP_NUM_THREADS"] = "1"  # or Accelerate sets another number: `PartialState` in accelerate/state.py
        torch.manual_seed(0)
        if job.world_size > 1:
            from torch.testing._internal.distributed.fake_pg import FakeStore

            torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=job.world_size)
        else:
            torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)

    def _initialize(self, job: Job, passed_optimizer: str | None) -> Any:
        import deepspeed
        import torch

        self._prepare_process(job)
        layers = [
            torch.nn.Linear(HIDDEN, HIDDEN),
            torch.nn.ReLU(),
            torch.nn.LayerNorm(HIDDEN),
            torch.nn.Linear(HIDDEN, HIDDEN),
        ]
        model = torch.nn.Sequential(*layers)
        return deepspeed.initialize(
            model=model, optimizer=_passed(passed_optimizer, model), config=self._argument(job)
        )[0]

    def _train(self, engine: Any, steps: int, facts: dict[str, Any]) -> None:
        import torch

        micro_steps = min(MAX_MICRO_STEPS, math.ceil(steps * facts["gradient_accumulation_steps"]))
        for _ in range(micro_steps):
            data = torch.randn(2, HIDDEN, dtype=next(engine.module.parameters()).dtype, requires_grad=True)
            engine.backward(engine(data).float().pow(2).mean())
            engine.step()
            facts["steps"] = engine.global_steps
            if engine.global_steps >= steps:
                break
        if engine.optimizer is not None:
            facts["lr"] = engine.get_lr()

    def _argument(self, job: Job) -> Any:
        """What to give DeepSpeed for the config: a recording dict, or the path of a file."""
        config = job.config
        if isinstance(config, dict) and not job.as_file:
            return self._record(copy.deepcopy(config))
        path = self.directory / "ds_config.json"
        if isinstance(config, (str, bytes)):
            path.write_bytes(config.encode() if isinstance(config, str) else config)
        elif isinstance(config, Path):
            path = config
        else:
            path.write_text(json.dumps(config))
        return str(path)

    def _record(self, config: Any) -> Any:
        if self.original is None:
            self.original = copy.deepcopy(config)
        return recorder.wrap(_inside(config, self.directory), (), self.log)

    # ------------------------------------------------------------------------------------------------------ the patches

    def _patch(self) -> None:
        import cpuinfo
        import deepspeed.comm
        import deepspeed.ops.adam.cpu_adam
        import deepspeed.ops.lion.cpu_lion
        import hjson
        import packages
        import torch._dynamo
        from deepspeed.utils import logger

        trial = self
        self.get_rank, self.get_world_size = deepspeed.comm.get_rank, deepspeed.comm.get_world_size
        recorder.watch()
        load_file = hjson.load

        def load(file: Any, **options: Any) -> Any:
            trial.stage, stage = "load", trial.stage
            config = trial._record(load_file(file, **options))
            trial.stage = stage
            return config

        hjson.load = load

        ops.install(builds=False)
        # "spawn" would start the main script again, and leave semaphores in /dev/shm when it is killed.
        fork = multiprocessing.get_context("fork")
        multiprocessing.context._concrete_contexts.update(spawn=fork, forkserver=fork)  # type: ignore[attr-defined]
        multiprocessing.set_start_method("fork", force=True)
        torch.Tensor.pin_memory = lambda tensor, device=None: tensor  # needs a GPU
        torch._dynamo.config.disable = True  # Muon's kernels are compiled when they are first used
        for module in (cpuinfo, deepspeed.ops.adam.cpu_adam, deepspeed.ops.lion.cpu_lion):
            # It starts processes, for one warning about AMD; older ops hold it under a name of their own.
            module.get_cpu_info = lambda: {"vendor_id_raw": "GenuineIntel"}
        packages.install()

        class Collect(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                if record.levelno >= logging.WARNING:  # log_level sets the level of all handlers
                    trial.messages.append(record.getMessage())

        logger.handlers[:] = [Collect()]
        logger.warning_once = logger.warning  # "once" means once a process, and a worker trains many configs


def _inside(value: Any, directory: Path) -> Any:
    """`value` with every path that leads out of the working directory moved into `directory`.

    So nothing is written elsewhere.
    """
    if isinstance(value, dict):
        return {key: _inside(item, directory) for key, item in value.items()}
    if isinstance(value, list):
        return [_inside(item, directory) for item in value]
    if isinstance(value, str) and (value.startswith("/") or ".." in value.split("/")):
        return str(directory / "elsewhere" / value.replace("..", "up").lstrip("/"))
    return value


def _passed_name(job: Job, config: Any) -> str | None:
    """The class of the optimizer that the script passes in, given the DeepSpeedConfig."""
    if job.passed_optimizer != WHERE_NEEDED:
        return job.passed_optimizer
    if config.optimizer_name is not None:
        return None
    offload = getattr(config.zero_config, "offload_optimizer", None)
    return "AdamW" if offload is None or offload.device == "none" else "DeepSpeedCPUAdam"


def _passed(name: str | None, model: Any) -> Any:
    """The optimizer that the script hands to deepspeed.initialize."""
    if name is None:
        return None
    if name == "DeepSpeedCPUAdam":
        from deepspeed.ops.adam import DeepSpeedCPUAdam

        return DeepSpeedCPUAdam(model.parameters(), lr=LEARNING_RATE)
    import torch

    return getattr(torch.optim, name)(model.parameters(), lr=LEARNING_RATE)


def _class(value: object) -> str | None:
    return None if value is None else type(value).__name__


def _dotted(path: recorder.KeyPath) -> str:
    return ".".join(map(str, path))


def _lacking(error: BaseException | None) -> str | None:
    """The op without a stand-in that the error comes from; those of GPUs are all one."""
    while error is not None:
        if isinstance(error, ops.NoStandIn):
            return "gpu_op" if error.needs_gpu else error.op
        error = error.__cause__ or error.__context__
    return None


def _where(error: BaseException) -> str:
    """The innermost frame of the error that is not ours, as `deepspeed/runtime/engine.py:2482 _configure`."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith(OURS):
            return f"{frame.filename.rpartition('site-packages/')[2]}:{frame.lineno} {frame.name}"
    return ""


def ending_of(error: BaseException) -> Ending:
    """What a traceback shows of an exception."""
    frames = [
        (_PACKAGES.sub("", one.filename), one.name)
        for one in traceback.extract_tb(error.__traceback__)
        if _PACKAGES.match(one.filename)
    ]
    return Ending(type(error).__name__, str(error)[:MAX_MESSAGE], frames)


def _is_deepspeeds(warning: warnings.WarningMessage) -> bool:
    return "/deepspeed/" in warning.filename and not issubclass(warning.category, ResourceWarning)
