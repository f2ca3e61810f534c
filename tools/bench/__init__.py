"""Benchmarks: figures as ratios of one run, never asserted."""
