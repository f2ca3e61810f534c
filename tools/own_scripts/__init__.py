"""Runs public training scripts through ``ds-lint smoke -- COMMAND``."""
