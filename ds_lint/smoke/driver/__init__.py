"""The side of the command line: plans a run, starts the ranks, and says what came of it."""
