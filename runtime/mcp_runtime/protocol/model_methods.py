"""The methods of the generated type that says what a server is."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from .models import is_object

# Without `from __future__ import annotations`, as models.py: pydantic evaluates the annotations of base classes.


_SERVER_INFO: Final = "serverInfo"


class ServerDetails:
    """The result of `initialize` or of discovery: what a server is, and what it can do.

    Attributes:
        capabilities: The capabilities that the server declares.
        instructions: How to use the server, for the model; None if the server has none.
    """

    if TYPE_CHECKING:
        capabilities: Any
        instructions: Any

        def model_dump(self) -> dict[str, Any]:
            """Return the result as JSON."""
            ...

        def to_dict(self) -> dict[str, Any]:
            """Return the result as JSON."""
            ...

    @property
    def name(self) -> str:
        """The name of the server; empty if it sends none."""
        return implementation_of(self).get("name") or ""

    @property
    def version(self) -> str:
        """The version of the server; empty if it sends none."""
        return implementation_of(self).get("version") or ""

    @property
    def title(self) -> str | None:
        """The name of the server for people, in protocol versions that have it."""
        return implementation_of(self).get("title")


def implementation_of(details: ServerDetails | Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the `Implementation` of a server as JSON, wherever a protocol version has it; empty if it sends none."""
    fields = details.model_dump() if isinstance(details, ServerDetails) else details
    meta = fields.get("_meta")
    for name, value in {**(meta if is_object(meta) else {}), **fields}.items():
        if name.rpartition("/")[2] == _SERVER_INFO and is_object(value):
            return value
    return {}
