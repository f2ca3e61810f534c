"""The script for bash, from 3.2 on. Where a value is a file or unknown, readline completes files as it always does."""

from __future__ import annotations

from itertools import chain

from ds_lint.commands.shells import Words, all_words, quoted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ds_lint.commands.shells import CompletedCommand, Taken


def script(commands: list[CompletedCommand]) -> str:
    """What ``eval "$(ds-lint completion bash)"`` defines."""
    lists = "\n".join(
        f"_ds_lint_{one.name}={quoted(' '.join(word for word, _ in one.words))}" for one in all_words(commands)
    )
    names = " ".join(command.name for command in commands)
    options = "\n".join(
        f"    {command.name}) options={quoted(' '.join(chain(*(option.names for option in command.options))))} ;;"
        for command in commands
    )
    values = "\n".join(
        f"    {' | '.join(quoted(f'{command.name} {name}') for name in option.names)}) {_value(option.takes)} ;;"
        for command in commands
        for option in command.options
        if option.takes is not None
    )
    rest = "\n".join(
        f"    {command.name}) {_value(command.takes)} ;;" for command in commands if command.takes is not None
    )
    return f"""\
# Completion of ds-lint for bash:  eval "$(ds-lint completion bash)"
{lists}

_ds_lint() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}}
  local command= options= words= separator= word
  COMPREPLY=()
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD - 1}}"; do
    case $word in -*) ;; *) command=$word; break ;; esac
  done
  if [[ -z $command ]]; then
    COMPREPLY=($(compgen -W '{names} --help --version' -- "$current"))
    return
  fi
  # To bash, --option=value is three words.
  if [[ $current == = ]]; then current=; elif [[ $before == = ]]; then before=${{COMP_WORDS[COMP_CWORD - 2]}}; fi
  case "$command $before" in
{values}
    *)
      if [[ $current == -* ]]; then
        case $command in
{_indented(options)}
        esac
        words=$options
      else
        case $command in
{_indented(rest)}
        esac
      fi ;;
  esac
  if [[ -n $separator && $current == *,* ]]; then
    COMPREPLY=($(compgen -P "${{current%,*}}," -W "$words" -- "${{current##*,}}"))
  else
    COMPREPLY=($(compgen -W "$words" -- "$current"))
  fi
}}

complete -o bashdefault -o default -F _ds_lint ds-lint
"""


def _value(taken: Taken | None) -> str:
    if not isinstance(taken, Words):
        return ":"  # readline's own completion
    return f"words=$_ds_lint_{taken.name}{' separator=,' if taken.is_list else ''}"


def _indented(lines: str) -> str:
    return "\n".join(f"      {line}" for line in lines.splitlines())
