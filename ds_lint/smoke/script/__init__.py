"""The driver of ``ds-lint smoke -- COMMAND``: starts the command, reads what its ranks show, and reports it."""
