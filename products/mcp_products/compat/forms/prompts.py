"""Messages of prompts as the official SDK has them, and what makes them of the values of functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from pydantic import BaseModel

from mcp_products.app import content as own
from mcp_runtime.protocol.models import is_object

from .form import FORM, read_as
from .inspection import content_of


@dataclass(frozen=True)
class Message(own.Message):
    """A message of a prompt: a content block; a text becomes one."""

    def __post_init__(self) -> None:
        if self.role not in ("user", "assistant"):
            raise ValueError(f"Message: role {self.role!r}: the roles are 'user' and 'assistant'")
        object.__setattr__(self, "content", content_block(self.content))


@dataclass(frozen=True)
class UserMessage(Message):
    """A message of the user."""


@dataclass(frozen=True)
class AssistantMessage(Message):
    """A message of the assistant."""

    role: Any = "assistant"


def content_block(value: Any) -> Any:
    """Return a content block: a value of a block's type as it is, a dict as one, and the text of another value."""
    if isinstance(value, (own.Image, own.Audio)):
        kind = FORM.types.ImageContent if isinstance(value, own.Image) else FORM.types.AudioContent
        return kind.model_validate({"data": value.encoded(), "mimeType": value.mime_type})
    if isinstance(value, BaseModel) and hasattr(value, "type"):
        return value
    if isinstance(value, Mapping):
        return read_as(FORM.types.ContentBlock, value)
    return FORM.types.TextContent(type="text", text=content_of(value))


def content_blocks(value: Any) -> list[Any]:
    """Return the content blocks of what a tool has returned; those of all items for a list."""
    if value is None:
        return []
    if isinstance(value, (list, tuple)):
        return [block for item in cast(list[Any], value) for block in content_blocks(item)]
    return [content_block(value if isinstance(value, (BaseModel, own.Image, own.Audio, str)) else content_of(value))]


def messages_of(value: Any) -> list[Message]:
    """Return the messages of what a prompt has returned."""
    return [_message(item) for item in (cast(list[Any], value) if isinstance(value, (list, tuple)) else [value])]


def _message(item: Any) -> Any:
    if isinstance(item, own.Message):
        return item
    if is_object(item) and item.keys() <= {"role", "content"}:
        return (AssistantMessage if item.get("role") == "assistant" else UserMessage)(item["content"])
    is_content = isinstance(item, (str, own.Image, own.Audio)) or hasattr(item, "type")
    return UserMessage(item if is_content else content_of(item))
