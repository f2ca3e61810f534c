"""How many ranks a training script has that Python starts: one, unless the script starts the ranks itself.

A script starts them with a function that it hands to another process (``mp.spawn``, Ray, submitit, a pool), with a
command, as Lightning's Trainer does, or with one that starts the script again. A script that sets WORLD_SIZE is one of
as many ranks, whoever starts the others. What a module of the project may do that the script imports is unknown.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, NamedTuple

from ds_lint.launches.certain import certainly_runs, is_called
from ds_lint.launches.script_code import keyword, last_name, literal
from ds_lint.source.python_names import dotted_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ds_lint.launches.script_code import ImportedNames
    from ds_lint.source.python_names import ModuleNames

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class OwnRanks(NamedTuple):
    """The ranks of a script that it starts itself, or may start; None for what is unknown.

    ``are_of_cluster`` says that ``srun`` and ``mpirun`` may start them instead, and ``are_in_environment`` that the
    script starts none, but sets WORLD_SIZE.
    """

    nodes: int | None = None
    per_node: int | None = None
    total: int | None = None
    are_of_cluster: bool = False
    are_in_environment: bool = False

    @property
    def world_size(self) -> int | None:
        """The number of ranks."""
        if self.total is not None or self.nodes is None or self.per_node is None:
            return self.total
        return self.nodes * self.per_node


class _Starter(NamedTuple):
    """A call that starts ranks: the arguments with their numbers, by name and by position."""

    packages: tuple[str, ...]
    per_node: str = ""
    position: int | None = None
    default: int | None = None  # of ``per_node``
    nodes: str = ""  # one node if it is not given
    total: str = ""
    is_local: bool = False  # the script alone counts the nodes
    are_of_cluster: bool = False


_TORCH = ("torch.multiprocessing", "torch.multiprocessing.spawn")
_LIGHTNING = ("lightning", "pytorch_lightning", "lightning_fabric")
# By the name of what is called; a test compares the arguments with the installed libraries.
STARTERS = {
    "spawn": _Starter(_TORCH, "nprocs", 2, default=1, is_local=True),
    "start_processes": _Starter(_TORCH, "nprocs", 2, default=1, is_local=True),
    "notebook_launcher": _Starter(("accelerate",), "num_processes", 2, nodes="num_nodes"),
    "debug_launcher": _Starter(("accelerate",), "num_processes", 2, default=2),
    "LaunchConfig": _Starter(("torch.distributed",), "nproc_per_node", 2, nodes="max_nodes"),
    "ScalingConfig": _Starter(("ray",), total="num_workers"),
    "update_parameters": _Starter((), "tasks_per_node", default=1, nodes="nodes"),
    "TorchDistributor": _Starter(("pyspark",), total="num_processes"),
    "DeepspeedTorchDistributor": _Starter(("pyspark",), "numGpus", nodes="nnodes"),
    "Trainer": _Starter(_LIGHTNING, "devices", nodes="num_nodes", are_of_cluster=True),
    "Fabric": _Starter(_LIGHTNING, "devices", nodes="num_nodes", are_of_cluster=True),
    "LightningCLI": _Starter(_LIGHTNING, are_of_cluster=True),
}
# Functions that call the one that they are given once, in the same process: command lines.
_IN_PROCESS = re.compile(
    r"(?:fire\.)?Fire|typer\.run|(?:\w+\.)?app\.run|app\.run|tyro\.cli|(?:\w+\.)?CLI|asyncio\.run|defopt\.run|draccus\.wrap"
)
# Decorators of functions that another process runs.
_ELSEWHERE = re.compile(r"\b(?:remote|task|function|flow|step|job|batch|executor|kubernetes|slurm)\b")
_SEVERAL_NODES = re.compile(r"node_?rank|n(?:um_?|_)?nodes|SLURM_", re.IGNORECASE)
# What starts a program, and the words that tell that it may be the training.
_PROGRAMS = re.compile(
    r"(?:\w+\.)?(?:subprocess|sp)\.\w+|os\.(?:system|popen|exec\w+|spawn\w+|posix_spawn\w*)|pty\.spawn|asyncio\.create_subprocess_\w+"
    r"|(?:check_call|check_output|Popen)"
)
_TRAINING = re.compile(
    r"sys\.executable|sys\.argv|__file__|\.py\b|\b(?:deepspeed|torchrun|accelerate|python3?|srun|mpirun|mpiexec|horovodrun|ssh|sbatch"
    r"|torch\.distributed)\b"
)
_LAUNCHERS = re.compile(
    r"torch\.distributed\.(?:run|launch)\.\w+|deepspeed\.launcher\.runner\.\w+|accelerate\.commands\.launch\.\w+"
    r"|runpy\.\w+|os\.fork(?:pty)?|ray\.init|submitit\.\w+|horovod\.(?:\w+\.)*run|(?:torch\.)?multiprocessing\.(?:\w+\.)*Process|\w*ProcessPoolExecutor"
)
_ENVIRONMENT = ("environ", "os.environ")
_ENGINES = re.compile(r"\w*Trainer|Accelerator")
_NOT_ENGINES = ("ray", *_LIGHTNING)


def own_ranks(
    names: ModuleNames, imported: ImportedNames, *, knows: Callable[[str], bool] = lambda _: False
) -> OwnRanks | None:
    """The ranks that a script starts itself; None if it certainly trains in its own process alone.

    ``knows`` tells of the name of a function from elsewhere whether it is known that it trains, and starts no ranks.
    """
    return _RanksReader(names, imported, knows).read()


def connects_ranks(call: ast.Call) -> bool:
    """Whether a call connects the ranks, if no other has before: below stage 3 the Trainer does when it trains."""
    name = dotted_name(call.func)
    owner, _, method = name.rpartition(".")
    if name in ("deepspeed.initialize", "ds.initialize", "deepspeed.init_distributed"):
        return True
    return (method == "train" and "trainer" in owner.lower()) or (
        method == "prepare" and "accelerator" in owner.lower()
    )


class _RanksReader:
    def __init__(self, names: ModuleNames, imported: ImportedNames, knows: Callable[[str], bool]) -> None:
        self.names = names
        self.imported = imported
        self.knows = knows

    def read(self) -> OwnRanks | None:
        starters = [(call, one) for call in self.names.calls if (one := self._starter(call)) is not None]
        if starters:
            found = [self._ranks(call, starter) for call, starter in starters]
            known = [one for one in found if one.world_size is not None or one.nodes is not None]
            unknown = OwnRanks(are_of_cluster=all(one.are_of_cluster for one in found))
            return known[0] if len(found) == 1 and known else unknown
        if any(self._starts_a_program(call) for call in self.names.calls):
            return OwnRanks()
        if (sizes := list(self._world_sizes())) and sizes != [1] * len(sizes):
            total = sizes[0] if len(set(sizes)) == 1 else None
            return OwnRanks(total=total, are_of_cluster=True, are_in_environment=True)
        engines = [call for call in self.names.calls if self._makes_an_engine(call)]
        names = {dotted_name(call.func) for call in self.names.calls} if not engines else set()
        if any(self.imported.is_unknown(name) and not self.knows(name) for name in names):
            return OwnRanks()
        return None if all(self._is_reached(call, set()) for call in engines) else OwnRanks()

    def _world_sizes(self) -> Iterator[int | None]:
        """What the script gives WORLD_SIZE in its environment, each time; None for what is computed."""
        for node in self.names.every(ast.Subscript):
            if dotted_name(node.value) in _ENVIRONMENT and literal(node.slice) == "WORLD_SIZE":
                assigned = self.names.parents.get(node)
                if isinstance(assigned, ast.Assign) and node in assigned.targets:
                    yield self._text_as_number(assigned.value)
        for call in self.names.calls:
            owner, _, method = dotted_name(call.func).rpartition(".")
            if owner not in _ENVIRONMENT:
                continue
            if method == "setdefault" and [literal(one) for one in call.args[:1]] == ["WORLD_SIZE"]:
                yield self._text_as_number(call.args[1] if len(call.args) > 1 else None)
            elif method == "update":
                given = keyword(call, "WORLD_SIZE")
                for table in (one for one in call.args if isinstance(one, ast.Dict)):
                    pairs = zip(table.keys, table.values, strict=True)
                    given = next((value for key, value in pairs if literal(key) == "WORLD_SIZE"), given)
                if given is not None:
                    yield self._text_as_number(given)

    def _text_as_number(self, node: ast.expr | None) -> int | None:
        """The number that a text in the environment is, also as ``str(4)``."""
        if isinstance(node, ast.Call) and dotted_name(node.func) == "str" and len(node.args) == 1:
            node = node.args[0]
        return self._number(node)

    # --------------------------------------------------------------------------------------- what starts the ranks

    def _full_name(self, call: ast.Call) -> str:
        name = dotted_name(call.func)
        return self.imported.full_name(name) or name

    def _starter(self, call: ast.Call) -> _Starter | None:
        starter = STARTERS.get(last_name(call))
        if starter is None:
            return None
        if not starter.packages:  # a method, of which only the module tells
            return starter if "submitit" in {one.partition(".")[0] for one in self.imported.names.values()} else None
        full = self._full_name(call)
        return starter if any(full.startswith(f"{package}.") for package in starter.packages) else None

    def _ranks(self, call: ast.Call, starter: _Starter) -> OwnRanks:
        """The numbers that a call certainly says."""
        unknown = OwnRanks(are_of_cluster=starter.are_of_cluster)
        if any(one.arg is None for one in call.keywords) or any(isinstance(one, ast.Starred) for one in call.args):
            return unknown
        if not certainly_runs(self.names, call) or (starter.is_local and self._has_several_nodes()):
            return unknown
        if starter.total:
            return unknown._replace(total=self._number(keyword(call, starter.total)))
        given = keyword(call, starter.per_node) if starter.per_node else None
        if given is None and starter.position is not None:
            given = next(iter(call.args[starter.position :]), None)
        per_node = self._number(given) if given is not None else starter.default
        nodes = keyword(call, starter.nodes) if starter.nodes else None
        if last_name(call) == "LaunchConfig":
            least = keyword(call, "min_nodes") or next(iter(call.args[:1]), None)
            nodes = nodes or next(iter(call.args[1:2]), None)
            if self._number(least) != self._number(nodes):
                return unknown
        number = 1 if nodes is None else self._number(nodes)
        return unknown if per_node is None or number is None else unknown._replace(nodes=number, per_node=per_node)

    def _number(self, node: ast.expr | None) -> int | None:
        """A count above 0 that shows: of a literal, a list of devices, or a variable that is assigned once."""
        if isinstance(node, (ast.Name, ast.Attribute)) and (name := dotted_name(node)):
            found = self.names.assignments(name, node)
            node = found[0].value if len(found) == 1 else None
        if isinstance(node, (ast.List, ast.Tuple)):
            return len(node.elts) or None
        value = literal(node)
        if isinstance(value, str) and value.isdecimal() and len(value) < 6:  # Lightning takes devices="4"
            value = int(value)
        return value if type(value) is int and value > 0 else None

    def _has_several_nodes(self) -> bool:
        words = (*self.names.uses, *(str(one.value) for one in self.names.every(ast.Constant)))
        return any(_SEVERAL_NODES.search(word) for word in words)

    def _starts_a_program(self, call: ast.Call) -> bool:
        """Whether a call may start the training: a launcher, or a command in which Python or a launcher stands."""
        full = self._full_name(call)
        if _LAUNCHERS.fullmatch(full):
            return True
        if not _PROGRAMS.fullmatch(full) or not (call.args or call.keywords):
            return False
        command = call.args[0] if call.args else call.keywords[0].value
        if full.startswith(("os.exec", "os.spawn", "os.posix_spawn")):
            return True
        words = list(self._words(command))
        return not any(isinstance(one, ast.Constant) for one in words) or any(
            _TRAINING.search(ast.unparse(one)) is not None for one in words
        )

    def _words(self, node: ast.expr, depth: int = 4) -> Iterator[ast.expr]:
        """The expressions that a command is made of, through variables."""
        for part in ast.walk(node):
            if isinstance(part, (ast.Constant, ast.Attribute)):
                yield part
            if isinstance(part, ast.Name):
                yield part
                for found in self.names.assignments(part.id, part) if depth else ():
                    if found.value is not None:
                        yield from self._words(found.value, depth - 1)

    # ------------------------------------------------------------------------------------------ where the engine is

    def _makes_an_engine(self, call: ast.Call) -> bool:
        full = self._full_name(call)
        first, _, _ = full.partition(".")
        if full in ("deepspeed.initialize", "ds.initialize"):
            return True
        return _ENGINES.fullmatch(last_name(call)) is not None and first not in _NOT_ENGINES

    def _is_reached(self, node: ast.AST, seen: set[ast.AST]) -> bool:
        """Whether the process of the script itself runs a node, and hands it to none else."""
        scope = self.names.places[node].scope
        if isinstance(scope, ast.Module):
            return True
        if scope in seen:
            return True
        seen.add(scope)
        if not isinstance(scope, _FUNCTIONS) or _runs_elsewhere(scope):
            return False
        owner = self.names.parents.get(scope)
        if isinstance(owner, ast.ClassDef):
            return self._is_class_reached(owner, scope.name)
        uses = self.names.uses.get(scope.name, [])
        return bool(uses) and all(self._stays_in_process(use, seen) for use in uses)

    def _stays_in_process(self, use: ast.expr, seen: set[ast.AST]) -> bool:
        """Whether a function is called where it is named, or handed to what calls it in the same process."""
        call = self.names.parents.get(use)
        if isinstance(call, ast.keyword):
            call = self.names.parents.get(call)
        if not isinstance(call, ast.Call):
            return False
        if call.func is not use and not _IN_PROCESS.fullmatch(dotted_name(call.func)):
            return False
        return self._is_reached(call, seen)

    def _is_class_reached(self, owner: ast.ClassDef, method: str) -> bool:
        """Whether no other process may run a method of a class: nothing gets the class or the method as a value."""
        if _runs_elsewhere(owner):
            return False
        uses = [use for name, found in self.names.uses.items() if name.endswith(f".{method}") for use in found]
        return not any(self._is_value(use) for use in (*uses, *self.names.uses.get(owner.name, ())))

    def _is_value(self, use: ast.expr) -> bool:
        around = self.names.parents.get(use)
        is_in = isinstance(around, (ast.Call, ast.keyword, ast.List, ast.Tuple, ast.Dict))
        return is_in and not is_called(self.names, use)


def _runs_elsewhere(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    """Whether a decorator lets another process run a function, as those of Ray and Modal do."""
    return any(_ELSEWHERE.search(ast.unparse(decorator)) for decorator in node.decorator_list)
