"""Content of a type that the protocol version does not define: it is kept, with all its properties."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import BaseModel


@cache
def unknown_content() -> type[BaseModel]:
    """Return the class of content of a type that the protocol version does not define. Few messages have any."""
    from pydantic import BaseModel, ConfigDict

    class UnknownContent(BaseModel):
        """Content of a type that the protocol version does not define. All its properties are attributes, and in
        `model_extra`."""

        model_config = ConfigDict(defer_build=True, extra="allow", protected_namespaces=())

        type: str

    UnknownContent.__qualname__ = UnknownContent.__name__
    return UnknownContent


def __getattr__(name: str) -> object:
    if name == "UnknownContent":  # For pickle.
        return unknown_content()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
