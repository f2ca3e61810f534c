"""Functions of libraries with one of the probe around them."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def around(owner: Any, name: str) -> Callable[[Callable[..., Any]], None]:
    """Put a function around that of a module or a class, which it gets before the arguments of the call."""
    inner = getattr(owner, name)

    def put(outer: Callable[..., Any]) -> None:
        @functools.wraps(inner)
        def called(*args: Any, **kwargs: Any) -> Any:
            return outer(inner, *args, **kwargs)

        setattr(owner, name, called)

    return put
