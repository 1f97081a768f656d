"""Content blocks: convert the return values of functions to the content types of a revision."""

from __future__ import annotations

import base64
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, cast
from urllib.parse import quote

from pydantic_core import to_json, to_jsonable_python

from mcp_runtime._lazy import LazyModule
from mcp_runtime.errors import LocalError, UnwritableValueError
from mcp_runtime.protocol import json_text as finite_numbers
from mcp_runtime.usage.rules import shown
from mcp_runtime.usage.texts import is_unicode, text_problem, unwritable

from .signatures.forms import fallback, is_known, with_own_names
from .signatures.generated_types import as_own, wire_model

if TYPE_CHECKING:
    import mimetypes

    from pydantic import errors
else:  # Imported when they are used: most servers return no files, whose types are in tables of the system.
    mimetypes = LazyModule("mimetypes")
    errors = LazyModule("pydantic.errors")

# The MIME types of common files, which a table of the operating system may lack or name otherwise.
_MIME_TYPES: Final = {
    ".aac": "audio/aac",
    ".flac": "audio/flac",
    ".gif": "image/gif",
    ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg",
    ".m4a": "audio/mp4",
    ".mp3": "audio/mpeg",
    ".ogg": "audio/ogg",
    ".png": "image/png",
    ".wav": "audio/wav",
    ".webp": "image/webp",
}


# The types of text that a table of the operating system may lack or name otherwise.
_TEXT_TYPES: Final = {
    **dict.fromkeys((".txt", ".text", ".plain"), "text/plain"),
    **dict.fromkeys((".md", ".markdown"), "text/markdown"),
    ".csv": "text/csv",
}
_TOO_DEEP: Final = "it contains itself, or has too many levels: return fewer of them"


@dataclass(frozen=True, slots=True)
class _Media:
    """Media from bytes (`data`) or from a file (`path`, also by position); `format` is a subtype such as `png`, or a
    MIME type."""

    family: ClassVar[str]
    default: ClassVar[str]

    data: bytes | bytearray | memoryview | str | Path | None = None
    path: str | Path | None = None
    format: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.data, (str, Path)) and self.path is None:
            object.__setattr__(self, "path", self.data)
            object.__setattr__(self, "data", None)
        _check_source(self)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any, /) -> Any:
        raise _no_schema(cls)

    def encoded(self) -> str:
        """Return the bytes in base64. Raises OSError if the file cannot be read."""
        if isinstance(self.data, (bytes, bytearray, memoryview)):
            data = bytes(self.data)
        else:
            data = Path(self.path or "").read_bytes()
        return base64.b64encode(data).decode()

    @property
    def mime_type(self) -> str:
        """The MIME type: from `format`, else from the file name, else the default of bytes."""
        if self.format is not None:
            return self.format if "/" in self.format else f"{self.family}/{self.format.lower()}"
        if self.path is None:
            return self.default
        common = _MIME_TYPES.get(Path(self.path).suffix.lower())
        return common or mimetypes.guess_type(str(self.path))[0] or "application/octet-stream"


def _check_source(media: _Media | File) -> None:
    """Raise LocalError unless there are either bytes or a path."""
    name, data = type(media).__name__, media.data
    if (data is None) is (media.path is None):
        raise LocalError(f"{name} needs either `data` or `path`")
    if data is not None and not isinstance(data, (bytes, bytearray, memoryview)):
        raise LocalError(f"{name}: data must be bytes, such as text.encode(); {shown(data)} is not")


def _no_schema(cls: type) -> Exception:
    return errors.PydanticSchemaGenerationError(f"{cls.__name__} is content, which has no JSON Schema")


class Image(_Media):
    """An image that a tool returns, as bytes (`data`, PNG unless `format` is set) or as a file (`path`)."""

    family = "image"
    default = "image/png"


class Audio(_Media):
    """Audio that a tool returns, as bytes (`data`, WAV unless `format` is set) or as a file (`path`)."""

    family = "audio"
    default = "audio/wav"


