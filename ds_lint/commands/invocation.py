"""The command line that made a page, as its foot says it."""

from __future__ import annotations

import shlex
import sys

from ds_lint.output.secrets import masked, masked_words


def invocation() -> str:
    """The command line of this process, with a mask for each secret."""
    return masked(shlex.join(word for word in masked_words(["ds-lint", *sys.argv[1:]]) if word is not None))
