"""The release of ds-lint."""

__version__ = "0.1.0"
