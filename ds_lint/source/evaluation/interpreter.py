"""Runs a module in the mind: its statements in their order, with values that show and values that do not.

Nothing is imported and nothing happens outside. A branch that may be taken or not is run, undone and joined with the
others. A function that nothing calls is run last, with arguments that do not show. Steps are counted.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
from typing import TYPE_CHECKING, Any

from ds_lint.source.evaluation import classes, library, methods
from ds_lint.source.evaluation.operations import (
    COMPARISONS,
    UNARY,
    binary,
    computed,
    format_value,
    lifted,
    lowered,
)
from ds_lint.source.evaluation.relevance import Relevance, summary
from ds_lint.source.evaluation.scopes import bound_names
from ds_lint.source.evaluation.state import Branch, Heap, join_values, same
from ds_lint.source.evaluation.values import (
    Arguments,
    Bound,
    Class,
    Dict,
    Environment,
    Exhausted,
    Field,
    Known,
    LibraryName,
    List,
    Method,
    ModuleError,
    ModuleFunction,
    NotKnown,
    Object,
    Slot,
    Super,
    Table,
    Undecided,
    View,
    Wrapped,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ds_lint.source.evaluation.values import Place, Value

_MOST_STEPS = 30_000
_MOST_OF_ONE = 8_000  # for a function that nothing calls
_DEEPEST_CALLS = 18
_MOST_OF_ITSELF = 14  # calls of a function in itself
_DEEPEST = 40  # expressions in each other
_MOST_ITERATIONS = 2_000
_LARGE = 50  # nodes
_MOST_PASSES = 3  # of a loop whose iterations do not show, before what changes in it is given up
_EXCEPTIONS = {
    name: one for name, one in vars(builtins).items() if isinstance(one, type) and issubclass(one, BaseException)
}

# What becomes of a statement: the next one follows, or not.
_NEXT, _RETURN, _BREAK, _CONTINUE, _ENDED = "next", "return", "break", "continue", "ended"
_TRANSPARENT = frozenset({  # decorators that leave what a function returns
    "functools.wraps", "torch.no_grad", "torch.inference_mode", "torch.enable_grad", "typing.no_type_check",
    "abc.abstractmethod", "typing.overload", "typing.final", "typing.override",
    "torch.distributed.elastic.multiprocessing.errors.record",
})  # fmt: skip
_CACHES = frozenset({"functools.lru_cache", "functools.cache"})
# Libraries of which ``import *`` binds no name that ``names_config`` takes; a test asks them.
_WITHOUT_CONFIGS = ("transformers",)


class _RunningLoop:
    def __init__(self, mark: int, depth: int) -> None:
        self.mark = mark
        self.iteration = mark
        self.depth = depth  # how many undecided branches are around it
        self.breaks: list[Branch] = []
        self.continues: list[Branch] = []


class _CallFrame:
    def __init__(self, environment: Environment, mark: int, depth: int) -> None:
        self.environment = environment
        self.mark = mark
        self.depth = depth
        self.loops: list[_RunningLoop] = []
        self.exits: list[tuple[Branch, Value]] = []
        self.result: Value | None = None
        self.node: ast.AST | None = None


class _Try:
    def __init__(self, mark: int) -> None:
        self.mark = mark
        self.risks = 0
        self.exits: list[Branch] = []


class Interpreter:
    """The evaluation of one module. ``watch`` is given each call whose function is not the module's own."""

    def __init__(self, module: ast.Module, reading: frozenset[ast.Call]) -> None:
        self.state = Heap()
        self.reading = reading  # calls that leave their arguments as they are
        self.watch: Callable[[ast.Call, Arguments], None] | None = None
        self.made: dict[ast.AST, list[Dict]] = {}  # the dicts that a text has made
        self.is_complete = False
        self._module = module
        self._left = _MOST_STEPS
        self._depth = 0
        self._forks: list[int] = []
        self._tries: list[_Try] = []
        self._repeating = 0  # loops of known items around
        self.globals = Environment(self.state.new_dict(module), None, None)
        self._frame = _CallFrame(self.globals, 0, 0)
        self._stack: list[ast.AST] = []
        self._functions: dict[ast.AST, ModuleFunction] = {}
        self._classes: dict[ast.AST, Class] = {}
        self._entered: set[ast.AST] = set()
        self._uncalled: set[ast.AST] = set()
        self._relevance = Relevance(module)
        self._is_apart = False
        self._awaited: set[ast.AST | None] = set()
        self._generic: dict[Class, Object] = {}
        self._has_star = False
        self._patched: set[str] = set()
        self._escaping: set[int] = set()

    # The module.

    def run(self) -> None:
        """Run the module, and then what nothing in it calls."""
        variables = self.globals.variables
        for name, value in (("__name__", "__main__"), ("__debug__", True)):
            self.state.put(variables, name, Slot(Known(value, self._module), self._module, is_fixed=True))
        try:
            self._block(self._module.body)
        except ModuleError:
            pass  # it ends here
        except (Exhausted, RecursionError):
            return
        try:
            self._run_the_rest()
        except (Exhausted, RecursionError):
            return
        self.is_complete = True

    def apart(self, node: ast.expr, function: ast.AST | None) -> Value:
        """The value of an expression that has not been run; the variables of a function do not show."""
        mark = self._begin_apart(node, function)
        try:
            return self.evaluate(node)
        except (Exhausted, ModuleError, RecursionError):
            self.state.undo(mark)
            return Undecided(node)

    def arguments_apart(self, call: ast.Call, function: ast.AST | None) -> Arguments:
        """The arguments of a call that has not been run."""
        mark = self._begin_apart(call, function)
        try:
            return self._arguments(call)
        except (Exhausted, NotKnown, ModuleError, RecursionError):
            self.state.undo(mark)
            return Arguments([], {}, is_open=True)

    def _begin_apart(self, node: ast.expr, function: ast.AST | None) -> int:
        environment = self.globals
        if function is not None:
            environment = Environment(self.state.new_dict(node, is_open=True), None, None)
            environment.variables.is_lost = True
        self._frame, self._stack, self._tries, self._forks = _CallFrame(environment, 0, 0), [], [], []
        self._depth, self._left, self.watch = 0, _MOST_OF_ONE, None
        mark = len(self.state.trail)
        if not self.is_complete and not self._is_apart:
            self.globals.variables.content = Table(self._settled_names(), is_open=True)
        self._is_apart = True
        return mark

    def _settled_names(self) -> dict[Any, Slot]:
        """The numbers and texts of the module that are assigned once, in whatever it has not come to."""
        times: dict[str, int] = {}
        for node in ast.walk(self._module):
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                times[node.id] = times.get(node.id, 0) + 1
            elif isinstance(node, ast.Global):
                times |= dict.fromkeys(node.names, 2)
        entries = self.globals.variables.content.entries
        return {
            name: slot
            for name, slot in entries.items()
            if isinstance(slot.value, (Known, LibraryName)) and not slot.may_be_missing and times.get(str(name), 1) == 1
        }

    def _run_the_rest(self) -> None:
        for _ in range(_MOST_PASSES + 1):
            changed = False
            for node, function in [*self._functions.items()]:
                if isinstance(node, ast.Lambda) or not self._relevance.may_matter(node):
                    continue
                if node not in self._entered or node in self._uncalled:
                    changed |= node not in self._uncalled
                    self._uncalled.add(node)
                    changed |= self._enter(function)
            if not changed:
                break

    def _enter(self, function: ModuleFunction) -> bool:
        """Run a function whose callers do not show, once or never; whether that has changed anything."""
        receiver = None
        if function.owner is not None and not self._is_static(function):
            receiver = self._generic_object(function.owner)
        left, most = self._left, min(self._left, _MOST_OF_ONE)
        self._left = most
        mark, frame, forks = len(self.state.trail), self._frame, len(self._forks)

        def call() -> str:
            self._run_function(function, self._unknown_arguments(function, receiver), function.node, is_entry=True)
            return _NEXT

        try:
            completion, branch = self._fork(call)
        except Exhausted:
            if left <= most:
                raise
            self.state.undo(mark)
            self._frame, self._stack, self._tries, self._depth, self._repeating = frame, [], [], 0, 0
            del self._forks[forks:]
            completion = _ENDED
        self._left = left - (most - max(self._left, 0))
        return self.state.merge([Branch({}, range(0)), branch]) if completion == _NEXT else False

    def _is_static(self, function: ModuleFunction) -> bool:
        node = function.node
        return not isinstance(node, ast.Lambda) and any(
            isinstance(one, ast.Name) and one.id == "staticmethod" for one in node.decorator_list
        )

    def _generic_object(self, cls: Class) -> Object:
        """An object of a class, whoever makes it."""
        if cls in self._generic:
            return self._generic[cls]
        one = self._generic[cls] = Object(cls, self.state.new_dict(cls.node), cls.node)
        try:
            maker = classes.find(cls, "__init__")
        except NotKnown:
            maker = None
        if not cls.is_plain or cls.kind in ("dataclass", "namedtuple", "enum", "number"):
            self.state.open(one.attributes)
        if cls.kind in ("enum", "number"):
            for name in ("_value_", "_name_"):
                self.state.put(one.attributes, name, Slot(Undecided(cls.node), cls.node, is_fixed=True))
        if cls.kind in ("dataclass", "namedtuple"):
            for field in classes.fields_of(cls):
                self.state.put(one.attributes, field.name, Slot(Undecided(cls.node), cls.node, is_fixed=True))
        if maker is not None and isinstance(maker.value, ModuleFunction):
            function = maker.value
            with contextlib.suppress(ModuleError):
                self._run_function(function, self._unknown_arguments(function, one), function.node, is_entry=True)
        return one

    @staticmethod
    def _unknown_arguments(function: ModuleFunction, receiver: Object | None) -> Arguments:
        node = function.node
        arguments = node.args
        slots: list[Slot] = []
        for index, argument in enumerate([*arguments.posonlyargs, *arguments.args]):
            if index == 0 and receiver is not None:
                slots.append(Slot(receiver, argument, is_fixed=True))
            else:
                slots.append(Slot(Undecided(argument), argument, is_fixed=True))
        named = {one.arg: Slot(Undecided(one), one, is_fixed=True) for one in arguments.kwonlyargs}
        return Arguments(slots, named, is_open=True)

    # Branches.

    def _fork(self, run: Callable[[], str]) -> tuple[str, Branch]:
        """Run a branch, and undo it; what became of it, and what it has done."""
        mark, serial = len(self.state.trail), self.state.serial
        self._forks.append(serial)
        frame, loops, depth = self._frame, len(self._frame.loops), self._depth
        try:
            completion = run()
        except ModuleError:
            self._note_raise()
            completion = _ENDED
            self._frame, self._depth = frame, depth
            del self._frame.loops[loops:]
        finally:
            self._forks.pop()
        branch = self.state.noted(mark, serial)
        self.state.undo(mark)
        return completion, branch

    def _note_raise(self) -> None:
        if self._tries:
            current = self._tries[-1]
            current.risks += 1
            current.exits.append(self._noted(current.mark))

    def _noted(self, mark: int) -> Branch:
        """What has been done since a place of the trail, in the innermost branch."""
        return self.state.noted(mark, self._forks[-1] if self._forks else self.state.serial)

    def _resume(self, alternatives: list[tuple[str, Branch]]) -> str:
        """Go on behind branches."""
        live = [branch for completion, branch in alternatives if completion == _NEXT]
        if not live:
            return _ENDED
        self.state.merge(live)
        return _NEXT

    def perhaps(self, run: Callable[[], object]) -> None:
        """Run what may be run or not."""

        def once() -> str:
            run()
            return _NEXT

        completion, branch = self._fork(once)
        if completion == _NEXT:
            self.state.merge([Branch({}, range(0)), branch])

    def _perhaps_partly(self, run: Callable[[], object]) -> None:
        """Run what may be run, or stay in the middle, as a generator does."""
        partly: list[Branch] = []

        def once() -> str:
            mark = len(self.state.trail)
            run()
            partly.extend(Branch({cell: content}, range(0)) for cell, content in self.state.trail[mark:])
            return _NEXT

        completion, branch = self._fork(once)
        if completion == _NEXT:
            self.state.merge([Branch({}, range(0)), *partly, branch])

    def _risk(self) -> None:
        """Note that something may raise that does not show."""
        if self._tries:
            self._tries[-1].risks += 1

    # Statements.

    def _block(self, statements: list[ast.stmt]) -> str:
        for statement in statements:
            completion = self._statement(statement)
            if completion != _NEXT:
                return completion
        return _NEXT

    def _step(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise Exhausted

    def _statement(self, node: ast.stmt) -> str:
        self._step()
        method = getattr(self, f"_do_{type(node).__name__.lower()}", None)
        if method is None:
            return self._do_unknown(node)
        try:
            result: str | None = method(node)
        except NotKnown:  # of what is assigned to
            self._risk()
            return _NEXT
        return result or _NEXT

    def _do_unknown(self, node: ast.stmt) -> str:
        """A statement that is not evaluated: what it binds is unknown."""
        for child in ast.walk(node):
            if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
                self._bind(child.id, Slot(Undecided(child), child))
        return _NEXT

    def _do_expr(self, node: ast.Expr) -> None:
        self.evaluate(node.value)

    def _do_pass(self, node: ast.Pass) -> None:
        pass

    def _do_assert(self, node: ast.Assert) -> None:
        if self.truth(self.evaluate(node.test)) is False:
            raise ModuleError(AssertionError)
        self._risk()

    def _do_assign(self, node: ast.Assign) -> None:
        slot = self._slot(node.value)
        for target in node.targets:
            self._assign(target, slot, node.value)

    def _do_annassign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._assign(node.target, self._slot(node.value), node.value)

    def _do_augassign(self, node: ast.AugAssign) -> None:
        target = node.target
        if isinstance(target, ast.Name):
            old = self._name(target)
            container = key = None
        elif isinstance(target, ast.Subscript):
            container, key = self.evaluate(target.value), self.evaluate(target.slice)
            old = self._or_unknown(lambda: self.item(container, key, target), target)  # type: ignore[arg-type]
        else:
            container, key = self.evaluate(target.value), None
            old = self._or_unknown(lambda: self.attribute(container, self._mangled(target.attr), target), target)
        other = self.evaluate(node.value)
        if isinstance(node.op, ast.BitOr) and isinstance(old, Dict):
            methods.merge(self, old, other)
            if not isinstance(other, (Dict, Undecided, List)):
                self._risk()
            new: Value = old
        elif isinstance(node.op, ast.Add) and isinstance(old, List) and old.kind == "list":
            methods.extend(self, old, other)
            new = old
        else:
            if isinstance(old, Undecided):
                self._weaken(old)
            elif isinstance(old, List) and old.kind in ("list", "set"):
                self.state.blur_list(old)
            new = self._or_unknown(lambda: self._binary(type(node.op), old, other, node.value), target)
        slot = Slot(new, target, is_fixed=True)
        if isinstance(target, ast.Name):
            self._bind(target.id, slot)
        elif isinstance(target, ast.Subscript):
            assert container is not None  # noqa: S101
            assert key is not None  # noqa: S101
            self.set_item(container, key, slot)
        else:
            assert container is not None  # noqa: S101
            self.set_attribute(container, self._mangled(target.attr), slot)

    def _or_unknown(self, evaluate: Callable[[], Value], place: Place) -> Value:
        try:
            return evaluate()
        except NotKnown:
            self._risk()
            return Undecided(place)

    def _weaken(self, value: Undecided) -> None:
        for one in value.candidates:
            if isinstance(one, (Dict, List)):
                self.state.weaken_all(one)

    def _do_delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                environment = self._owner(target.id)
                self.state.remove(environment.variables, target.id)
            elif isinstance(target, ast.Subscript):
                container, key = self.evaluate(target.value), self.evaluate(target.slice)
                if isinstance(container, Dict):
                    methods.delete_key(self, container, key)
                elif isinstance(container, List):
                    self._delete_item(container, key)
                elif isinstance(container, Undecided):
                    self._weaken_key(container, key, None)
                elif isinstance(container, Object):
                    self.call(
                        self.attribute(container, "__delitem__", target), Arguments([Slot(key, target)], {}), target
                    )
            elif isinstance(target, ast.Attribute):
                value = self.evaluate(target.value)
                if isinstance(value, (Object, Class)):
                    self.state.remove(value.attributes, self._mangled(target.attr))
            elif isinstance(target, (ast.Tuple, ast.List)):
                self._do_delete(ast.Delete(targets=target.elts))

    def _delete_item(self, cell: List, key: Value) -> None:
        try:
            slots, index = [*methods.items_of(cell)], lowered(key)
            computed(lambda: slots.__delitem__(index))
        except NotKnown:
            self.state.blur_list(cell)
        else:
            self.state.write(cell, tuple(slots))

    def _do_if(self, node: ast.If) -> str:
        test = self.truth(self.evaluate(node.test))
        if test is not None:
            return self._block(node.body if test else node.orelse)
        if self._pass_over(node, [*node.body, *node.orelse]):
            return _NEXT
        return self._resume(
            [self._fork(lambda: self._branch(node.body)), self._fork(lambda: self._branch(node.orelse))]
        )

    def _pass_over(self, node: ast.AST, parts: list[ast.AST]) -> bool:
        """Leave out what may run or not, if it says nothing of a config; what it binds is unknown then."""
        found = summary(node, parts, "undecided")
        if found.size < _LARGE:
            return False
        if found.is_relevant or found.has_return or found.written & self._relevance.interesting:
            return False
        for name in found.read:
            slot, _ = self._lookup(name)
            value = slot.value if slot is not None else None
            if isinstance(value, Undecided) and not value.candidates and value.attributes is None:
                continue
            if isinstance(value, ModuleFunction) and not self._relevance.writes(value.node):
                continue
            if value is not None and not isinstance(value, (Known, LibraryName)):
                return False
        for name in found.bound:
            self._bind(name, Slot(Undecided(node), node, is_fixed=True))
        self._risk()
        return True

    def _branch(self, statements: list[ast.stmt]) -> str:
        """A branch that may be taken or not; what leaves it is noted."""
        return self._leave(self._block(statements))

    def _leave(self, completion: str) -> str:
        """Note the way out of an undecided branch, if it takes one."""
        frame = self._frame
        if completion == _RETURN and len(self._forks) > frame.depth:
            assert frame.result is not None  # noqa: S101
            frame.exits.append((self._noted(frame.mark), frame.result))
            return _ENDED
        if completion in (_BREAK, _CONTINUE) and frame.loops and len(self._forks) > frame.loops[-1].depth:
            loop = frame.loops[-1]
            if completion == _BREAK:
                loop.breaks.append(self._noted(loop.mark))
            else:
                loop.continues.append(self._noted(loop.iteration))
            return _ENDED
        return completion

    def _do_return(self, node: ast.Return) -> str:
        self._frame.result = Known(None, node) if node.value is None else self.evaluate(node.value)
        return _RETURN

    @staticmethod
    def _do_break(_node: ast.Break) -> str:
        return _BREAK

    @staticmethod
    def _do_continue(_node: ast.Continue) -> str:
        return _CONTINUE

    def _do_raise(self, node: ast.Raise) -> str:
        kind: type[BaseException] | None = None
        if node.exc is not None:
            value = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            self.evaluate(node.exc)
            if isinstance(value, ast.Name):
                kind = _EXCEPTIONS.get(value.id)
        raise ModuleError(kind)

    # Loops.

    def _do_for(self, node: ast.For | ast.AsyncFor) -> str:
        iterated = self.evaluate(node.iter)
        items = self.items(iterated)
        frame = self._frame
        loop = _RunningLoop(len(self.state.trail), len(self._forks))
        frame.loops.append(loop)
        try:
            if items is None or len(items) > _MOST_ITERATIONS:
                inner = methods.inner_cells(iterated)
                return self._perhaps_often(
                    loop,
                    lambda: self._assign(
                        node.target, Slot(Undecided(node.iter, inner), node.iter, is_fixed=True), None
                    ),
                    node,
                )
            ended = _NEXT
            self._repeating += 1
            try:
                for slot in items:
                    self._step()
                    loop.iteration = len(self.state.trail)
                    loop.continues = []
                    self._assign(node.target, slot, None)
                    before = iterated.content if isinstance(iterated, List) else None
                    ended = self._end_iteration(loop, self._leave(self._block(node.body)))
                    if ended != _NEXT:
                        break
                    if isinstance(iterated, List) and iterated.content is not before:
                        raise Exhausted  # it grows or shrinks while it is looped over
            finally:
                self._repeating -= 1
            return self._end_loop(loop, ended, node)
        finally:
            frame.loops.remove(loop)

    _do_asyncfor = _do_for

    def _end_iteration(self, loop: _RunningLoop, completion: str) -> str:
        if completion == _CONTINUE:
            completion = _NEXT
        if loop.continues:
            branches = [*loop.continues]
            if completion == _NEXT:
                branches.append(self._noted(loop.iteration))
            elif completion == _RETURN:
                self._frame.exits.append((self._noted(self._frame.mark), self._frame.result or Known(None, None)))
            elif completion == _BREAK:
                loop.breaks.append(self._noted(loop.mark))
            loop.continues = []
            self.state.undo(loop.iteration)
            self.state.merge(branches)
            return _NEXT
        return completion

    def _end_loop(self, loop: _RunningLoop, ended: str, node: ast.For | ast.AsyncFor | ast.While) -> str:
        completion = _NEXT
        if ended == _NEXT:
            self._frame.loops.remove(loop)
            try:
                completion = self._block(node.orelse)
            finally:
                self._frame.loops.append(loop)
        elif ended != _BREAK:
            completion = ended
        if loop.breaks:
            branches = [*loop.breaks]
            if completion == _NEXT:
                branches.append(self._noted(loop.mark))
            elif completion == _RETURN:
                self._frame.exits.append((self._noted(self._frame.mark), self._frame.result or Known(None, None)))
            elif completion in (_BREAK, _CONTINUE):
                raise Exhausted  # out of the loop around, from behind this one
            self.state.undo(loop.mark)
            self.state.merge(branches)
            return _NEXT
        return completion

    def _perhaps_often(
        self, loop: _RunningLoop, begin: Callable[[], object], node: ast.For | ast.AsyncFor | ast.While
    ) -> str:
        """A loop that runs any number of times."""
        loop.depth = len(self._forks)
        self._risk()
        target = [] if isinstance(node, ast.While) else [node.target]
        if self._pass_over(node, [*target, *node.body]):
            return self._end_loop(loop, _NEXT, node)
        for name in summary(node, [*target, *node.body], "undecided").bound:  # at the head of an iteration
            owner = self._owner(name)
            known = owner.variables.content.entries.get(name)
            value = Undecided(node) if known is None else join_values(known.value, Undecided(node), self.state)
            self.state.put(owner.variables, name, Slot(value, node, is_fixed=True, may_be_missing=True))

        def once() -> str:
            loop.iteration = len(self.state.trail)
            loop.continues = []
            begin()
            return self._end_iteration(loop, self._leave(self._block(node.body)))

        for number in range(_MOST_PASSES + 1):
            completion, branch = self._fork(once)
            if completion != _NEXT:
                break
            if not self.state.merge([Branch({}, range(0)), branch]):
                break
            if number < _MOST_PASSES:
                for cell in branch.contents:
                    if isinstance(cell, List):
                        self.state.blur_list(cell)
                    elif isinstance(cell, Dict):
                        self._give_up(cell, branch.contents[cell])
        return self._end_loop(loop, _NEXT, node)

    def _give_up(self, cell: Dict, after: Any) -> None:
        """Forget what a loop may set again and again."""
        before = cell.content.entries
        for key, slot in after.entries.items():
            old = before.get(key)
            if old is None or not same(old.value, slot.value):
                self.state.weaken(cell, key, Slot(Undecided(slot.place), slot.place, is_fixed=True))

    def _do_while(self, node: ast.While) -> str:
        frame = self._frame
        loop = _RunningLoop(len(self.state.trail), len(self._forks))
        frame.loops.append(loop)
        try:
            ended = _NEXT
            number = 0
            self._repeating += 1
            try:
                while (test := self.truth(self.evaluate(node.test))) is not None and number < _MOST_ITERATIONS:
                    if not test:
                        return self._end_loop(loop, _NEXT, node)
                    number += 1
                    loop.iteration = len(self.state.trail)
                    loop.continues = []
                    ended = self._end_iteration(loop, self._leave(self._block(node.body)))
                    if ended != _NEXT:
                        return self._end_loop(loop, ended, node)
                    if loop.breaks or frame.exits:
                        break
            finally:
                self._repeating -= 1
            return self._perhaps_often(loop, lambda: self.evaluate(node.test), node)
        finally:
            frame.loops.remove(loop)

    # Exceptions and contexts.

    def _do_try(self, node: ast.Try) -> str:
        current = _Try(len(self.state.trail))
        frame, loops, depth, repeating = self._frame, len(self._frame.loops), self._depth, self._repeating
        before = len(frame.exits)
        self._tries.append(current)
        raised: ModuleError | None = None
        completion = _NEXT
        try:
            completion = self._block(node.body)
        except ModuleError as error:
            raised = error
            self._frame, self._depth, self._repeating = frame, depth, repeating
            del frame.loops[loops:]
        finally:
            self._tries.pop()
        leaves = len(frame.exits) > before or completion not in (_NEXT, _ENDED)
        if leaves and any(not isinstance(one, (ast.Expr, ast.Pass)) for one in node.finalbody):
            raise Exhausted
        try:
            if raised is not None:
                completion = self._caught(node, raised, current)
            elif current.risks and node.handlers:
                self._leave_for_good(completion)
                completion = self._perhaps_caught(node, completion, current)
            elif completion == _NEXT:
                completion = self._block(node.orelse)
        except ModuleError:
            self._block(node.finalbody)
            raise
        if node.finalbody:
            last = self._block(node.finalbody)
            return completion if last == _NEXT else last
        return completion

    _do_trystar = _do_try

    def _leave_for_good(self, completion: str) -> None:
        """Note a return out of a block that may also end another way."""
        if completion == _RETURN:
            self._frame.exits.append(
                (self.state.noted(self._frame.mark, self.state.serial), self._frame.result or Known(None, None))
            )
        elif completion in (_BREAK, _CONTINUE):
            raise Exhausted

    def _caught(self, node: ast.Try, raised: ModuleError, current: _Try) -> str:
        """The handler of an exception that is raised for certain."""
        if raised.kind is None or current.exits or current.risks:
            return self._perhaps_caught(node, _ENDED, current)
        for handler in node.handlers:
            is_caught = self._catches(handler, raised.kind)
            if is_caught is None:
                return self._perhaps_caught(node, _ENDED, current)
            if is_caught:
                return self._handler(handler)
        raise raised

    def _catches(self, handler: ast.ExceptHandler, kind: type[BaseException]) -> bool | None:
        if handler.type is None:
            return True
        kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        answers: list[bool | None] = []
        for one in kinds:
            if isinstance(one, ast.Name) and one.id in _EXCEPTIONS:
                answers.append(issubclass(kind, _EXCEPTIONS[one.id]))
            elif isinstance(one, ast.Attribute) and one.attr == "JSONDecodeError":
                answers.append(None if issubclass(kind, ValueError) else False)
            else:
                answers.append(None)
        return True if True in answers else None if None in answers else False

    def _handler(self, handler: ast.ExceptHandler) -> str:
        if handler.name:
            self._bind(handler.name, Slot(Undecided(handler), handler))
        return self._block(handler.body)

    def _perhaps_caught(self, node: ast.Try, completion: str, current: _Try) -> str:
        """Behind a block that may or may not have raised."""
        before = self.state.changed_since(current.mark)
        between: dict[Any, list[Any]] = {}
        for cell, content in self.state.trail[current.mark :]:
            between.setdefault(cell, []).append(content)
        ends: list[Branch] = []
        if completion == _NEXT:
            end, branch = self._fork(lambda: self._branch(node.orelse))
            if end == _NEXT:
                mark = len(self.state.trail)
                self.state.merge([branch])
                ends.append(self.state.noted(current.mark, self.state.serial))
                self.state.undo(mark)
        partial = [Branch({cell: content}, range(0)) for cell, contents in between.items() for content in contents]
        final = Branch({cell: cell.content for cell in before}, range(0))
        self.state.undo(current.mark)
        mark = len(self.state.trail)
        if partial or current.exits:
            self.state.merge([*partial, final, *current.exits])
        for handler in node.handlers:
            end, branch = self._fork(lambda: self._leave(self._handler(handler)))  # noqa: B023 - called at once
            if end == _NEXT:
                inner = len(self.state.trail)
                self.state.merge([branch])
                ends.append(self.state.noted(current.mark, self.state.serial))
                self.state.undo(inner)
        self.state.undo(mark)
        if not ends:
            return _ENDED
        self.state.merge(ends)
        return _NEXT

    def _do_with(self, node: ast.With | ast.AsyncWith) -> str:
        suppresses = False
        entered_objects: list[Object] = []
        for item in node.items:
            value = self.evaluate(item.context_expr)
            if isinstance(value, Object):
                entered_objects.append(value)
            entered: Value = Undecided(item.context_expr)
            if isinstance(value, Object):
                try:
                    method = self.attribute(value, "__enter__", item.context_expr)
                    entered = self.call(method, Arguments([], {}), item.context_expr)
                except NotKnown:
                    pass
            if isinstance(item.context_expr, ast.Call) and _last_name(item.context_expr.func) == "suppress":
                suppresses = True
            if item.optional_vars is not None:
                self._assign(item.optional_vars, Slot(entered, item.context_expr), None)
        if not suppresses:
            completion = self._block(node.body)
            for value in entered_objects:
                self._leave_object(value, node)
            return completion
        handler = ast.ExceptHandler(type=None, name=None, body=[ast.Pass()])
        return self._do_try(ast.Try(body=node.body, handlers=[handler], orelse=[], finalbody=[]))

    _do_asyncwith = _do_with

    def _leave_object(self, value: Object, node: ast.With | ast.AsyncWith) -> None:
        """What an object does when its ``with`` ends, which may depend on an exception."""
        nothing = [Slot(Undecided(node), node) for _ in range(3)]
        try:
            method = self.attribute(value, "__exit__", node)
        except NotKnown:
            return
        self.perhaps(lambda: self._quietly(method, Arguments(nothing, {}), node))

    def _do_match(self, node: ast.Match) -> str:
        subject = self.evaluate(node.subject)
        alternatives: list[tuple[str, Branch]] = []
        for case in node.cases:
            answer = self._matches(case.pattern, subject)
            if answer is False:
                continue
            if case.guard is not None:
                if answer:
                    self._capture(case.pattern, subject)
                guard = self.truth(self.evaluate(case.guard))
                answer = None if guard is None or answer is None else guard
                if answer is False:
                    continue
            if answer and not alternatives:
                self._capture(case.pattern, subject)
                return self._block(case.body)

            def run(case: ast.match_case = case) -> str:
                self._capture(case.pattern, subject)
                return self._branch(case.body)

            alternatives.append(self._fork(run))
            if answer:
                return self._resume(alternatives)
        alternatives.append(self._fork(lambda: _NEXT))
        return self._resume(alternatives)

    def _matches(self, pattern: ast.pattern, subject: Value) -> bool | None:
        if isinstance(pattern, ast.MatchValue):
            return self.equal(subject, self.evaluate(pattern.value))
        if isinstance(pattern, ast.MatchSingleton):
            return subject.value is pattern.value if isinstance(subject, Known) else None
        if isinstance(pattern, ast.MatchOr):
            answers = [self._matches(one, subject) for one in pattern.patterns]
            return True if True in answers else None if None in answers else False
        if isinstance(pattern, ast.MatchAs):
            return True if pattern.pattern is None else self._matches(pattern.pattern, subject)
        return None

    def _capture(self, pattern: ast.pattern, subject: Value) -> None:
        if isinstance(pattern, ast.MatchAs):
            if pattern.name is not None:
                self._bind(pattern.name, Slot(subject, pattern))
            if pattern.pattern is not None:
                self._capture(pattern.pattern, subject)
            return
        for child in ast.walk(pattern):
            name = getattr(child, "name", None) or getattr(child, "rest", None)
            if isinstance(name, str):
                self._bind(name, Slot(Undecided(child, methods.inner_cells(subject)), child))

    # Names.

    def _do_global(self, node: ast.Global) -> None:
        pass  # see ``bound_names``

    _do_nonlocal = _do_global

    def _do_import(self, node: ast.Import) -> None:
        self._risk()
        for alias in node.names:
            if alias.asname:
                self._bind(alias.asname, Slot(LibraryName(alias.name), alias))
            else:
                first = alias.name.partition(".")[0]
                self._bind(first, Slot(LibraryName(first), alias))

    def _do_importfrom(self, node: ast.ImportFrom) -> None:
        self._risk()
        for alias in node.names:
            if alias.name == "*":
                self._has_star = True
                kept = self.globals.variables.content.entries if node.module in _WITHOUT_CONFIGS else ()
                self.state.blur(self.globals.variables, {name for name in kept if names_config(name)})
                continue
            name = f"{'.' * node.level}{node.module or ''}.{alias.name}"
            self._bind(alias.asname or alias.name, Slot(LibraryName(name), alias))

    def _owner(self, name: str) -> Environment:
        """The environment in which a statement here binds a name."""
        environment = self._frame.environment
        if name in environment.globals:
            return self.globals
        if name in environment.nonlocals:
            outer = environment.outer
            while outer is not None:
                if outer.local is not None and name in outer.local:
                    return outer
                outer = outer.outer
        return environment

    def _bind(self, name: str, slot: Slot) -> None:
        self.state.put(self._owner(name).variables, name, slot)

    def _lookup(self, name: str) -> tuple[Slot | None, Environment | None]:
        environment: Environment | None = self._frame.environment
        if environment is not None and name in environment.globals:
            environment = self.globals
        is_first = True
        while environment is not None:
            if environment.variables.is_lost:
                return None, environment
            if is_first or not environment.is_class:
                slot = environment.variables.content.entries.get(name)
                if slot is not None:
                    return slot, environment
                if environment.local is not None and name in environment.local:
                    return None, environment
            is_first = False
            environment = environment.outer
        return None, None

    def _name(self, node: ast.Name) -> Value:
        slot, environment = self._lookup(node.id)
        if slot is not None:
            if slot.may_be_missing and not isinstance(slot.value, Undecided):
                return Undecided(node)
            return slot.value
        if environment is None:
            if node.id.startswith("__"):
                return Undecided(node)
            if hasattr(builtins, node.id) and not self._has_star_name(node.id):
                return LibraryName(f"builtins.{node.id}")
        self._risk()
        return Undecided(node)

    def _has_star_name(self, name: str) -> bool:
        return self._has_star and name not in library.FUNCTIONS and f"builtins.{name}" not in library.FUNCTIONS

    def _slot(self, node: ast.expr) -> Slot:
        """The value of an expression that is put somewhere, and the text that wrote it."""
        value = self.evaluate(node)
        if isinstance(node, ast.Name):
            slot, environment = self._lookup(node.id)
            if slot is not None and environment is not None and node.id in environment.passed:
                return Slot(slot.value, slot.place, is_fixed=slot.is_fixed)
        if isinstance(node, ast.NamedExpr):
            return Slot(value, node.value, is_fixed=self._repeating > 0)
        return Slot(value, node, is_fixed=self._repeating > 0)

    def _assign(self, target: ast.expr, slot: Slot, source: ast.expr | None) -> None:
        """Give a target a value; without a source it is passed on from somewhere else."""
        if isinstance(target, ast.Name):
            owner = self._owner(target.id)
            if source is None:
                owner.passed.add(target.id)
            else:
                owner.passed.discard(target.id)
            self.state.put(owner.variables, target.id, slot.with_key(target))
        elif isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target, slot, source)
        elif isinstance(target, ast.Starred):
            self._assign(target.value, slot, source)
        elif isinstance(target, ast.Subscript):
            container, key = self.evaluate(target.value), self.evaluate(target.slice)
            key_place = key.place if isinstance(key, Known) else target.slice
            self.set_item(container, key, slot.with_key(key_place))
        elif isinstance(target, ast.Attribute):
            self.set_attribute(self.evaluate(target.value), self._mangled(target.attr), slot.with_key(target))

    def _unpack(self, target: ast.Tuple | ast.List, slot: Slot, source: ast.expr | None) -> None:
        targets = target.elts
        items = None if slot.may_be_missing else self.items(slot.value)
        starred = next((index for index, one in enumerate(targets) if isinstance(one, ast.Starred)), None)
        if items is None:
            inner = methods.inner_cells(slot.value)
            for one in targets:
                self._assign(one, Slot(Undecided(slot.place, inner), slot.place, is_fixed=True), source)
            return
        if (starred is None and len(items) != len(targets)) or len(items) < len(targets) - (starred is not None):
            raise ModuleError(ValueError)
        if starred is not None:
            behind = len(targets) - starred - 1
            rest = items[starred : len(items) - behind]
            line = self.state.new_list(slot.place, rest)
            items = [*items[:starred], Slot(line, slot.place, is_fixed=True), *items[len(items) - behind :]]
        for one, item in zip(targets, items, strict=True):
            self._assign(one, item, None if isinstance(slot.value, List) else source)

    # Functions and classes.

    def _do_functiondef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        function = self._function(node)
        value: Value = function
        for decorator in reversed(node.decorator_list):
            value = self._decorated(value, decorator, function)
        self._bind(node.name, Slot(value, node))

    _do_asyncfunctiondef = _do_functiondef

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> ModuleFunction:
        defaults = [self._slot(one) for one in node.args.defaults]
        named = {
            argument.arg: self._slot(default)
            for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            if default is not None
        }
        environment = self._frame.environment
        function = ModuleFunction(node, environment, defaults, named)
        self._functions[node] = function
        return function

    def _decorated(self, value: Value, decorator: ast.expr, function: ModuleFunction) -> Value:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = self._reference_name(called)
        if name in _CACHES:
            function.memory = {}
            return value
        if name in _TRANSPARENT or _last_name(called) == "record":
            return value
        if name in ("builtins.property", "functools.cached_property"):
            return Wrapped("property", value)
        if name in ("builtins.staticmethod", "builtins.classmethod"):
            return Wrapped(name.partition(".")[2], value)
        if isinstance(called, ast.Attribute) and called.attr in ("setter", "getter", "deleter"):
            return Wrapped("descriptor", value)
        try:
            with_decorator = self.evaluate(decorator)
        except NotKnown:
            return Undecided(decorator, (function,))
        if isinstance(with_decorator, (ModuleFunction, Bound, Class)):
            return self.call(with_decorator, Arguments([Slot(value, decorator)], {}), decorator)
        return Undecided(decorator, (function,))

    def _reference_name(self, node: ast.expr) -> str:
        if isinstance(node, ast.Name):
            value = self._name(node)
            return value.name if isinstance(value, LibraryName) else ""
        if isinstance(node, ast.Attribute):
            first = self._reference_name(node.value)
            return f"{first}.{node.attr}" if first else ""
        return ""

    def _do_classdef(self, node: ast.ClassDef) -> None:  # noqa: PLR0912 - one for each kind
        bases = [self.evaluate(one) for one in node.bases if not isinstance(one, ast.Starred)]
        attributes = self.state.new_dict(node)
        cls = Class(node.name, node, bases, attributes)
        cls.is_plain = not node.keywords and len(bases) == len(node.bases)
        for base in bases:
            if isinstance(base, Class):
                cls.is_plain &= base.is_plain
                cls.kind = cls.kind or ("" if base.kind == "dataclass" else base.kind)
            elif isinstance(base, LibraryName) and base.name in classes.ENUMS:
                cls.kind = classes.ENUMS[base.name]
            elif isinstance(base, LibraryName) and base.name == "typing.NamedTuple":
                cls.kind = "namedtuple"
            elif isinstance(base, LibraryName) and base.name in ("builtins.str", "builtins.int") and len(bases) == 2:
                pass  # before Enum
            elif not (isinstance(base, LibraryName) and base.name in classes.PLAIN_BASES):
                cls.is_plain = False
        if cls.kind == "enum" and any(
            base == LibraryName("builtins.str") or base == LibraryName("builtins.int") for base in bases
        ):
            cls.kind = "number"
        elif cls.kind not in ("enum", "number") and LibraryName("builtins.str") in bases:
            cls.is_plain = False
        environment = Environment(attributes, self._frame.environment, None)
        environment.is_class = True
        environment.globals = self._frame.environment.globals
        frame = _CallFrame(environment, self._frame.mark, self._frame.depth)
        outer, self._frame = self._frame, frame
        try:
            self._block(node.body)
        finally:
            self._frame = outer
        try:
            cls.order = classes.order_of(cls)
        except ModuleError:
            cls.is_plain = False
        self._adopt(cls, node)
        value: Value = cls
        for decorator in reversed(node.decorator_list):
            value = self._decorated_class(cls, value, decorator)
        if node.keywords:
            value = Undecided(node, (cls,))
        if cls.kind == "namedtuple":
            cls.fields = self._fields(cls, node)
        if cls.kind in ("enum", "number"):
            self._make_members(cls, node)
        self._classes[node] = cls
        self._bind(node.name, Slot(value, node))

    def _adopt(self, cls: Class, node: ast.ClassDef) -> None:
        """Note which functions are methods of a class."""
        for statement in node.body:
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)) and statement in self._functions:
                self._functions[statement].owner = cls

    def _decorated_class(self, cls: Class, value: Value, decorator: ast.expr) -> Value:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        name = self._reference_name(called)
        if name == "dataclasses.dataclass":
            cls.kind = "dataclass"
            assert cls.node is not None  # noqa: S101
            cls.fields = self._fields(cls, cls.node)
            is_keyword = isinstance(decorator, ast.Call) and any(
                one.arg == "kw_only" and not (isinstance(one.value, ast.Constant) and one.value.value is False)
                for one in decorator.keywords
            )
            if is_keyword:
                cls.fields = [field._replace(is_keyword=True) for field in cls.fields]
            if isinstance(decorator, ast.Call) and any(one.arg == "init" for one in decorator.keywords):
                cls.is_plain = False
            return value
        if name.startswith(("functools.total_ordering", "enum.unique", "typing.")):
            return value
        decorate = self.evaluate(decorator)
        if isinstance(decorate, (ModuleFunction, Bound)):
            return self.call(decorate, Arguments([Slot(value, decorator)], {}), decorator)
        cls.is_plain = False
        return Undecided(decorator)

    def _fields(self, cls: Class, node: ast.ClassDef) -> list[Field]:
        """The fields that the annotations of a class make."""
        found: list[Field] = []
        is_keyword = False
        for statement in node.body:
            if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
                continue
            written = ast.dump(statement.annotation)
            if "ClassVar" in written:
                continue
            if "KW_ONLY" in written:
                is_keyword = True
                continue
            if "InitVar" in written:
                cls.is_plain = False
            name = statement.target.id
            default = cls.attributes.content.entries.get(name)
            value = statement.value
            if isinstance(value, ast.Call) and self._reference_name(value.func) == "dataclasses.field":
                found.append(self._field(cls, name, value, is_keyword=is_keyword))
            else:
                found.append(Field(name, default, is_keyword=is_keyword))
        return found

    def _field(self, cls: Class, name: str, call: ast.Call, *, is_keyword: bool) -> Field:
        given = {one.arg: one.value for one in call.keywords}
        default = factory = None
        if "default" in given:
            default = self._slot(given["default"]).with_key(call)
            self.state.put(cls.attributes, name, default)
        else:
            self.state.remove(cls.attributes, name)
        if "default_factory" in given:
            factory = self.evaluate(given["default_factory"])
        takes = not (isinstance(given.get("init"), ast.Constant) and given["init"].value is False)  # type: ignore[attr-defined]
        keyword = given.get("kw_only")
        is_keyword |= isinstance(keyword, ast.Constant) and keyword.value is True
        return Field(name, default, factory, takes, is_keyword)

    def _make_members(self, cls: Class, node: ast.ClassDef) -> None:
        number = 0
        for statement in node.body:
            if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
                continue
            name = statement.targets[0].id
            slot = cls.attributes.content.entries.get(name)
            if slot is None or name.startswith("_"):
                continue
            is_auto = (
                isinstance(statement.value, ast.Call) and self._reference_name(statement.value.func) == "enum.auto"
            )
            if is_auto:
                is_text = any(isinstance(base, LibraryName) and base.name == "enum.StrEnum" for base in cls.bases)
                number += 1
                made: Value = Known(name.lower() if is_text else number, statement.value)
                slot = Slot(made, statement.value, is_fixed=True)
            elif isinstance(slot.value, Known) and isinstance(slot.value.value, int):
                number = slot.value.value
            entries = {"_value_": slot, "_name_": Slot(Known(name, statement.targets[0]), statement, is_fixed=True)}
            same_value = next(
                (one for one in cls.members if self.equal(one.attributes.content.entries["_value_"].value, slot.value)),
                None,
            )
            member = same_value or Object(cls, self.state.new_dict(statement, entries), statement)
            if same_value is None:
                cls.members.append(member)
            self.state.put(cls.attributes, name, Slot(member, slot.place))

    # Expressions.

    def evaluate(self, node: ast.expr) -> Value:
        """The value of an expression."""
        self._step()
        self._depth += 1
        if self._depth > _DEEPEST:
            self._depth -= 1
            self._risk()
            return Undecided(node)
        try:
            method = getattr(self, f"_of_{type(node).__name__.lower()}", None)
            if method is None:
                return self._of_other(node)
            value: Value = method(node)
        except NotKnown:
            self._risk()
            return Undecided(node)
        else:
            return value
        finally:
            self._depth -= 1

    def _of_other(self, node: ast.expr) -> Value:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.evaluate(child)
        self._risk()
        return Undecided(node)

    @staticmethod
    def _of_constant(node: ast.Constant) -> Value:
        return Known(node.value, node)

    def _of_name(self, node: ast.Name) -> Value:
        return self._name(node)

    def _of_namedexpr(self, node: ast.NamedExpr) -> Value:
        slot = self._slot(node.value)
        environment = self._frame.environment
        while environment.is_comprehension and environment.outer is not None:
            environment = environment.outer
        inner, self._frame.environment = self._frame.environment, environment
        self._assign(node.target, slot, node.value)
        self._frame.environment = inner
        return slot.value

    def _of_dict(self, node: ast.Dict) -> Value:
        made = self.state.new_dict(node)
        self.made.setdefault(node, []).append(made)
        entries: dict[Any, Slot] = {}
        for key, element in zip(node.keys, node.values, strict=True):
            if key is None:
                if entries:
                    made.content = made.content._replace(entries={**made.content.entries, **entries})
                    entries = {}
                methods.merge(self, made, self.evaluate(element))
                continue
            name = self.evaluate(key)
            slot = self._slot(element)
            try:
                known = methods.key_of(name)
            except NotKnown:
                made.content = made.content._replace(entries={**made.content.entries, **entries})
                entries = {}
                methods.set_some_key(self, made, name, slot)
                continue
            entries[known] = slot.with_key(name.place if isinstance(name, Known) else key)
        made.content = made.content._replace(entries={**made.content.entries, **entries})
        return made

    def _elements(self, nodes: list[ast.expr]) -> list[Slot] | None:
        slots: list[Slot] | None = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                more = self.items(self.evaluate(node.value))
                slots = None if more is None or slots is None else [*slots, *more]
            else:
                slot = self._slot(node)
                if slots is not None:
                    slots.append(slot)
        return slots

    def _of_list(self, node: ast.List) -> Value:
        return self.state.new_list(node, self._elements(node.elts))

    def _of_tuple(self, node: ast.Tuple) -> Value:
        return self.state.new_list(node, self._elements(node.elts), "tuple")

    def _of_set(self, node: ast.Set) -> Value:
        slots = self._elements(node.elts)
        if slots is None:
            return self.state.new_list(node, None, "set")
        return lifted({methods.key_of(slot.value) for slot in slots}, node, self.state)

    def _of_attribute(self, node: ast.Attribute) -> Value:
        return self.attribute(self.evaluate(node.value), self._mangled(node.attr), node)

    def _mangled(self, name: str) -> str:
        """A private name as a class has it."""
        if not name.startswith("__") or name.endswith("__"):
            return name
        environment: Environment | None = self._frame.environment
        while environment is not None:
            if environment.kept is not None:
                return f"_{environment.kept.name.lstrip('_')}{name}"
            environment = environment.outer
        return name

    def _of_subscript(self, node: ast.Subscript) -> Value:
        container = self.evaluate(node.value)
        if isinstance(node.slice, ast.Slice):
            return self._sliced(container, node.slice, node)
        return self.item(container, self.evaluate(node.slice), node)

    def _sliced(self, container: Value, node: ast.Slice, place: Place) -> Value:
        ends = [None if one is None else lowered(self.evaluate(one)) for one in (node.lower, node.upper, node.step)]
        if isinstance(container, List) and container.kind in ("list", "tuple"):
            items = methods.items_of(container)
            return self.state.new_list(place, computed(lambda: items[slice(*ends)]), container.kind)
        value = lowered(container)
        if isinstance(container, Known):
            return lifted(computed(lambda: value[slice(*ends)]), place, self.state)
        raise NotKnown

    def _of_binop(self, node: ast.BinOp) -> Value:
        chain = [node]  # a sum of hundreds of texts is as deep
        while isinstance(chain[-1].left, ast.BinOp):
            chain.append(chain[-1].left)
        value = self.evaluate(chain[-1].left)
        for one in reversed(chain):
            right = self.evaluate(one.right)
            try:
                value = self._binary(type(one.op), value, right, one)
            except NotKnown:
                self._risk()
                value = Undecided(one)
        return value

    def _binary(self, kind: type[ast.operator], one: Value, other: Value, place: Place) -> Value:
        if kind is ast.BitOr and isinstance(one, Dict) and isinstance(other, Dict):
            return methods.unite(self, one, other, place)
        if kind is ast.BitOr and (isinstance(one, Dict) or isinstance(other, Dict)):
            self._risk()
            return Undecided(place)
        if kind is ast.Add and isinstance(one, List) and isinstance(other, List) and one.kind == other.kind != "set":
            if one.content is None or other.content is None or one.is_lost or other.is_lost:
                return self.state.new_list(place, None, one.kind)
            if len(one.content) + len(other.content) > _MOST_ITERATIONS:
                raise NotKnown
            return self.state.new_list(place, (*one.content, *other.content), one.kind)
        if kind is ast.Mult and isinstance(one, List) and one.kind in ("list", "tuple"):
            times = lowered(other)
            items = methods.items_of(one)
            if not isinstance(times, int) or len(items) * times > _MOST_ITERATIONS:
                raise NotKnown
            return self.state.new_list(place, [Slot(s.value, s.place, is_fixed=True) for s in items * times], one.kind)
        if isinstance(one, Object) or isinstance(other, Object):
            number = _is_member(one) or _is_member(other)
            if not number:
                return self._by_method(kind, one, other, place)
            if kind is ast.Mod:
                raise NotKnown
        if isinstance(one, Undecided) or isinstance(other, Undecided):
            self._risk()
            return Undecided(place, is_fraction=_is_fraction(kind, one, other))
        return lifted(binary(kind, lowered(one), lowered(other)), place, self.state)

    def _by_method(self, kind: type[ast.operator], one: Value, other: Value, place: Place) -> Value:
        name = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.BitOr: "or", ast.Div: "truediv"}.get(kind)
        if name is None or not isinstance(one, Object) or classes.find(one.cls, f"__{name}__") is None:
            raise NotKnown
        return self.call(self.attribute(one, f"__{name}__", place), Arguments([Slot(other, place)], {}), place)

    def _of_unaryop(self, node: ast.UnaryOp) -> Value:
        value = self.evaluate(node.operand)
        if isinstance(node.op, ast.Not):
            truth = self.truth(value)
            return Undecided(node) if truth is None else Known(not truth, node)
        if isinstance(value, Undecided):
            return Undecided(node, is_fraction=value.is_fraction)
        known = lowered(value)
        return lifted(computed(lambda: UNARY[type(node.op)](known)), node, self.state)

    def _of_boolop(self, node: ast.BoolOp) -> Value:
        return self._chain(node.values, isinstance(node.op, ast.Or), node)

    def _chain(self, values: list[ast.expr], is_or: bool, place: Place) -> Value:
        first = self.evaluate(values[0])
        if len(values) == 1:
            return first
        truth = self.truth(first)
        if truth is is_or:
            return first
        if truth is not None:
            return self._chain(values[1:], is_or, place)
        found: list[Value] = []
        self.perhaps(lambda: found.append(self._chain(values[1:], is_or, place)))
        if not found:
            return first
        joined = join_values(first, found[0], self.state)
        return joined if not isinstance(joined, Undecided) else Undecided(place, joined.candidates)

    def _of_compare(self, node: ast.Compare) -> Value:
        left = self.evaluate(node.left)
        for operator, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.evaluate(right_node)
            answer = self._compare(operator, left, right)
            if answer is None:
                self._risk()
                return Undecided(node)
            if not answer:
                return Known(False, node)
            left = right
        return Known(True, node)

    def _compare(self, operator: ast.cmpop, one: Value, other: Value) -> bool | None:
        if isinstance(operator, (ast.Is, ast.IsNot)):
            answer = _is(one, other)
            return answer if answer is None or isinstance(operator, ast.Is) else not answer
        if isinstance(operator, (ast.In, ast.NotIn)):
            answer = self._contains(other, one)
            return answer if answer is None or isinstance(operator, ast.In) else not answer
        if isinstance(operator, (ast.Eq, ast.NotEq)):
            answer = self.equal(one, other)
            return answer if answer is None or isinstance(operator, ast.Eq) else not answer
        try:
            left, right = lowered(one), lowered(other)
        except NotKnown:
            return None
        result = computed(lambda: COMPARISONS[type(operator)](left, right))
        return bool(result)

    def equal(self, one: Value, other: Value) -> bool | None:
        """Whether two values are equal; None if that does not show."""
        try:
            return self._equal(one, other)
        except NotKnown:
            return None

    def _equal(self, one: Value, other: Value) -> bool | None:
        is_member = _is_member(one) or _is_member(other)
        if (isinstance(one, Object) or isinstance(other, Object)) and not is_member:
            return self._same_object(one, other)
        if isinstance(one, (Class, ModuleFunction)) or isinstance(other, (Class, ModuleFunction)):
            return True if one is other else False if type(one) is type(other) else None
        if isinstance(one, LibraryName) and isinstance(other, LibraryName):
            is_builtin = one.name.startswith("builtins.") and other.name.startswith("builtins.")
            return one.name == other.name if is_builtin or one.name == other.name else None
        left, right = lowered(one), lowered(other)
        return bool(computed(lambda: left == right))

    def _same_object(self, one: Value, other: Value) -> bool | None:
        if isinstance(one, Object) and isinstance(other, Object) and one.attributes is other.attributes:
            return True
        for value in (one, other):
            if isinstance(value, Undecided):
                return None
            if isinstance(value, Object) and (
                value.cls.kind not in ("", "enum") or not value.cls.is_plain or classes.find(value.cls, "__eq__")
            ):
                return None
        return False

    def _contains(self, container: Value, key: Value) -> bool | None:
        try:
            if isinstance(container, View) and container.what == "keys":
                container = container.cell
            if isinstance(container, Dict):
                return methods.entry(container, methods.key_of(key)) is not None
            if isinstance(container, List) and container.kind != "set":
                slots = self.items(container)
                if slots is None:
                    return None
                answers = [None if slot.may_be_missing else self.equal(slot.value, key) for slot in slots]
                return True if True in answers else None if None in answers else False
            if isinstance(container, Object):
                method = self.attribute(container, "__contains__", None)
                return self.truth(self.call(method, Arguments([Slot(key, None)], {}), None))
            known, wanted = lowered(container), lowered(key)
        except NotKnown:
            return None
        return bool(computed(lambda: wanted in known))

    def _of_ifexp(self, node: ast.IfExp) -> Value:
        test = self.truth(self.evaluate(node.test))
        if test is not None:
            return self.evaluate(node.body if test else node.orelse)
        found: list[Value] = []
        alternatives = []
        for one in (node.body, node.orelse):

            def run(one: ast.expr = one) -> str:
                found.append(self.evaluate(one))
                return _NEXT

            alternatives.append(self._fork(run))
        if self._resume(alternatives) != _NEXT:
            raise ModuleError(None)
        if len(found) == 1:
            return found[0]
        joined = join_values(found[0], found[1], self.state)
        if isinstance(joined, Undecided):
            joined.place = node
        return joined

    def _of_joinedstr(self, node: ast.JoinedStr) -> Value:
        parts = [self._field_text(one) for one in node.values]
        text = "".join(parts)
        if len(text) > 50_000:
            raise NotKnown
        return Known(text, node)

    def _field_text(self, node: ast.expr) -> str:
        value = self.evaluate(node.value if isinstance(node, ast.FormattedValue) else node)
        known = lowered(value)
        if isinstance(value, Object) or isinstance(known, (set, frozenset)):
            raise NotKnown
        if not isinstance(node, ast.FormattedValue):
            return str(known)
        specification = "" if node.format_spec is None else str(lowered(self.evaluate(node.format_spec)))
        text: str = computed(lambda: format_value(known, node.conversion, specification))
        return text

    def _of_lambda(self, node: ast.Lambda) -> Value:
        return self._function(node)

    def _of_await(self, node: ast.Await) -> Value:
        self._awaited.add(node.value)
        return self.evaluate(node.value)

    def _of_starred(self, node: ast.Starred) -> Value:
        return self.evaluate(node.value)

    def _of_yield(self, node: ast.Yield) -> Value:
        if node.value is not None:
            self._soften(self.evaluate(node.value))
        return Undecided(node)

    def _of_yieldfrom(self, node: ast.YieldFrom) -> Value:
        self._soften(self.evaluate(node.value))
        return Undecided(node)

    # Comprehensions.

    def _of_listcomp(self, node: ast.ListComp) -> Value:
        return self.state.new_list(node, self._comprehended(node.generators, [node.elt]))

    def _of_generatorexp(self, node: ast.GeneratorExp) -> Value:
        return self.state.new_list(node, self._comprehended(node.generators, [node.elt]), "iterator")

    def _of_setcomp(self, node: ast.SetComp) -> Value:
        slots = self._comprehended(node.generators, [node.elt])
        if slots is None:
            return self.state.new_list(node, None, "set")
        return lifted({methods.key_of(slot.value) for slot in slots}, node, self.state)

    def _of_dictcomp(self, node: ast.DictComp) -> Value:
        made = self.state.new_dict(node)
        self.made.setdefault(node, []).append(made)
        pairs = self._comprehended(node.generators, [node.key, node.value])
        if pairs is None:
            self.state.blur(made)
            return made
        for index in range(0, len(pairs), 2):
            methods.set_key(self, made, pairs[index].value, pairs[index + 1])
        return made

    def _comprehended(self, generators: list[ast.comprehension], wanted: list[ast.expr]) -> list[Slot] | None:
        """What a comprehension makes, one after the other; None if that does not show."""
        outer = self._frame
        first = self.evaluate(generators[0].iter)
        environment = Environment(self.state.new_dict(wanted[0]), outer.environment, bound_names(generators))
        environment.globals = outer.environment.globals
        environment.is_comprehension = True
        frame = _CallFrame(environment, outer.mark, outer.depth)
        frame.loops, frame.exits = outer.loops, outer.exits
        found: list[Slot] = []
        self._frame = frame
        self._repeating += 1
        try:
            is_known = self._generate(generators, wanted, found, first)
        finally:
            self._repeating -= 1
            self._frame = outer
        return found if is_known else None

    def _generate(
        self, generators: list[ast.comprehension], wanted: list[ast.expr], found: list[Slot], first: Value | None
    ) -> bool:
        if not generators:
            for one in wanted:
                slot = self._slot(one)
                found.append(slot)
            return True
        generator, *rest = generators
        iterated = self.evaluate(generator.iter) if first is None else first
        items = self.items(iterated)
        if items is None or len(items) > _MOST_ITERATIONS:
            unknown = Slot(Undecided(generator.iter, methods.inner_cells(iterated)), generator.iter, is_fixed=True)

            def once() -> None:
                self._assign(generator.target, unknown, None)
                for test in generator.ifs:
                    self.evaluate(test)
                self._generate(rest, wanted, [], None)

            self.perhaps(once)
            return False
        is_known = True
        for slot in items:
            self._step()
            self._assign(generator.target, slot, None)
            tests = [self.truth(self.evaluate(test)) for test in generator.ifs]
            if False in tests:
                continue
            if None in tests:
                self.perhaps(lambda: self._generate(rest, wanted, [], None))
                is_known = False
            else:
                is_known &= self._generate(rest, wanted, found, None)
        return is_known

    # What values are and have.

    def truth(self, value: Value) -> bool | None:
        """Whether a value is true; None if that does not show."""
        try:
            truth = self._truth(value)
        except NotKnown:
            truth = None
        if truth is None:
            self._risk()
        return truth

    @staticmethod
    def _truth(value: Value) -> bool | None:
        if isinstance(value, Known):
            return bool(value.value)
        if isinstance(value, Object):
            if _is_member(value):
                return None
            plain = value.cls.is_plain and value.cls.kind in ("", "dataclass", "enum", "namespace")
            if plain and not classes.find(value.cls, "__bool__") and not classes.find(value.cls, "__len__"):
                return True
            return None
        if isinstance(value, (ModuleFunction, Class, Bound, Method)):
            return True
        if isinstance(value, LibraryName):
            return True if value.name.startswith("builtins.") else None
        if isinstance(value, List) and value.kind == "iterator":
            return True
        cell = value.cell if isinstance(value, View) else value
        if isinstance(cell, Dict) and not cell.is_lost:
            if any(not slot.may_be_missing for slot in cell.content.entries.values()):
                return True
            return None if cell.content.is_open or cell.content.entries else False
        if isinstance(cell, List) and not cell.is_lost:
            return None if cell.content is None else bool(cell.content)
        return None

    def items(self, value: Value) -> list[Slot] | None:
        """What a loop over a value gets; None if that does not show."""
        if isinstance(value, List):
            if value.is_lost or value.content is None or (value.kind == "set" and len(value.content) > 1):
                return None
            items = [*value.content]
            if value.kind == "iterator":
                self.state.write(value, ())
            return None if any(slot.may_be_missing for slot in items) else items
        if isinstance(value, Dict):
            value = View(value, "keys")
        if isinstance(value, View):
            return self._items_of_view(value)
        if isinstance(value, Known) and isinstance(value.value, (range, str)):
            if value.value[_MOST_ITERATIONS:]:  # a range may be too long for len()
                return None
            return [Slot(Known(one, value.place), value.place, is_fixed=True) for one in value.value]
        if isinstance(value, Known) and isinstance(value.value, (int, float, type(None))):
            raise ModuleError(TypeError)
        if isinstance(value, Class) and value.kind in ("enum", "number"):
            return [Slot(member, member.place) for member in value.members]
        if isinstance(value, Object) and value.cls.kind == "namedtuple":
            found = [value.attributes.content.entries.get(field.name) for field in classes.fields_of(value.cls)]
            known = [slot for slot in found if slot is not None and not slot.may_be_missing]
            return known if len(known) == len(found) else None
        return None

    def _items_of_view(self, view: View) -> list[Slot] | None:
        cell = view.cell
        entries = cell.content.entries
        if cell.is_lost or cell.content.is_open or any(slot.may_be_missing for slot in entries.values()):
            return None
        if view.what == "values":
            return [*entries.values()]
        found = []
        for key, slot in entries.items():
            place = slot.key_place if slot.key_place is not None else slot.place
            name = Slot(lifted(key, place, self.state), place, is_fixed=slot.is_fixed)
            if view.what == "keys":
                found.append(name)
            else:
                found.append(Slot(self.state.new_list(place, [name, slot], "tuple"), slot.place, is_fixed=True))
        return found

    def attribute(self, value: Value, name: str, place: Place) -> Value:  # noqa: PLR0912 - one for each kind
        """An attribute of a value; raises NotKnown if it does not show."""
        if isinstance(value, Object):
            return classes.object_attribute(self, value, name, place)
        if isinstance(value, Class):
            return classes.class_attribute(self, value, name, place)
        if isinstance(value, LibraryName):
            full = f"{value.name}.{name}"
            return self._constant_of(full, place)
        if isinstance(value, Super):
            slot = None
            cls = value.receiver if isinstance(value.receiver, Class) else value.receiver.cls
            if value.after in cls.order:
                slot = classes.find(cls, name, after=value.after)
            if slot is not None and isinstance(slot.value, (ModuleFunction, Wrapped)):
                function = slot.value.function if isinstance(slot.value, Wrapped) else slot.value
                if isinstance(slot.value, Wrapped) and slot.value.kind == "property":
                    return self.call(function, Arguments([Slot(value.receiver, place)], {}), place)
                return Bound(function, (Slot(value.receiver, place),))
            if slot is None and isinstance(value.receiver, Object):
                if cls.is_plain and name in ("__init__", "__init_subclass__", "__post_init__"):
                    return LibraryName("builtins.print")  # of object: it does nothing
                self.state.open(value.receiver.attributes)
            raise NotKnown
        if isinstance(value, Undecided):
            if value.attributes is not None:
                found = value.attributes.content.entries.get(name)
                if found is not None and not found.may_be_missing:
                    return found.value
            cells = [
                one.content.entries[name].value
                for one in value.candidates
                if isinstance(one, Dict) and name in one.content.entries
            ]
            if any(isinstance(one, (Dict, List)) for one in value.candidates):
                return Method(value, name, place)
            return Undecided(place, tuple(one for one in cells if isinstance(one, (Dict, List))))
        if isinstance(value, Known):
            if isinstance(value.value, (int, float)) and name in ("real", "imag", "numerator", "denominator"):
                return lifted(getattr(value.value, name), place, self.state)
            if hasattr(value.value, name):
                if name in methods.PATH_ATTRIBUTES and not callable(getattr(value.value, name)):
                    return lifted(getattr(value.value, name), place, self.state)
                return Method(value, name, place)
            raise ModuleError(AttributeError)
        if isinstance(value, (Dict, List)):
            return Method(value, name, place)
        if isinstance(value, ModuleFunction):
            if name == "__name__" and not isinstance(value.node, ast.Lambda):
                return Known(value.node.name, place)
            slot = None if value.attributes is None else value.attributes.content.entries.get(name)
            if slot is not None and not slot.may_be_missing:
                return slot.value
        raise NotKnown

    def _constant_of(self, full: str, place: Place) -> Value:
        """What a name of a library stands for."""
        if full in self._patched:
            raise NotKnown
        import math

        if full in ("math.pi", "math.e", "math.inf"):
            return Known(getattr(math, full.partition(".")[2]), place)
        return LibraryName(full)

    def set_attribute(self, value: Value, name: str, slot: Slot) -> None:
        """Give an attribute of a value another one."""
        if isinstance(value, Object):
            found = classes.find(value.cls, name)
            decides = found is not None and (
                isinstance(found.value, (Wrapped, ModuleFunction)) or classes.is_descriptor(found.value)
            )
            if decides or classes.find(value.cls, "__setattr__") is not None:
                self.state.blur(value.attributes)
                return
            self.state.put(value.attributes, name, slot)
        elif isinstance(value, Class):
            self.state.put(value.attributes, name, slot)
        elif isinstance(value, Undecided):
            for one in value.candidates:
                if isinstance(one, Dict):
                    self.state.weaken(one, name, slot)
            if value.attributes is None:
                value.attributes = self.state.new_dict(value.place, is_open=True)
            self.state.put(value.attributes, name, slot)
        elif isinstance(value, LibraryName):
            self._patched.add(f"{value.name}.{name}")
        elif isinstance(value, ModuleFunction):
            if value.attributes is None:
                value.attributes = self.state.new_dict(value.node)
            self.state.put(value.attributes, name, slot)

    def item(self, container: Value, key: Value, place: Place) -> Value:  # noqa: PLR0912 - one for each kind
        """What is under a key; raises NotKnown if it does not show."""
        if isinstance(container, Dict):
            try:
                known = methods.key_of(key)
                slot = methods.entry(container, known)
            except NotKnown:
                self._risk()
                return Undecided(place, methods.inner_cells(container))
            if slot is not None:
                return slot.value
            if container.factory is not None:
                made = self.call(container.factory, Arguments([], {}), place)
                self.state.put(container, known, Slot(made, place, getattr(key, "place", None), is_fixed=True))
                return made
            raise ModuleError(KeyError)
        if isinstance(container, List):
            try:
                items, index = methods.items_of(container), lowered(key)
            except NotKnown:
                self._risk()
                return Undecided(place, methods.inner_cells(container))
            if container.kind not in ("list", "tuple") or not isinstance(index, int):
                raise NotKnown
            chosen = computed(lambda: items[index])
            if chosen.may_be_missing:
                raise NotKnown
            found: Value = chosen.value
            return found
        if isinstance(container, Known):
            known, index = container.value, lowered(key)
            return lifted(computed(lambda: known[index]), place, self.state)
        if isinstance(container, Undecided):
            return Undecided(place, methods.inner_cells(container))
        if isinstance(container, Object):
            if container.cls.kind == "namedtuple":
                items_ = self.items(container)
                index = lowered(key)
                if items_ is None or not isinstance(index, int):
                    raise NotKnown
                return computed(lambda: items_[index]).value  # type: ignore[no-any-return]
            return self.call(self.attribute(container, "__getitem__", place), Arguments([Slot(key, place)], {}), place)
        if isinstance(container, Class):
            if container.kind in ("enum", "number"):
                name = lowered(key)
                for member in container.members:
                    if lowered(member.attributes.content.entries["_name_"].value) == name:
                        return member
                raise ModuleError(KeyError)
            return container  # a generic one
        raise NotKnown

    def set_item(self, container: Value, key: Value, slot: Slot) -> None:
        """Put a value under a key."""
        if isinstance(container, Dict):
            methods.set_key(self, container, key, slot)
        elif isinstance(container, List):
            try:
                slots, index = [*methods.items_of(container)], lowered(key)
                if not isinstance(index, int):
                    raise NotKnown  # noqa: TRY301 - one way out
                computed(lambda: slots.__setitem__(index, slot))
            except NotKnown:
                self.state.blur_list(container)
            else:
                self.state.write(container, tuple(slots))
        elif isinstance(container, Undecided):
            self._weaken_key(container, key, slot)
            self._risk()
        elif isinstance(container, Object):
            try:
                method = self.attribute(container, "__setitem__", None)
                self.call(method, Arguments([Slot(key, slot.place), slot], {}), slot.place)
            except NotKnown:
                self.state.weaken_all(container)

    def _weaken_key(self, container: Undecided, key: Value, slot: Slot | None) -> None:
        for one in container.candidates:
            if isinstance(one, Dict):
                try:
                    known = methods.key_of(key)
                except NotKnown:
                    self.state.blur(one)
                else:
                    if slot is not None or known in one.content.entries:
                        self.state.weaken(one, known, slot)
            elif isinstance(one, List):
                self.state.blur_list(one)

    # Calls.

    def _of_call(self, node: ast.Call) -> Value:
        if isinstance(node.func, ast.Name) and node.func.id == "super" and self._lookup("super")[0] is None:
            return self._super(node)
        function = self.evaluate(node.func)
        if function == LibraryName("asyncio.run"):
            self._awaited.update(node.args)
            return self._arguments(node).positional[0].value
        arguments = self._arguments(node)
        is_own = isinstance(function, (ModuleFunction, Method)) or (
            isinstance(function, Bound) and isinstance(function.function, ModuleFunction)
        )
        is_library = isinstance(function, LibraryName) and function.name in library.FUNCTIONS
        if self.watch is not None and (node in self.reading or not (is_own or is_library)):
            self.watch(node, arguments)
        if isinstance(function, LibraryName) and function.name in (
            "builtins.exec",
            "builtins.eval",
            "builtins.globals",
        ):
            if function.name != "builtins.globals":
                self.state.blur(self.globals.variables)
            return Undecided(node, (self.globals.variables,))
        if isinstance(function, LibraryName) and function.name == "builtins.vars" and not node.args:
            return Undecided(node, (self._frame.environment.variables,))
        if isinstance(function, LibraryName) and function.name == "builtins.locals":
            return methods.copied(self, self._frame.environment.variables, node)
        if node in self.reading:
            if isinstance(function, Class):
                with contextlib.suppress(NotKnown):
                    return classes.make(self, function, arguments, node)
            self._risk()
            return Undecided(node)
        value = self.call(function, arguments, node)
        if isinstance(value, Dict) and isinstance(function, LibraryName) and value.place is node:
            self.made.setdefault(node, []).append(value)
        return value

    def _super(self, node: ast.Call) -> Value:
        environment: Environment | None = self._frame.environment
        while environment is not None and environment.kept is None:
            environment = environment.outer
        if environment is None or environment.kept is None or node.args or environment.local is None:
            raise NotKnown
        receiver = next(iter(environment.variables.content.entries.values()), None)
        if receiver is None or not isinstance(receiver.value, (Object, Class)):
            raise NotKnown
        return Super(environment.kept, receiver.value)

    def _arguments(self, node: ast.Call) -> Arguments:
        positional: list[Slot] = []
        is_open = False
        for one in node.args:
            if isinstance(one, ast.Starred):
                items = self.items(self.evaluate(one.value))
                if items is None:
                    is_open = True
                else:
                    positional += items
            else:
                positional.append(self._slot(one))
        keywords: dict[str, Slot] = {}
        for keyword in node.keywords:
            if keyword.arg is not None:
                keywords[keyword.arg] = self._slot(keyword.value).with_key(keyword)
                continue
            value = self.evaluate(keyword.value)
            if isinstance(value, Object):
                raise NotKnown
            if not isinstance(value, Dict) or value.is_lost or value.content.is_open:
                is_open = True
            if isinstance(value, Dict) and not value.is_lost:
                keywords |= {key: slot for key, slot in value.content.entries.items() if isinstance(key, str)}
        return Arguments(positional, keywords, is_open)

    def call(self, function: Value, arguments: Arguments, place: Place) -> Value:
        """What a call returns; raises NotKnown if that does not show."""
        if isinstance(function, Bound):
            keywords = {**dict(function.keywords), **arguments.keywords}
            whole = Arguments([*function.arguments, *arguments.positional], keywords, arguments.is_open)
            return self.call(function.function, whole, place)
        if isinstance(function, ModuleFunction):
            return self._run_function(function, arguments, place)
        if isinstance(function, Class):
            try:
                return classes.make(self, function, arguments, place)
            except NotKnown:
                self._soften_all(arguments)
                raise
        if isinstance(function, Wrapped) and function.kind == "staticmethod":
            return self.call(function.function, arguments, place)
        if isinstance(function, Method):
            return self._call_method(function, arguments, place)
        if isinstance(function, LibraryName):
            return self._call_library(function.name, arguments, place)
        if isinstance(function, Object):
            return self.call(self.attribute(function, "__call__", place), arguments, place)
        self._risk()
        if isinstance(function, Undecided):
            for one in function.candidates:
                if isinstance(one, (ModuleFunction, Bound, Method, Class)):
                    self.perhaps(lambda one=one: self._quietly(one, arguments, place))  # type: ignore[misc]
                elif isinstance(one, Dict):
                    self.state.weaken_all(one)
        self._soften_all(arguments)
        return Undecided(place, self._mutable(arguments))

    def _quietly(self, function: Value, arguments: Arguments, place: Place) -> None:
        with contextlib.suppress(NotKnown):
            self.call(function, arguments, place)

    def _mutable(self, arguments: Arguments) -> tuple[Value, ...]:
        values = [slot.value for slot in (*arguments.positional, *arguments.keywords.values())]
        return tuple(methods.cells_of(values))[:6]

    def _call_method(self, method: Method, arguments: Arguments, place: Place) -> Value:
        receiver = method.receiver
        if isinstance(receiver, Undecided):
            self._risk()
            if method.name not in _READING_METHODS:
                for one in receiver.candidates:
                    self._perhaps_method(one, method, arguments, place)
                self._soften_all(arguments)
            return Undecided(place, methods.inner_cells(receiver))
        if isinstance(receiver, Known) and method.name == "open":
            return Undecided(place)
        try:
            return methods.call(self, receiver, method.name, arguments, place)
        except NotKnown:
            self._risk()
            inner = () if method.name in ("items", "keys") else methods.inner_cells(receiver)
            return Undecided(place, inner)

    def _perhaps_method(self, one: Value, method: Method, arguments: Arguments, place: Place) -> None:
        def run() -> None:
            with contextlib.suppress(NotKnown):
                methods.call(self, one, method.name, arguments, place)

        self.perhaps(run)

    def _call_library(self, name: str, arguments: Arguments, place: Place) -> Value:
        known = library.FUNCTIONS.get(name) if name not in self._patched else None
        of_text = name.removeprefix("builtins.str.")
        if of_text != name and arguments.positional and isinstance(arguments.positional[0].value, Known):
            text, *rest = arguments.positional
            return methods.call(self, text.value, of_text, Arguments(rest, *arguments[1:]), place)
        if known is not None:
            with contextlib.suppress(NotKnown):
                return known(self, arguments, place)
        self._risk()
        if not library.only_reads(name) and known is None:
            self._soften_all(arguments)
            return Undecided(place, self._mutable(arguments))
        return Undecided(place, self._mutable(arguments) if known is not None else ())

    def _soften_all(self, arguments: Arguments) -> None:
        for slot in (*arguments.positional, *arguments.keywords.values()):
            self._soften(slot.value)

    def _soften(self, value: Value) -> None:
        """Note that code which does not show has got a value, and may add keys to it."""
        pending: list[tuple[Value, bool]] = [(value, True)]
        seen: set[int] = set()
        while pending:
            current, is_top = pending.pop()
            if id(current) in seen:
                continue
            seen.add(id(current))
            if isinstance(current, Undecided):
                pending += [(one, is_top) for one in current.candidates]
            elif isinstance(current, Dict):
                self.state.open(current)
                pending += [(slot.value, False) for slot in current.content.entries.values()]
            elif isinstance(current, List):
                pending += [(slot.value, False) for slot in current.content or ()]
                if is_top and current.kind in ("list", "set"):
                    self.state.blur_list(current)
            elif isinstance(current, View):
                pending.append((current.cell, is_top))
            elif isinstance(current, ModuleFunction):
                self._let_go(current)
            elif isinstance(current, Bound):
                pending.append((current.function, is_top))
                pending += [(slot.value, False) for slot in current.arguments if not isinstance(slot.value, Object)]
            elif isinstance(current, Method):
                pending.append((current.receiver, is_top))

    def _let_go(self, function: ModuleFunction) -> None:
        """Note that a function may be called from now on."""
        if id(function) in self._escaping or isinstance(function.node, ast.Lambda):
            return
        self._escaping.add(id(function))
        receiver = self._generic_object(function.owner) if function.owner is not None else None

        def run() -> None:
            self._run_function(function, self._unknown_arguments(function, receiver), function.node, is_entry=True)

        self.perhaps(run)

    def _run_function(
        self, function: ModuleFunction, arguments: Arguments, place: Place, *, is_entry: bool = False
    ) -> Value:
        node = function.node
        if not is_entry:
            self._entered.add(node)
        if len(self._stack) >= _DEEPEST_CALLS or self._stack.count(node) >= _MOST_OF_ITSELF:
            for slot in (*arguments.positional, *arguments.keywords.values()):
                self.state.weaken_all(slot.value)
            self._risk()
            return Undecided(place)
        memory_key = self._memory_key(function, arguments)
        if memory_key is not None and function.memory is not None and memory_key in function.memory:
            return function.memory[memory_key]
        environment = self._bound_environment(function, arguments, place)
        if not is_entry and self._runs_later(node, place):
            found: list[Value] = []
            self._perhaps_partly(lambda: found.append(self._run_function(function, arguments, place, is_entry=True)))
            return Undecided(place, tuple(methods.cells_of(found)))
        frame = _CallFrame(environment, len(self.state.trail), len(self._forks))
        outer, self._frame = self._frame, frame
        repeating, self._repeating = self._repeating, 0
        depth, self._depth = self._depth, 0
        tries = len(self._tries)
        self._stack.append(node)
        try:
            result = self._run_body(node, frame, place)
        finally:
            self._stack.pop()
            self._frame, self._repeating, self._depth = outer, repeating, depth
            del self._tries[tries:]
        if memory_key is not None and function.memory is not None:
            function.memory[memory_key] = result
        elif function.memory is not None:
            return Undecided(place, (result,) if isinstance(result, (Dict, List)) else ())
        return result

    def _runs_later(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, place: Place) -> bool:
        """Whether a call of a function makes a generator, or a coroutine that nothing waits for at once."""
        if isinstance(node, ast.Lambda):
            return False
        return _is_generator(node) or (isinstance(node, ast.AsyncFunctionDef) and place not in self._awaited)

    def _memory_key(self, function: ModuleFunction, arguments: Arguments) -> Any:
        if function.memory is None or arguments.is_open or self._forks:
            return None
        try:
            positional = tuple(methods.key_of(slot.value) for slot in arguments.positional)
            return positional, tuple((name, methods.key_of(slot.value)) for name, slot in arguments.keywords.items())
        except NotKnown:
            return None

    def _run_body(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, frame: _CallFrame, place: Place
    ) -> Value:
        if isinstance(node, ast.Lambda):
            return self.evaluate(node.body)
        failed: ModuleError | None = None
        try:
            completion = self._block(node.body)
        except ModuleError as raised:
            if not frame.exits:
                raise
            failed = raised
            self._note_raise()
            completion = _ENDED
        nothing: Value = Known(None, place)
        result = frame.result if completion == _RETURN and frame.result is not None else nothing
        if frame.exits:
            values = [value for _, value in frame.exits]
            branches = [branch for branch, _ in frame.exits]
            if completion != _ENDED:
                values.append(result)
                branches.append(
                    self._noted(frame.mark) if self._forks else self.state.noted(frame.mark, self.state.serial)
                )
            self.state.undo(frame.mark)
            self.state.merge(branches)
            result = values[0]
            for value in values[1:]:
                result = join_values(result, value, self.state)
            if isinstance(result, Undecided):
                result = Undecided(place, result.candidates, is_fraction=result.is_fraction)
        elif completion == _ENDED:
            raise failed or ModuleError(None)
        return result

    def _bound_environment(self, function: ModuleFunction, arguments: Arguments, place: Place) -> Environment:  # noqa: PLR0912 - one for each kind
        """The variables of a function when it is called."""
        node = function.node
        parameters = node.args
        local, global_names, nonlocal_names = bound_names_of(node)
        environment = Environment(self.state.new_dict(node), function.environment, local)
        environment.globals, environment.nonlocals, environment.kept = global_names, nonlocal_names, function.owner
        entries: dict[Any, Slot] = {}
        names = [*parameters.posonlyargs, *parameters.args]
        defaults: list[Slot | None] = [*([None] * (len(names) - len(function.defaults))), *function.defaults]
        keywords = dict(arguments.keywords)
        positional_only = {one.arg for one in parameters.posonlyargs}
        unknown = Slot(Undecided(place), place, is_fixed=True)
        for index, (parameter, default) in enumerate(zip(names, defaults, strict=True)):
            name = parameter.arg
            if index < len(arguments.positional):
                if name in keywords and name not in positional_only:
                    raise ModuleError(TypeError)
                slot: Slot | None = arguments.positional[index]
            elif name in keywords and name not in positional_only:
                slot = keywords.pop(name)
            else:
                slot = unknown if arguments.is_open else default
            if slot is None:
                raise ModuleError(TypeError)
            entries[name] = slot
        rest = arguments.positional[len(names) :]
        if parameters.vararg is not None:
            items = None if arguments.is_open else rest
            entries[parameters.vararg.arg] = Slot(
                self.state.new_list(parameters.vararg, items, "tuple"), place, is_fixed=True
            )
        elif rest:
            raise ModuleError(TypeError)
        for parameter in parameters.kwonlyargs:
            name = parameter.arg
            slot = keywords.pop(name, None) or (unknown if arguments.is_open else function.named.get(name))
            if slot is None:
                raise ModuleError(TypeError)
            entries[name] = slot
        if parameters.kwarg is not None:
            made = self.state.new_dict(parameters.kwarg, keywords, is_open=arguments.is_open)
            entries[parameters.kwarg.arg] = Slot(made, place, is_fixed=True)
        elif keywords:
            raise ModuleError(TypeError)
        environment.passed = set(entries)
        for name, slot in entries.items():
            if slot.may_be_missing:
                entries[name] = Slot(Undecided(slot.place), slot.place, is_fixed=True)
        environment.variables.content = environment.variables.content._replace(entries=entries)
        return environment


