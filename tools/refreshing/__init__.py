"""``tools/refresh``: everything that new releases of the libraries change in the repository, from one command."""
