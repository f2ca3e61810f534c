"""Where the text goes: how wide it may be and whether it may have colours."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping
    from typing import TextIO

_PROCESS_ESCAPES = 0x0004  # ENABLE_VIRTUAL_TERMINAL_PROCESSING, which older consoles lack
USUAL_WIDTH = 80  # of a terminal that does not say
DIGITS = 4  # of the widest terminal that is believed
COLOURED = ("auto", "always", "never")  # when there are colours

# What the colours mean, as the parameters of ANSI's "select graphic rendition". With the palette of a bare xterm, reds,
# magenta and bright blue can be read on black and on white; yellow, cyan, green and plain blue cannot.
STRONG = "1"
QUIET = "2"
FRAME = "94"
REMOVED, ADDED = "91", "94"  # not red and green, which many people see as one
SEVERITY = {"error": "1;31", "warning": "1;35", "info": "1;94"}


class Terminal:
    """``width`` is None where lines may be of any length: in a pipe or a file, where wrapping would break searches.

    ``links`` says whether it shows links (OSC 8).
    """

    __slots__ = ("colour", "encoding", "links", "width")

    def __init__(
        self, width: int | None = None, colour: bool = False, encoding: str | None = None, links: bool = False
    ) -> None:
        self.width = width
        self.colour = colour
        self.encoding = encoding or "ascii"
        self.links = links

    def can_show(self, text: str) -> bool:
        """Whether all characters of ``text`` can be written there."""
        try:
            text.encode(self.encoding)
        except (UnicodeEncodeError, LookupError):
            return False
        return True

    def paint(self, text: str, style: str) -> str:
        """``text`` in a style, or as it is where colours are unwanted."""
        return f"\x1b[{style}m{text}\x1b[0m" if self.colour and text else text

    def link(self, text: str, url: str) -> str:
        """``text`` as a link, or as it is where links are not shown; what is not seen has no width."""
        return f"\x1b]8;;{url}\x1b\\{text}\x1b]8;;\x1b\\" if self.links else text


def terminal_of(stream: TextIO | None, environment: Mapping[str, str] = os.environ) -> Terminal:
    """What is known about the terminal behind a stream, if there is one."""
    interactive = _is_terminal(stream)
    encoding = getattr(stream, "encoding", None)
    has_colours = _colour(interactive, environment) and (not interactive or understands_escapes(stream))
    has_links = has_colours and _links(interactive, environment)
    return Terminal(_width(stream, interactive, environment), has_colours, encoding, has_links)


def understands_escapes(stream: TextIO | None) -> bool:
    """Whether a terminal takes escape sequences for what they are; a console of Windows is told to."""
    if sys.platform != "win32":
        return True
    import ctypes
    import msvcrt

    try:
        handle = msvcrt.get_osfhandle(stream.fileno()) if stream is not None else -1
        mode = ctypes.c_ulong()
        kernel = ctypes.windll.kernel32
        if not kernel.GetConsoleMode(ctypes.c_void_p(handle), ctypes.byref(mode)):
            return True  # a terminal, but no console of Windows
        return bool(kernel.SetConsoleMode(ctypes.c_void_p(handle), mode.value | _PROCESS_ESCAPES))
    except (OSError, ValueError):  # a stream without a number
        return False


def colour(when: str, environment: MutableMapping[str, str] = os.environ) -> None:
    """Have colours always or never, whatever the environment says; programs that ds-lint starts take after it."""
    if when != "auto":
        for name in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE"):
            environment.pop(name, None)
        environment["FORCE_COLOR" if when == "always" else "NO_COLOR"] = "1"


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def _colour(interactive: bool, environment: Mapping[str, str]) -> bool:
    """The first that speaks decides: NO_COLOR, FORCE_COLOR (both by any value), CLICOLOR_FORCE, the terminal."""
    if environment.get("NO_COLOR"):
        return False
    if environment.get("FORCE_COLOR") or environment.get("CLICOLOR_FORCE", "0") not in ("", "0"):
        return True
    return interactive and environment.get("TERM") != "dumb"


def _links(interactive: bool, environment: Mapping[str, str]) -> bool:
    """FORCE_HYPERLINK decides, with 0 for none; else the terminal: the console of Linux prints what it should hide."""
    forced = environment.get("FORCE_HYPERLINK")
    return forced != "0" if forced else interactive and environment.get("TERM") not in ("dumb", "linux")


def _width(stream: TextIO | None, interactive: bool, environment: Mapping[str, str]) -> int | None:
    """COLUMNS counts in a pipe too: shells do not export it, so an exported one is intended."""
    columns = environment.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and len(columns) <= DIGITS and int(columns):
        return int(columns)
    if stream is None or not interactive:
        return None
    try:
        return os.get_terminal_size(stream.fileno()).columns or USUAL_WIDTH
    except (OSError, ValueError):  # io.UnsupportedOperation, of a stream without a number, is both
        return USUAL_WIDTH
