"""Runs on ranks that a launcher of the user starts."""
