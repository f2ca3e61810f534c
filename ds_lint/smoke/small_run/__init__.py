"""The training run of a small model: planned, started on ranks, and checked."""
