"""The script for fish."""

from __future__ import annotations

from ds_lint.commands.shells import FILES, FOLDERS, Words, all_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ds_lint.commands.shells import CompletedCommand, CompletedOption, Taken


def script(commands: list[CompletedCommand]) -> str:
    """What ``ds-lint completion fish | source`` defines."""
    lines = ["# Completion of ds-lint for fish:  ds-lint completion fish | source"]
    for one in all_words(commands):
        lines += [f"function __ds_lint_{one.name}", "    printf '%s\\t%s\\n' \\"]
        entries = [f"        {_quoted(word)} {_quoted(meaning)}" for word, meaning in one.words]
        lines += [" \\\n".join(entries), "end"]
    lines += [
        "complete -c ds-lint -f",
        "complete -c ds-lint -n __fish_use_subcommand -s h -l help -d 'print the help'",
        "complete -c ds-lint -n __fish_use_subcommand -s V -l version -d 'print the version'",
    ]
    for command in commands:
        lines.append(f"complete -c ds-lint -n __fish_use_subcommand -a {command.name} -d {_quoted(command.help)}")
        lines += _of(command)
    return "\n".join(lines) + "\n"


def _of(command: CompletedCommand) -> Iterator[str]:
    start = f"complete -c ds-lint -n '__fish_seen_subcommand_from {command.name}'"
    if command.takes is not None:
        yield f"{start}{_value(command.takes, of_option=False)}"
    for option in command.options:
        value = _value(option.takes, of_option=True) if option.takes is not None else ""
        yield f"{start}{_names(option)}{value} -d {_quoted(option.help)}"


def _names(option: CompletedOption) -> str:
    return "".join(f" -l {name[2:]}" if name.startswith("--") else f" -s {name[1:]}" for name in option.names)


def _value(taken: Taken, *, of_option: bool) -> str:
    """How a value is completed; ``-x`` is an option's that takes no file."""
    if not isinstance(taken, Words):
        completed = {FILES: " -F", FOLDERS: " -x -a '(__fish_complete_directories)'"}.get(taken, " -x")
        return f" -r{completed}" if taken == FILES and of_option else completed
    words = f"__ds_lint_{taken.name}"
    call = f"(__fish_complete_list , {words})" if taken.is_list else f"({words})"
    return f"{' -x' if of_option else ''} -a '{call}'"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
