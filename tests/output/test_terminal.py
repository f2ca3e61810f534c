"""What is found out about the place the text goes to."""

from __future__ import annotations

import io
import os

import pytest

from ds_lint.output.terminal import terminal_of


class Screen(io.StringIO):
    """A terminal without a file number."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("stream", "environment", "width", "colour"),
    [
        (Screen(), {}, 80, True),
        (io.StringIO(), {}, None, False),
        (None, {}, None, False),
        (Screen(), {"NO_COLOR": "0"}, 80, False),
        (Screen(), {"NO_COLOR": ""}, 80, True),
        (Screen(), {"TERM": "dumb"}, 80, False),
        (io.StringIO(), {"FORCE_COLOR": "1"}, None, True),
        (io.StringIO(), {"FORCE_COLOR": "1", "NO_COLOR": "1"}, None, False),
        (io.StringIO(), {"CLICOLOR_FORCE": "1"}, None, True),
        (io.StringIO(), {"CLICOLOR_FORCE": "0"}, None, False),
        (io.StringIO(), {"COLUMNS": "120"}, 120, False),
        (Screen(), {"COLUMNS": "120"}, 120, True),
        (Screen(), {"COLUMNS": "0"}, 80, True),
        (Screen(), {"COLUMNS": "wide"}, 80, True),
        (Screen(), {"COLUMNS": "9" * 5000}, 80, True),
    ],
)
def test_stream_and_environment_decide(stream, environment, width, colour):
    terminal = terminal_of(stream, environment)
    assert (terminal.width, terminal.colour) == (width, colour)


def test_a_closed_stream_is_no_terminal():
    stream = io.StringIO()
    stream.close()
    assert terminal_of(stream, {}).width is None


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo-terminal")
def test_a_real_terminal_says_how_wide_it_is():
    import fcntl
    import struct
    import termios

    ours, theirs = os.openpty()
    try:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 97, 0, 0))
        with open(theirs, "w", closefd=False) as stream:
            assert terminal_of(stream, {}).width == 97
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.parametrize(
    ("stream", "environment", "has_links"),
    [
        (Screen(), {}, True),
        (io.StringIO(), {}, False),
        (io.StringIO(), {"FORCE_COLOR": "1"}, False),  # a log of CI has colours, but no links
        (io.StringIO(), {"FORCE_COLOR": "1", "FORCE_HYPERLINK": "1"}, True),
        (Screen(), {"FORCE_HYPERLINK": "0"}, False),
        (Screen(), {"FORCE_HYPERLINK": "", "TERM": "xterm"}, True),
        (Screen(), {"FORCE_HYPERLINK": "1", "NO_COLOR": "1"}, False),
        (Screen(), {"TERM": "dumb"}, False),
        (Screen(), {"TERM": "linux"}, False),
        (Screen(), {"TERM": "linux", "FORCE_HYPERLINK": "1"}, True),
    ],
)
def test_links_are_where_they_are_shown(stream, environment, has_links):
    terminal = terminal_of(stream, environment)
    assert terminal.links is has_links
    shown = terminal.link("DS101", "https://host/page")
    assert shown == ("\x1b]8;;https://host/page\x1b\\DS101\x1b]8;;\x1b\\" if has_links else "DS101")