@dataclass(frozen=True, slots=True)
class File:
    """A file that a tool returns, as bytes (`data`) or from a path: an embedded resource.

    Attributes:
        path: The path of the file, also by position.
        data: The bytes of the file.
        format: The MIME type, or a short name such as "pdf"; by default from the extension of the name.
        name: The name of the file in its URI, for bytes; a path has its own.
        annotations: The annotations of the block: a dict such as `{"audience": ["user"]}`.

    Text, which is any `text/…` in UTF-8, is sent as text, other bytes in base64.
    """

    path: str | Path | None = None
    data: bytes | bytearray | memoryview | None = None
    format: str | None = None
    name: str | None = None
    annotations: Any = None

    def __post_init__(self) -> None:
        _check_source(self)
        if self.path is not None and self.name is not None:
            raise LocalError("File: `name` is for `data`; a path has a name of its own")

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any, /) -> Any:
        raise _no_schema(cls)

    @property
    def mime_type(self) -> str:
        """The MIME type: from `format`, else from the name, else `application/octet-stream`."""
        if self.format is not None and "/" in self.format:
            return self.format
        name = f"file.{self.format}" if self.format is not None else str(self.path or self.name or "")
        suffix = Path(name).suffix.lower()
        guessed = _TEXT_TYPES.get(suffix) or mimetypes.guess_type(name)[0]
        return guessed or (f"application/{self.format.lower()}" if self.format else "application/octet-stream")

    def block(self, t: ModuleType) -> Any:
        """Return the content block. Raises OSError if the file cannot be read."""
        if self.data is not None:
            name = self.name or "file"
            extension = "" if Path(name).suffix else (mimetypes.guess_extension(self.mime_type) or "")
            data, uri = bytes(self.data), f"file:///{quote(name + extension)}"
        else:
            path = Path(self.path or "").expanduser().resolve()
            data, uri = path.read_bytes(), path.as_uri()
        contents: Any = None
        if self.mime_type.startswith("text/"):
            with suppress(UnicodeDecodeError):
                contents = t.TextResourceContents(uri=uri, mime_type=self.mime_type, text=data.decode())
        if contents is None:
            blob = base64.b64encode(data).decode()
            contents = t.BlobResourceContents(uri=uri, mime_type=self.mime_type, blob=blob)
        fields = {"type": "resource", "resource": contents.model_dump(), "annotations": self.annotations}
        return t.EmbeddedResource.model_validate({name: value for name, value in fields.items() if value is not None})


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a prompt: text, an image, a content block, or another value, which becomes JSON text."""

    content: Any
    role: Literal["user", "assistant"] = "user"


@dataclass(frozen=True, slots=True)
class UserMessage(Message):
    """A message of a prompt with the role `user`."""

    role: Literal["user", "assistant"] = "user"


@dataclass(frozen=True, slots=True)
class AssistantMessage(Message):
    """A message of a prompt with the role `assistant`."""

    role: Literal["user", "assistant"] = "assistant"


def to_content_blocks(value: Any, t: ModuleType, indent: int | None = None) -> list[Any]:
    """Return the content blocks of a value: text for a string, the blocks of all items for a list, JSON text
    otherwise. Raises UnwritableValueError for a value that JSON cannot express."""
    match as_own(value, t):
        case None:
            return []
        case str():
            return [
                t.TextContent(text=checked_text(str.__str__(value)))
            ]  # Of a subclass, such as an enumeration, its text.
        case Image():
            return [t.ImageContent(data=value.encoded(), mime_type=value.mime_type)]
        case Audio():
            return [t.AudioContent(data=value.encoded(), mime_type=value.mime_type)]
        case File():
            return [value.block(t)]
        case t.ResourceContents() as contents:
            return [t.EmbeddedResource(resource=contents)]
        case block if isinstance(block, wire_model()) and isinstance(getattr(block, "type", None), str):
            return [block]
        case t.Resource() as resource:
            return [t.ResourceLink(**resource.model_dump())]
        case _ if isinstance(value, (list, tuple)):
            try:
                return [block for item in as_list(cast(object, value)) for block in to_content_blocks(item, t, indent)]
            except RecursionError:
                raise UnwritableValueError(_TOO_DEEP) from None
        case _:
            return [t.TextContent(text=json_text(value, indent))]


def json_text(value: Any, indent: int | None) -> str:
    """Return a value as JSON text, with so many spaces of indentation, or in one line for None.

    An object of a class that pydantic does not know is written as its attributes with type hints. Raises
    UnwritableValueError for one without them, for NaN and infinity, and for bytes and texts that are not UTF-8.
    """
    try:
        plain = to_jsonable_python(with_own_names(value), fallback=fallback)
        text = to_json(plain, indent=indent)
    except ValueError as error:
        raise UnwritableValueError(unwritable(value, is_known) or str(error)) from None
    except RecursionError:
        raise UnwritableValueError(_TOO_DEEP) from None
    _require_finite(text, value)
    return text.decode()


def checked_text(text: str) -> str:
    """Return a text that can be sent. Raises UnwritableValueError for half of a surrogate pair."""
    if not is_unicode(text):
        raise UnwritableValueError(text_problem(text) or "the text cannot be sent")
    return text


def require_finite(plain: Any, value: Any = None) -> None:
    """Raise UnwritableValueError for plain JSON that contains NaN or infinity, or null for a NaN of its original value,
    or text that is not UTF-8."""
    try:
        text = to_json(plain)
    except ValueError as error:
        raise UnwritableValueError(unwritable(plain) or str(error)) from None
    _require_finite(text, value)


def as_list(value: object) -> list[Any]:
    """Return the items of a list or tuple; a list with the value otherwise."""
    return list(cast(list[Any], value)) if isinstance(value, (list, tuple)) else [value]


def _require_finite(text: bytes, value: Any) -> None:
    try:
        finite_numbers.require_finite(text, value)
    except ValueError as error:
        raise UnwritableValueError(unwritable(value) or str(error)) from None
