"""What a function returns goes in, content blocks of a revision come out."""

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
    """Bytes, or the file that holds them, and the format of these, such as `png`."""

    data: bytes | None = None
    path: str | Path | None = None
    format: str | None = None

    def encoded(self) -> str:
        """The bytes in base64. Raises LocalError where there are none."""
        if self.data is None and self.path is None:
            raise LocalError(f"{type(self).__name__} needs `data` or a `path`")
        return base64.b64encode(self.data if self.data is not None else Path(self.path or "").read_bytes()).decode()

    def mime_type(self, family: str, default: str) -> str:
        if self.format is not None:
            return self.format if "/" in self.format else f"{family}/{self.format}"
        guessed = mimetypes.guess_type(str(self.path))[0] if self.path is not None else None
        return guessed or default


class Image(_Media):
    """A picture that a tool returns: its bytes (PNG if `format` does not say otherwise), or the path of its file."""


class Audio(_Media):
    """Sound that a tool returns: its bytes (WAV if `format` does not say otherwise), or the path of its file."""


@dataclass(frozen=True, slots=True)
class UserMessage:
    """What a prompt lets the user say."""

    content: Any
    role: Final = "user"


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """What a prompt lets the model say."""

    content: Any
    role: Final = "assistant"


def to_content_blocks(value: Any, t: ModuleType) -> list[Any]:
    """Content blocks: text for a string, one after another for a list, JSON as text for what has no block of its own."""
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
            return [block for each in as_list(cast(object, value)) for block in to_content_blocks(each, t)]
        case _:
            return [t.TextContent(text=to_json(value).decode())]


def as_list(value: object) -> list[Any]:
    """What a list or a tuple holds, or the value alone."""
    return list(cast(list[Any], value)) if isinstance(value, (list, tuple)) else [value]
