"""Content blocks: convert the return values of functions to the content types of a revision."""

from __future__ import annotations

import base64
import mimetypes
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final, cast

from pydantic_core import to_json

from ..errors import LocalError
from ..protocol.models import WireModel


@dataclass(frozen=True, slots=True)
class _Media:
    """Media from bytes or from a file; `format` is a subtype such as `png`, or a MIME type."""

    data: bytes | None = None
    path: str | Path | None = None
    format: str | None = None

    def encoded(self) -> str:
        """Return the bytes in base64. Raises LocalError if there is neither `data` nor `path`."""
        if self.data is None and self.path is None:
            raise LocalError(f"{type(self).__name__} needs `data` or `path`")
        return base64.b64encode(self.data if self.data is not None else Path(self.path or "").read_bytes()).decode()

    def mime_type(self, family: str, default: str) -> str:
        """Return the MIME type: from `format`, else from the file name, else the default."""
        if self.format is not None:
            return self.format if "/" in self.format else f"{family}/{self.format}"
        guessed = mimetypes.guess_type(str(self.path))[0] if self.path is not None else None
        return guessed or default


class Image(_Media):
    """An image that a tool returns, as bytes (`data`, PNG unless `format` is set) or as a file (`path`)."""


class Audio(_Media):
    """Audio that a tool returns, as bytes (`data`, WAV unless `format` is set) or as a file (`path`)."""


@dataclass(frozen=True, slots=True)
class UserMessage:
    """A message of a prompt with the role `user`."""

    content: Any
    role: Final = "user"


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """A message of a prompt with the role `assistant`."""

    content: Any
    role: Final = "assistant"


def to_content_blocks(value: Any, t: ModuleType) -> list[Any]:
    """Return the content blocks of a value: text for a string, the blocks of all items for a list, JSON text
    otherwise."""
    match value:
        case None:
            return []
        case str():
            return [t.TextContent(text=value)]
        case Image():
            return [t.ImageContent(data=value.encoded(), mime_type=value.mime_type("image", "image/png"))]
        case Audio():
            return [t.AudioContent(data=value.encoded(), mime_type=value.mime_type("audio", "audio/wav"))]
        case t.ResourceContents():
            return [t.EmbeddedResource(resource=value)]
        case WireModel() if isinstance(getattr(value, "type", None), str):
            return [value]
        case t.Resource():
            return [t.ResourceLink(**value.model_dump())]
        case _ if isinstance(value, (list, tuple)):
            return [block for item in as_list(cast(object, value)) for block in to_content_blocks(item, t)]
        case _:
            return [t.TextContent(text=to_json(value).decode())]


def as_list(value: object) -> list[Any]:
    """Return the items of a list or tuple; a list with the value otherwise."""
    return list(cast(list[Any], value)) if isinstance(value, (list, tuple)) else [value]
