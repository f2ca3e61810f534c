"""A build backend that builds nothing: it answers pip from ``PKG-INFO``.

``pip download`` wants the metadata of a source distribution before it keeps the file, and asks its build backend.
setuptools would run ``setup.py``, which in DeepSpeed imports torch and fails on many machines. The metadata were
written when the release was made and lie in the archive.
"""

from __future__ import annotations

import shutil
import sys
from email.parser import HeaderParser
from pathlib import Path
from typing import Any


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    """Nothing is needed to build nothing."""
    return []


def prepare_metadata_for_build_wheel(metadata_directory: str, config_settings: dict[str, Any] | None = None) -> str:
    """Copy the metadata of the archive, in whose top folder pip calls this, to where pip looks for them."""
    published = Path("PKG-INFO")
    headers = HeaderParser().parsestr(published.read_text(encoding="utf-8"), headersonly=True)
    name = f"{headers['Name'].replace('-', '_')}-{headers['Version']}.dist-info"
    folder = Path(metadata_directory, name)
    folder.mkdir()
    shutil.copy(published, folder / "METADATA")
    return name


__legacy__ = sys.modules[__name__]  # the name that pip uses where there is no pyproject.toml
