"""Resources whose content is a text, bytes, a file, a folder or an HTTP response. Names as in the official SDK."""

from __future__ import annotations

import codecs
import inspect
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ..errors import JSONRPCError, LocalError
from ..http.request_logs import without_secrets_in_logs
from ..http.urls import redact_url, without_secrets
from ..protocol.jsonrpc import INTERNAL_ERROR
from .settings import ResourceSettings

_TEXT_TYPES: Final = ("application/json", "application/xml")
_GUESS: Final = "guess"  # The encoding follows from the MIME type.


@dataclass(kw_only=True)
class ResourceSource:
    """The base class of resources to add with `App.add_resource`: subclasses have a method `read`.

    Args:
        uri: The URI of the resource.
        name: Its name; by default the URI.
        title: Its name to show to users.
        description: What it is, for the model.
        mime_type: The MIME type of its content.
        icons: Its icons, as Icon objects or dicts.
        annotations: Annotations or a dict.
        meta: The `_meta` of its definition.
        tags: Names for `app.disable(tags=…)`.
        version: Its version.
    """

    uri: str
    name: str | None = None
    title: str | None = None
    description: str | None = None
    mime_type: str = "text/plain"
    icons: Sequence[Any] | None = None
    annotations: Any = None
    meta: Mapping[str, Any] | None = None
    tags: Collection[str] = ()
    version: str | None = None

    def __post_init__(self) -> None:
        self.uri = str(self.uri)

    def settings(self) -> ResourceSettings:
        """Return the keywords of `App.add_resource`."""
        return {
            "name": self.name or self.uri,
            "title": self.title,
            "description": self.description,
            "mime_type": self.mime_type,
            "icons": self.icons,
            "annotations": self.annotations,
            "meta": self.meta,
            "tags": self.tags,
            "version": self.version,
        }

    @property
    def function(self) -> Callable[..., Any]:
        """The function that returns the content. Raises LocalError for a subclass without `read`."""
        read = getattr(self, "read", None)
        if read is None:
            raise LocalError(
                f"add_resource(): {type(self).__name__} has no content; write a method `def read(self) -> str`"
            )

        def content() -> Any:  # Without a docstring: it would become the description.
            return read()

        async def content_async() -> Any:
            return await read()

        return content_async if inspect.iscoroutinefunction(read) else content


@dataclass(kw_only=True)
class TextResource(ResourceSource):
    """A resource with a constant text."""

    text: str

    def read(self) -> str:
        """Return the text."""
        return self.text


@dataclass(kw_only=True)
class BinaryResource(ResourceSource):
    """A resource with constant bytes."""

    data: bytes
    mime_type: str = "application/octet-stream"

    def read(self) -> bytes:
        """Return the bytes."""
        return self.data


@dataclass(kw_only=True)
class FileResource(ResourceSource):
    """A resource with the content of a file, read for each request.

    `encoding` decodes its text, and None sends its bytes. By default it is the charset of the MIME type, else UTF-8 for
    text, JSON and XML, else None. `is_binary=True` is `encoding=None`. Raises LocalError for a relative path and an
    unknown encoding.
    """

    path: str | Path
    encoding: str | None = _GUESS
    is_binary: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.path = _absolute(self.path, "FileResource")
        if self.encoding == _GUESS:
            self.encoding = _encoding_of(self.mime_type)
        if self.is_binary:
            self.encoding = None
        if self.encoding is not None:
            try:
                codecs.lookup(self.encoding)
            except LookupError:
                raise LocalError(
                    f"FileResource(): encoding={self.encoding!r} is unknown; use 'utf-8', or None"
                ) from None

    def read(self) -> str | bytes:
        """Return the text or the bytes of the file."""
        data = Path(self.path).read_bytes()
        return data if self.encoding is None else data.decode(self.encoding)


@dataclass(kw_only=True)
class DirectoryResource(ResourceSource):
    """A resource with the names of the files in a folder, as the JSON object `{"files": […]}`, in sorted order.

    `recursive=True` lists the folders inside as well, and `pattern` selects files, such as `*.md`. Files outside of the
    folder, which symbolic links lead to, are not listed. Raises LocalError for a relative path.
    """

    path: str | Path
    recursive: bool = False
    pattern: str | None = None
    mime_type: str = "application/json"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.path = _absolute(self.path, "DirectoryResource")

    def list_files(self) -> list[Path]:
        """Return the files of the folder."""
        folder = Path(self.path)
        if not folder.is_dir():
            raise NotADirectoryError(f"{folder} is not a directory")
        items = (folder.rglob if self.recursive else folder.glob)(self.pattern or "*")
        root = folder.resolve()
        return sorted(item for item in items if item.is_file() and item.resolve().is_relative_to(root))

    def read(self) -> str:
        """Return the JSON object with the paths of the files, relative to the folder."""
        names = [file.relative_to(self.path).as_posix() for file in self.list_files()]
        return json.dumps({"files": names}, indent=2, ensure_ascii=False)


@dataclass(kw_only=True)
class HttpResource(ResourceSource):
    """A resource with the response to a GET request, sent for each request. It needs the extra `http`."""

    url: str
    mime_type: str = "application/json"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.url.startswith(("http://", "https://")):
            raise LocalError(
                f'HttpResource(): url={without_secrets(self.url)!r} must begin with "http://" or "https://"'
            )

    async def read(self) -> str | bytes:
        """Return the text of the response, or its bytes if its MIME type is not one of text."""
        try:
            from httpx2 import AsyncClient
        except ImportError:
            raise LocalError("HttpResource() needs httpx2: pip install 'mcp-generated[http]'") from None
        async with AsyncClient() as client:
            with without_secrets_in_logs():
                response = await client.get(self.url)
            if response.is_error:
                raise JSONRPCError(INTERNAL_ERROR, f"{redact_url(self.url)} answered {response.status_code}")
        return response.content if _encoding_of(self.mime_type) is None else response.text


def _absolute(path: str | Path, name: str) -> Path:
    path = Path(path)
    if not path.is_absolute():
        raise LocalError(f"{name}(): path={str(path)!r} must be absolute; write path=Path({str(path)!r}).resolve()")
    return path


def _encoding_of(mime_type: str) -> str | None:
    """Return the encoding of a MIME type: its charset, else UTF-8 with or without a byte order mark for text."""
    essence, *parameters = (part.strip() for part in mime_type.split(";"))
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset" and value:
            return value.strip().strip('"')
    essence = essence.lower()
    return (
        "utf-8-sig"
        if essence.startswith("text/") or essence.endswith(("+json", "+xml")) or essence in _TEXT_TYPES
        else None
    )
