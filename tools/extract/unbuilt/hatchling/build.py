"""The hooks of hatchling's build backend."""

from setuptools.build_meta import *  # noqa: F403 - the same as there