_READING_METHODS = frozenset(
    {"copy", "get", "items", "keys", "values", "__contains__", "__getitem__", "index", "count"}
)


def bound_names_of(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """The names that a function binds, and those that it declares global and nonlocal; looked up once."""
    kept: dict[str, Any] = node.__dict__
    if "_bound" not in kept:
        from ds_lint.source.evaluation.scopes import names_of

        kept["_bound"] = names_of(node)
    found: tuple[frozenset[str], frozenset[str], frozenset[str]] = kept["_bound"]
    return found


def _is_generator(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    kept: dict[str, Any] = node.__dict__
    if "_generates" not in kept:
        from ds_lint.source.evaluation.scopes import generates

        kept["_generates"] = generates(node)
    return bool(kept["_generates"])


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _is_member(value: Value) -> bool:
    """Whether a value is a member of an enumeration of numbers or texts."""
    return isinstance(value, Object) and value.cls.kind == "number"


def _is(one: Value, other: Value) -> bool | None:
    if isinstance(one, Undecided) or isinstance(other, Undecided):
        return None
    if isinstance(one, Known) and isinstance(other, Known):
        singletons = (None, True, False, Ellipsis)
        if any(one.value is each for each in singletons) or any(other.value is each for each in singletons):
            return one.value is other.value
        return None
    if isinstance(one, LibraryName) or isinstance(other, LibraryName):
        if one == other:
            return True
        both = isinstance(one, LibraryName) and isinstance(other, LibraryName)
        builtin = both and all(v.name.startswith("builtins.") for v in (one, other))  # type: ignore[union-attr]
        return False if builtin else None
    if isinstance(one, Object) and isinstance(other, Object):
        return one.attributes is other.attributes
    if isinstance(one, (Bound, Method, View, Super)) or isinstance(other, (Bound, Method, View, Super)):
        return None
    return one is other


def _is_fraction(kind: type[ast.operator], one: Value, other: Value) -> bool:
    """Whether what is computed is the product of a fraction and of something that does not show."""
    left, right = (isinstance(value, Undecided) and value.is_fraction for value in (one, other))
    if kind is ast.Mult:
        return (
            left
            or right
            or any(
                isinstance(value, Known) and isinstance(value.value, float) and value.value % 1 != 0
                for value in (one, other)
            )
        )
    if kind in (ast.Add, ast.Sub):
        return left or right
    return False


def names_config(name: object) -> bool:
    """Whether a variable is called like a config: ``ds_config``, ``cfg``."""
    return isinstance(name, str) and name.islower() and not {"cfg", "config", "ds"}.isdisjoint(name.split("_"))
