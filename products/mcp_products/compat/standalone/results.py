"""What functions of FastMCP return, and what its components give: results that are made of plain values."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Any, Final, Self

from pydantic import BaseModel
from pydantic_core import to_json, to_jsonable_python

from mcp_products.app.content import to_content_blocks
from mcp_runtime.protocol.models import is_list, is_object

from ..forms.form import FORM, official, written

_t: Any = FORM.types
_UNTYPED: Final = ("application/octet-stream", "text/plain")


def default_serializer(data: Any) -> str:
    """Return a value as JSON text."""
    return to_json(data, fallback=str).decode()


def blocks_are_given(value: Any) -> bool:
    """Return True for content blocks, which have no structure."""
    items: list[Any] = value if is_list(value) else [value]
    return bool(items) and all(isinstance(item, _t.MCPModel) and hasattr(item, "type") for item in items)


def check_items(name: str, items: Any, kind: Any, kinds: str) -> None:
    """Raise TypeError for something that is not a list, and for an item of another kind."""
    if not is_list(items):
        raise TypeError(f"{name} must be {kinds}, got {type(items).__name__}")
    for index, item in enumerate(items):
        if not isinstance(item, kind):
            word = kinds.rpartition("[")[2][:-1]
            raise TypeError(f"{name}[{index}] must be {word}, got {type(item).__name__}. Use {word}({item!r}).")


def blocks_of(value: Any) -> list[Any]:
    """Return a value as content blocks of the types of this process."""
    if blocks_are_given(value):
        return [*value] if is_list(value) else [value]
    made: list[Any] = official(to_content_blocks(value, FORM.app_class.types, None))
    return made


class ToolResult(_t.CallToolResult):  # type: ignore[misc]
    """The result of a tool."""

    def __init__(
        self, content: Any = None, structured_content: Any = None, meta: Any = None, is_error: bool = False
    ) -> None:
        """Create the result of content, which may be any value, or of structured content. Raises ValueError for
        neither, and for structured content that is not an object."""
        if content is None and structured_content is None:
            raise ValueError("Either content or structured_content must be provided")
        structured: Any = None if structured_content is None else to_jsonable_python(structured_content)
        if structured is not None and not is_object(structured):
            raise ValueError(
                f"structured_content must be a dict or None. Got {type(structured).__name__}: {structured}"
            )
        blocks = blocks_of(structured if content is None else content)
        super().__init__(content=blocks, structured_content=structured, meta=meta, is_error=is_error)  # pyright: ignore

    @classmethod
    def from_mcp_result(cls, result: Any) -> Self:
        """Return a result of the protocol as one of a tool."""
        return cls([*result.content], result.structured_content, result.meta, bool(result.is_error))

    def to_mcp_result(self) -> Any:
        """Return the result as one of the protocol."""
        return _t.CallToolResult.model_validate(written(self))


class Message(_t.PromptMessage):  # type: ignore[misc]
    """A message of a prompt; content that is not a block is written as a text."""

    def __init__(self, content: Any, role: str = "user") -> None:
        """Create the message."""
        if not isinstance(content, (str, _t.MCPModel)):
            content = to_json(content, fallback=str).decode()
        block = _t.TextContent(type="text", text=content) if isinstance(content, str) else content
        super().__init__(content=block, role=role)  # pyright: ignore[reportUnknownMemberType]


class PromptResult(_t.GetPromptResult):  # type: ignore[misc]
    """The messages of a prompt."""

    def __init__(self, messages: str | Sequence[Any], description: str | None = None, meta: Any = None) -> None:
        """Create the result of a text, or of messages and texts. Raises TypeError for another value."""
        items: Any = [messages] if isinstance(messages, str) else messages
        check_items("messages", items, (str, _t.PromptMessage), "str or list[Message]")
        made = [Message(item) if isinstance(item, str) else Message(item.content, item.role) for item in items]
        super().__init__(messages=made, description=description, meta=meta)  # pyright: ignore[reportUnknownMemberType]


class ResourceContent(BaseModel):
    """A content of a resource; a value that is neither text nor bytes is written as JSON."""

    content: str | bytes
    mime_type: str | None = None
    meta: dict[str, Any] | None = None

    def __init__(self, content: Any, mime_type: str | None = None, meta: dict[str, Any] | None = None) -> None:
        """Create the content."""
        if isinstance(content, (str, bytes)):
            kind = _UNTYPED[isinstance(content, str)]
        else:
            content, kind = to_json(content, fallback=str).decode(), "application/json"
        super().__init__(content=content, mime_type=mime_type or kind, meta=meta)

    def to_mcp_resource_contents(self, uri: Any) -> Any:
        """Return the content as one of the protocol."""
        fields: dict[str, Any] = {"uri": str(uri), "mime_type": self.mime_type, "meta": self.meta}
        if isinstance(self.content, str):
            return _t.TextResourceContents(text=self.content, **fields)
        return _t.BlobResourceContents(blob=b64encode(self.content).decode(), **fields)


class ResourceResult(BaseModel):
    """The contents of a resource."""

    contents: list[ResourceContent]
    meta: dict[str, Any] | None = None

    def __init__(self, contents: Any, meta: dict[str, Any] | None = None) -> None:
        """Create the result of a text, of bytes, or of contents. Raises TypeError for another value."""
        items = [ResourceContent(contents)] if isinstance(contents, (str, bytes)) else contents
        check_items("contents", items, ResourceContent, "str, bytes, or list[ResourceContent]")
        super().__init__(contents=items, meta=meta)

    def to_mcp_result(self, uri: Any) -> Any:
        """Return the result as one of the protocol."""
        contents = [item.to_mcp_resource_contents(uri) for item in self.contents]
        return _t.ReadResourceResult(contents=contents, meta=self.meta)


def contents_of(value: Any, mime_type: str | None) -> ResourceResult:
    """Return a value of a resource as its contents; texts and bytes get the MIME type."""
    if isinstance(value, ResourceResult):
        return value
    if isinstance(value, ResourceContent):
        return ResourceResult([value])
    if is_list(value) and value and isinstance(value[0], ResourceContent):
        return ResourceResult(value)
    return ResourceResult([ResourceContent(value, mime_type if isinstance(value, (str, bytes)) else None)])
