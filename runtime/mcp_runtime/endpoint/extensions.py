"""Generated packages of extensions, and how to find one."""

from __future__ import annotations

from importlib import import_module
from typing import (
    TYPE_CHECKING,
    Any,
    Protocol,
    cast,
)

from ..errors import LocalError
from ..protocol.revision import (
    Revision,
)

if TYPE_CHECKING:
    pass


class ExtensionMethods(Protocol):
    """The table of an extension, with the core's."""

    @property
    def REVISION(self) -> Revision: ...  # noqa: N802


class Extension(Protocol):
    """The generated package of an extension."""

    @property
    def methods(self) -> ExtensionMethods: ...


def load_extension(revision: Revision, name: str) -> Extension:
    """The package of an extension, of the family of a revision. Raises LocalError where there is none."""
    try:
        found: Any = import_module(f"{revision.package}.extensions.{name}")
    except ImportError:
        raise LocalError(f"{revision.package} has no extension {name!r}") from None
    return cast("Extension", found)
