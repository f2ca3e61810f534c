"""Stands in for hatchling, as the package next to it does for setuptools."""
