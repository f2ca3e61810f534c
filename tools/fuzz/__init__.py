"""Mutated inputs of every surface of ds-lint: none may end in a traceback, a strange status, or take too long."""
