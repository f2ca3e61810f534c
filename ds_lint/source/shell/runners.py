"""Programs that run the command after them, and those that pass a text to a shell: ``srun bash -c "..."``.

What the options of each take is from its manual; most of them are not written in Python.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Word = str | None  # None where the shell's word is not known

SHELLS = frozenset({"bash", "dash", "ksh", "sh", "zsh"})
_PLAIN = re.compile(r"[\w./:=,+@%-]+")  # a word without anything that counts for the shell
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_TAKE_A_WORD = re.compile(r"--(?:init-file|rcfile)|[-+][A-Za-z]*[oO]")  # options of a shell


class Runner(NamedTuple):
    """A program that runs the command after it.

    One of its ``subcommands`` must be there, if it has any; ``operands`` are its own words before the command, such as
    an image. ``takes`` are options that take the next word, ``flags`` those that take none; of any other it is not
    known, unless all others ``take_words``. ``environment`` says whether the command has the variables of the shell.
    """

    operands: int = 0
    subcommands: str = ""
    takes: str = ""
    flags: str = ""
    take_words: bool = False
    environment: bool = True

    def words_of(self, option: Word) -> int | None:
        """How many words an option is, with its value; None if that is not known."""
        if option is None:
            return None
        name, sign, _ = option.partition("=")
        if sign or name in self.flags.split():
            return 1
        return 2 if self.take_words or name in self.takes.split() else None


_CONDA = Runner(0, "run", "-n --name -p --prefix --cwd", "--no-capture-output --live-stream -v -s")
_CONTAINER = Runner(
    1,
    "exec run",
    "-B -H -W -S --bind --env --env-file --home --hostname --mount --network --overlay --pwd --scratch --workdir",
    "-C -c -e -f -w --cleanenv --contain --containall --fakeroot --no-home --nv --rocm --writable --writable-tmpfs",
)
_DOCKER = Runner(
    1,
    "run exec",
    "",
    "-d -i -t -it -ti -dit -itd -P -T -q --build --detach --init --interactive --no-deps --no-healthcheck "
    "--oom-kill-disable --privileged --publish-all --quiet --read-only --rm --service-ports --tty",
    take_words=True,
    environment=False,
)
_KUBECTL = Runner(
    1, "exec", "-c --container -n --namespace --context -f", "-i -t -it -ti --stdin --tty", environment=False
)
_PROJECT = Runner(0, "run", "-C -P -p -e --directory --env --environment --project")
_UV = Runner(
    0,
    "run",
    "-p --directory --env-file --extra --group --index --only-group --package --project --python --with "
    "--with-editable --with-requirements",
    "--active --all-extras --frozen --isolated --locked --no-dev --no-project --no-sync",
)
RUNNERS: Mapping[str, Runner] = {
    **dict.fromkeys(("apptainer", "singularity"), _CONTAINER),
    **dict.fromkeys(("conda", "mamba", "micromamba"), _CONDA),
    **dict.fromkeys(("docker", "docker-compose", "nerdctl", "nvidia-docker", "podman"), _DOCKER),
    **dict.fromkeys(("hatch", "pdm", "pipenv", "pixi", "poetry", "rye"), _PROJECT),
    **dict.fromkeys(("caffeinate", "ncu", "nohup", "rlaunch", "setsid", "stdbuf", "unbuffer"), Runner()),
    **dict.fromkeys(("kubectl", "oc"), _KUBECTL),
    "chrt": Runner(1, flags="-f -r -b -i -o"),
    "env": Runner(takes="-u --unset -C --chdir", flags="-i - --ignore-environment"),
    "flock": Runner(1, takes="-w --timeout -E", flags="-n -x -s -e -o --nonblock --exclusive"),
    "gosu": Runner(1),
    "ionice": Runner(takes="-c -n --class --classdata", flags="-t"),
    "nice": Runner(takes="-n --adjustment"),
    "nsys": Runner(0, "profile launch nvprof", "-o -t -s -c -f -w -x -y -d"),
    "numactl": Runner(takes="-N -m -C -i -p", flags="-l --localalloc --all -a"),
    "perf": Runner(0, "stat record trace", "-e -o -F", "-g -a -d"),
    "py-spy": Runner(0, "record", "-o -r -f -d", "-n -s --native --subprocesses"),
    "script": Runner(flags="-q -a -f -e"),
    "strace": Runner(takes="-e -o -s -p", flags="-f -ff -c -tt -T -y"),
    "sudo": Runner(takes="-u --user -g --group -D -p", flags="-E -H -n -i -S -b"),
    "taskset": Runner(1, flags="-c -a -ac --cpu-list"),
    "time": Runner(takes="-f -o --format --output", flags="-p -v -a --verbose"),
    "timeout": Runner(1, takes="-k -s --signal --kill-after", flags="--foreground -v --preserve-status"),
    "uv": _UV,
    "xargs": Runner(takes="-a -d -E -I -L -n -P -s", flags="-0 -r -t -p -x"),
}
# Programs that start another one on each of many nodes or for each of many tasks; their options are those of srun.
PARALLEL = frozenset({"mpiexec", "mpiexec.hydra", "mpirun", "orterun", "srun"})


def command_behind(words: Sequence[Word], is_command: Callable[[str], bool]) -> int | None:
    """Where the command begins that the first of some words, a runner, runs; None if there is none.

    A word behind an option of which it is not known whether it takes one is the command if that ``is_command``.
    """
    runner = RUNNERS[posixpath.basename(words[0] or "")]
    position = _behind_subcommand(words, runner)
    operands, is_in_doubt = runner.operands, False
    while position < len(words):
        word = words[position]
        if word == "--":
            return position + 1 if position + 1 < len(words) else None
        if word is None or (word.startswith(("-", "+")) and len(word) > 1):
            taken = runner.words_of(word)
            is_in_doubt = taken is None
            position += taken or 1
            continue
        if operands and not (is_in_doubt and _follows(words[position + 1 :], operands, is_command)):
            operands -= 1
        elif not operands and is_command(posixpath.basename(word)):
            return position
        elif not (is_in_doubt or (_ASSIGNMENT.match(word) and not operands)):
            return None
        is_in_doubt = False
        position += 1
    return None


def _behind_subcommand(words: Sequence[Word], runner: Runner) -> int:
    """Where the words behind the subcommand begin; behind all words if it is another one."""
    if not runner.subcommands:
        return 1
    position = 1
    while position < len(words):
        word = words[position]
        if word in runner.subcommands.split():
            return position + 1
        if word is not None and not word.startswith("-") and word != "compose":
            break
        position += 1 if word is None or "=" in word or word in runner.flags.split() or word == "compose" else 2
    return len(words)


def _follows(words: Sequence[Word], operands: int, is_command: Callable[[str], bool]) -> bool:
    """Whether a command follows behind so many operands, so that the word before them is the value of an option."""
    left = [word for word in words if word is None or not word.startswith("-")]
    return any(word is not None and is_command(posixpath.basename(word)) for word in left[operands : operands + 1])


class HandedText(NamedTuple):
    """A text that a command passes to a shell, with the words after it, ``$0`` the first of them.

    ``environment`` says whether that shell has the exported variables; ``is_here``, whether it is in the same folder.
    """

    text: str
    words: list[str]
    environment: bool = True
    is_here: bool = True


def handed_texts(fields: list[str], given: str | None) -> list[HandedText]:
    """The texts that a command passes to a shell; ``given`` is its standard input, if that is known."""
    name = posixpath.basename(fields[0])
    reader = _BY_PROGRAM.get(name)
    found = reader(fields, given) if reader is not None else None
    if found:
        return found
    if name in SHELLS or name in RUNNERS or name in PARALLEL:
        at = next((number for number, word in enumerate(fields) if posixpath.basename(word) in SHELLS), None)
        if at is not None:
            return _of_shell(fields, at, given)
    return []


def called_script(fields: list[str]) -> int | None:
    """Where the script is among the words of a command that runs one, such as ``bash -x run.sh`` or ``./run.sh``."""
    at = 0
    if posixpath.basename(fields[0]) in (*RUNNERS, *PARALLEL, "sbatch"):
        at = next((number for number, word in enumerate(fields) if number and _is_script(word)), len(fields))
    if at == len(fields) or posixpath.basename(fields[at]) not in SHELLS:
        return at if at < len(fields) and _is_script(fields[at]) else None
    position = at + 1
    while position < len(fields) and fields[position][:1] in ("-", "+") and len(fields[position]) > 1:
        option = fields[position]
        if option.startswith("-") and not option.startswith("--") and "c" in option:
            return None
        position += 2 if _TAKE_A_WORD.fullmatch(option) else 1
    return position if position < len(fields) and fields[position] != "-" else None


def _is_script(word: str) -> bool:
    """Whether a word is a shell, or a script for one."""
    return posixpath.basename(word) in SHELLS or word.endswith((".sh", ".bash", ".slurm", ".sbatch"))


def _of_shell(fields: list[str], at: int, given: str | None) -> list[HandedText]:
    """``bash -lc TEXT NAME WORD...``, or a shell that reads its commands."""
    around = RUNNERS.get(posixpath.basename(fields[0])) if at else None
    environment = around is None or around.environment
    position, has_text = at + 1, False
    if fields[at - 1] == "--entrypoint":  # the image is between them
        position = next((number for number in range(at, len(fields)) if fields[number].startswith("-")), len(fields))
    while position < len(fields) and fields[position][:1] in ("-", "+") and len(fields[position]) > 1:
        option = fields[position]
        has_text |= option.startswith("-") and not option.startswith("--") and "c" in option
        position += 2 if _TAKE_A_WORD.fullmatch(option) else 1
    if has_text:
        text = fields[position : position + 1]
        return [HandedText(text[0], fields[position + 1 :], environment)] if text else []
    is_read = position >= len(fields) or "-s" in fields[at + 1 : position] or fields[position] in ("-", "/dev/stdin")
    return [HandedText(given, [], environment)] if given is not None and is_read else []


def _behind_options(fields: list[str], takes: str) -> list[str]:
    """The words behind short options, of which those in ``takes`` take the next word."""
    position = 1
    while position < len(fields) and fields[position].startswith("-") and len(fields[position]) > 1:
        option = fields[position]
        position += 2 if option[-1] in takes and (len(option) == 2 or option[1] not in takes) else 1
    return fields[position:]


def _ssh(fields: list[str], given: str | None) -> list[HandedText]:
    words = _behind_options(fields, "BbcDEeFIiJLlmOopQRSWw")[1:]
    if words:
        inner = handed_texts(" ".join(words).split(), given) if given is not None else []
        if inner:
            return [one._replace(environment=False, is_here=False) for one in inner]
        return [HandedText(" ".join(words), [], environment=False, is_here=False)]
    return [HandedText(given, [], environment=False, is_here=False)] if given is not None else []


def _pdsh(fields: list[str], _given: str | None) -> list[HandedText]:
    words = _behind_options(fields, "wxRlufthHpoeIAgM")
    return [HandedText(" ".join(words), [], environment=False, is_here=False)] if words else []


_OPTIONS_OF_TMUX = {"new-session": "cefFnstxy", "new-window": "ceFnt", "split-window": "celFtp", "respawn-pane": "cet"}
_SHORT_OF_TMUX = {"new": "new-session", "neww": "new-window", "splitw": "split-window", "respawnp": "respawn-pane"}
_ENTERS = ("Enter", "C-m", "ENTER", "KPEnter", "C-j")


def _tmux(fields: list[str], _given: str | None) -> list[HandedText]:
    """The commands of ``tmux``, which ``;`` separates: a text for a new window, or keys that are typed."""
    commands: list[list[str]] = [[]]
    for word in ["tmux", *_behind_options(fields, "cfLSTt")]:
        if word == ";":
            commands.append(["tmux"])
        else:
            commands[-1].append(word)
    found = []
    for _, called, *rest in (command for command in commands if len(command) > 1):
        name = _SHORT_OF_TMUX.get(called, called)
        if name in ("send-keys", "send"):
            keys = _behind_options(["", *rest], "tN")
            typed = "".join("\n" if key in _ENTERS else key for key in keys)
            found += [HandedText(typed, [])] if typed.strip() else []
        elif name in _OPTIONS_OF_TMUX:
            words = _behind_options(["", *rest], _OPTIONS_OF_TMUX[name])
            if len(words) == 1:
                found.append(HandedText(words[0], []))
            elif words:  # which tmux starts itself
                found += handed_texts(words, None) or [HandedText(_as_command(words), [])]
    return found


_ATTACH = ("-r", "-R", "-x", "-d", "-dr", "-dRR", "-ls", "-list", "-wipe", "-X")  # or do so to a screen that is there


def _screen(fields: list[str], _given: str | None) -> list[HandedText]:
    if "stuff" in fields:
        typed = " ".join(fields[fields.index("stuff") + 1 :]).replace("^M", "\n").replace("\\n", "\n")
        return [HandedText(typed, [])] if typed.strip() else []
    words, position = fields[1:], 0
    while position < len(words) and words[position].startswith("-"):
        if words[position] in _ATTACH:
            return []
        position += 2 if words[position][-1] in "cehSstTp" or words[position] == "-Logfile" else 1
    words = words[position:]
    return (handed_texts(words, None) or [HandedText(_as_command(words), [])]) if words else []


def _with_option(*options: str) -> Callable[[list[str], str | None], list[HandedText]]:
    """A program that takes the text behind one of these options."""

    def read(fields: list[str], given: str | None) -> list[HandedText]:
        for position, word in enumerate(fields[1:], 1):
            name, sign, value = word.partition("=")
            if name in options and (sign or position + 1 < len(fields)):
                return [HandedText(value if sign else fields[position + 1], [])]
            if position > 1 and word in SHELLS and fields[position - 1].startswith("-"):
                break
        return [HandedText(given, [])] if given is not None and "--wrap" in options else []

    return read


def _words_as_text(takes: str) -> Callable[[list[str], str | None], list[HandedText]]:
    """A program that joins its words to a text for the shell."""

    def read(fields: list[str], _given: str | None) -> list[HandedText]:
        words = _behind_options(fields, takes)
        return [HandedText(" ".join(words), [])] if words else []

    return read


def _as_command(words: list[str]) -> str:
    """Words as a text that the shell splits into the same words."""
    return " ".join(word if _PLAIN.fullmatch(word) else "'" + word.replace("'", "'\\''") + "'" for word in words)


_BY_PROGRAM: Mapping[str, Callable[[list[str], str | None], list[HandedText]]] = {
    "clush": _pdsh,
    "pdsh": _pdsh,
    "parallel-ssh": _words_as_text("hHlptoexOA"),
    "pssh": _words_as_text("hHlptoexOA"),
    "qsub": lambda _, given: [HandedText(given, [])] if given is not None else [],
    "runuser": _with_option("-c", "--command"),
    "sbatch": _with_option("--wrap"),
    "screen": _screen,
    "script": _with_option("-c", "--command"),
    "sg": _with_option("-c"),
    "ssh": _ssh,
    "su": _with_option("-c", "--command"),
    "tmux": _tmux,
    "watch": _words_as_text("nd"),
}
