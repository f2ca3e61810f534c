"""The script for zsh: to be evaluated, or saved as ``_ds-lint`` in a folder of ``fpath``."""

from __future__ import annotations

from ds_lint.commands.shells import ANYTHING, FILES, FOLDERS, Words, all_words, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.commands.shells import CompletedCommand, CompletedOption, Taken


def script(commands: list[CompletedCommand]) -> str:
    """What ``eval "$(ds-lint completion zsh)"`` defines."""
    lists = "\n".join(f"_ds_lint_{one.name}=({' '.join(_entry(one))})" for one in all_words(commands))
    named = " ".join(quoted(f"{command.name}:{_without_colons(command.help)}") for command in commands)
    cases = "\n".join(_case(command) for command in commands)
    return f"""\
#compdef ds-lint
# Completion of ds-lint for zsh:  eval "$(ds-lint completion zsh)"
typeset -ga {" ".join(f"_ds_lint_{one.name}" for one in all_words(commands))}
{lists}

_ds_lint() {{
  local context state line
  local -a named
  typeset -A opt_args
  _arguments -C '(- *)'{{-h,--help}}'[print the help]' '(- *)'{{-V,--version}}'[print the version]' \\
    '1: :->command' '*:: :->rest'
  case $state in
    command)
      named=({named})
      _describe -t commands command named ;;
    rest)
      case $words[1] in
{cases}
      esac ;;
  esac
}}

if [[ $funcstack[1] == _ds_lint || $funcstack[1] == _ds-lint ]]; then _ds_lint "$@"; else compdef _ds_lint ds-lint; fi
"""


def _entry(one: Words) -> list[str]:
    """The elements of an array for ``compadd``, or for ``_describe`` if the words mean something."""
    return [
        quoted(f"{word}:{_without_colons(meaning)}" if meaning and not one.is_list else word)
        for word, meaning in one.words
    ]


def _case(command: CompletedCommand) -> str:
    specs = [spec for option in command.options for spec in _specs(option)]
    if command.takes is not None:
        specs.append(quoted(f"*:{_message(command.takes)}:{_action(command.takes)}"))
    lines = " \\\n".join(f"            {spec}" for spec in specs)
    return f"        {command.name})\n          _arguments \\\n{lines} ;;"


def _specs(option: CompletedOption) -> list[str]:
    description = option.help.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")
    if option.takes is None:
        return [quoted(f"{name}[{description}]") for name in option.names]
    value = f":{_message(option.takes)}:{_action(option.takes)}"
    return [quoted(f"{name}{'=' if name.startswith('--') else ''}[{description}]{value}") for name in option.names]


def _message(taken: Taken) -> str:
    return (
        taken.name.replace("_", " ")
        if isinstance(taken, Words)
        else {FILES: "file", FOLDERS: "folder"}.get(taken, "value")
    )


def _action(taken: Taken) -> str:
    if not isinstance(taken, Words):
        return {FILES: "_files", FOLDERS: "_files -/", ANYTHING: " "}[taken]
    if taken.is_list:
        return f"_sequence compadd - $_ds_lint_{taken.name}"
    return f"{{_describe -t values {taken.name} _ds_lint_{taken.name}}}"


def _without_colons(text: str) -> str:
    return text.replace("\\", "\\\\").replace(":", "\\:")
