"""The hooks of hatchling's build backend."""

from setuptools.build_meta import (  # type: ignore[import-untyped]
    get_requires_for_build_wheel,
    prepare_metadata_for_build_wheel,
)

__all__ = ["get_requires_for_build_wheel", "prepare_metadata_for_build_wheel"]
