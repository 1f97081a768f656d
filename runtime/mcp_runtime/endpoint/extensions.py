"""Generated packages of protocol extensions."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Protocol, cast

from ..errors import LocalError
from ..protocol.revision import Revision


class ExtensionMethods(Protocol):
    """The module `methods` of a generated extension."""

    @property
    def REVISION(self) -> Revision:  # noqa: N802 - the constant of a generated module
        """The protocol version with the messages of the extension."""
        ...


class Extension(Protocol):
    """The generated package of an extension."""

    @property
    def methods(self) -> ExtensionMethods:
        """The messages of the extension."""
        ...


def load_extension(revision: Revision, name: str) -> Extension:
    """Return the generated package of an extension.

    Args:
        revision: A protocol version of the package that contains the extension.
        name: The name of the extension, such as "tasks".

    Raises LocalError if the package has no such extension.
    """
    try:
        package: Any = import_module(f"{revision.package}.extensions.{name}")
    except ImportError:
        raise LocalError(f"{revision.package} has no extension {name!r}") from None
    return cast("Extension", package)
