"""What every front end gives: a normalized schema, and the messages of a protocol."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, Literal

from ..errors import SchemaError
from ..importer.normalize import DIALECT
from ..importer.schema_references import Schema
from ..json_types import is_object
from ..model.names import pascal, snake

DOC: Final = "x-doc"  # The first paragraph of a description, in a normalized schema.
SINCE: Final = "x-since"  # The version that a type, a property or a method first had.

Direction = Literal["client_to_server", "server_to_client"]
DIRECTIONS: Final[tuple[Direction, ...]] = ("client_to_server", "server_to_client")
_SPACE: Final = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class ProtocolMessage:
    """One method in one direction; `params` and `result` are names of definitions, None for none.

    `capability` is what the receiver declares for it, as the document writes it. `positions` are the names of params
    that may go by position, in their order; with `sends_list` they are sent so.
    """

    kind: Literal["request", "notification"]
    direction: Direction
    method: str
    params: str | None = None
    result: str | None = None
    doc: str = ""
    deprecated: bool = False
    since: str = ""
    capability: str = ""
    positions: tuple[str, ...] = ()
    sends_list: bool = False
    is_also_request: bool = False
    """True for a notification whose method is that of a request as well."""

    @property
    def name(self) -> str:
        """Return the Python stem of the method: `textDocument/didOpen` → `text_document_did_open`."""
        return snake(self.method) + "_notification" * self.is_also_request


@dataclass(frozen=True, slots=True)
class ProtocolDocument:
    """A protocol as its document describes it: the definitions under `$defs`, and the messages."""

    schema: Schema
    messages: tuple[ProtocolMessage, ...]
    version: str = ""


def document_schema(title: str, definitions: Schema) -> Schema:
    """Return a normalized schema of these definitions."""
    return {"$schema": DIALECT, "title": title, "x-constants": {}, "$defs": definitions}


def marks(described: Any) -> Schema:
    """Return the description and the marks of a schema, a property or a message, for the normalized schema."""
    result: Schema = {}
    text = described.get("description", described.get("documentation", described.get("summary", "")))
    paragraph = _SPACE.sub(" ", str(text).strip().split("\n\n")[0])
    if paragraph:
        result[DOC] = paragraph
    if described.get("deprecated"):
        result["deprecated"] = True
    if isinstance(described.get("since"), str):
        result[SINCE] = described["since"]
    return result


def definition_name(method: str, end: str) -> str:
    """Return the name of a definition for a method: `textDocument/hover`, `Result` → `TextDocumentHoverResult`."""
    return pascal(method) + end


def require_object(value: object, what: str) -> Schema:
    """Return a JSON object. Raises SchemaError for anything else."""
    if not is_object(value):
        raise SchemaError(f"{what} must be a JSON object, not {type(value).__name__}; correct the document")
    return value
