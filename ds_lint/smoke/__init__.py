"""The training run of a few steps that proves what a config does; the only place that imports the heavy libraries."""
