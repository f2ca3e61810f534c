"""``ds-lint lsp``: start the language server."""

from __future__ import annotations

import sys


def lsp() -> int:
    """Serve until the editor ends it; 2 if pygls is not installed."""
    try:
        import pygls.lsp.server  # noqa: F401 - to know whether it is there, and new enough
    except ImportError:
        from ds_lint.addresses import DISTRIBUTION

        sys.stderr.write(f"ds-lint: ds-lint lsp needs pygls 2 or newer: pip install '{DISTRIBUTION}[lsp]'\n")
        return 2
    from ds_lint.lsp.server import serve

    return serve()
