"""Resources of an app: the definition of a resource or resource template, and the call of its function."""

from __future__ import annotations

import base64
import codecs
import inspect
import json
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from os import PathLike
from pathlib import Path
from types import ModuleType, NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Final, Union, cast, get_args, get_origin

from pydantic_core import ValidationError

from mcp_runtime._lazy import LazyModule
from mcp_runtime.errors import JSONRPCError, LocalError, UnwritableValueError
from mcp_runtime.http.urls import redact_url, without_secrets
from mcp_runtime.protocol.jsonrpc import INTERNAL_ERROR
from mcp_runtime.protocol.models import format_validation_error, is_object
from mcp_runtime.protocol.uris import uri_key_with_fragment
from mcp_runtime.server.context import ServerContext
from mcp_runtime.usage.rules import TEXT, check_values, instance
from mcp_runtime.usage.texts import text_problem

from .components.named_things import UnknownItemError
from .components.uris import URITemplate, Value, is_https_url
from .content import Audio, File, Image, as_list, json_text
from .context.context import with_encrypted_state
from .settings import Item, ResourceSettings, to_definition, to_wire
from .signatures.generated_types import as_own, wire_model
from .signatures.signature import Signature, function_name

if TYPE_CHECKING:
    from mcp_runtime.http import outgoing
else:
    outgoing = LazyModule("mcp_runtime.http.outgoing")

_UNTYPED: Final = (Any, object, NoneType, inspect.Signature.empty)
_PATHS: Final = ("path", "file-path", "directory-path")  # The formats of the types of paths.
_log: Final = logging.getLogger("mcp_runtime.app.resources")
_TEXT_TYPES: Final = ("application/json", "application/xml")
_GUESS: Final = "guess"  # The encoding follows from the MIME type.


class Resource(Item):
    """A resource of an app, or a resource template if its URI has variables; `definition` is its item in the list."""

    def __init__(
        self, uri: str, function: Callable[..., Any], settings: ResourceSettings, t: ModuleType, indent: int | None
    ) -> None:
        """Create a resource from a function.

        Raises LocalError if the variables of the URI differ from the parameters of the function, and for a public
        resource without an https URI.
        """
        self.uri = uri
        self.key = uri_key_with_fragment(uri)
        super().__init__(f"the resource {uri!r}", settings, t, indent)
        self._check_scheme(settings.get("public", False))
        self._mime_type = settings.get("mime_type")
        self.template = URITemplate(uri)
        self._signature = Signature(function, self._description, settings.get("thread"))
        self._check(self._signature)
        self._read_by_type(self._signature.schema()["properties"])
        shown = {
            **to_wire(settings, self._signature.summary),
            "name": settings.get("name") or function_name(function) or uri,
            "mimeType": self._mime_type or _mime_type_of(self._signature.returns),
            "annotations": settings.get("annotations"),
        }
        self.is_template = bool(self.template.names)
        if self.is_template:
            if settings.get("size") is not None:
                raise LocalError(
                    f"{self._description}: `size` is that of one resource, not of a template: leave it out"
                )
            self.definition: Any = to_definition(t.ResourceTemplate, {**shown, "uriTemplate": uri}, self._description)
        else:
            self.definition = to_definition(
                t.Resource, {**shown, "uri": uri, "size": settings.get("size")}, self._description
            )

    async def read(self, ctx: ServerContext, uri: str, values: dict[str, Value], result_types: tuple[type, ...]) -> Any:
        """Return the ReadResourceResult. Raises JSONRPCError (invalid params) for invalid values of the variables."""
        try:
            arguments = self._signature.read(values, coerce=True)
        except ValidationError as error:
            raise UnknownItemError("resources", uri, f": {format_validation_error(error)}") from None
        value = as_own(await self._signature.call(ctx, arguments), self._t, result_types)
        if isinstance(value, result_types):
            return with_encrypted_state(ctx, value)
        parts = [as_own(part, self._t, (self._t.ResourceContents,)) for part in as_list(value)]
        if not any(isinstance(part, self._t.ResourceContents) for part in parts):
            parts = [value]
        return self._t.ReadResourceResult(contents=[self._content(uri, part) for part in parts])

    def _content(self, uri: str, value: Any) -> Any:
        match value:
            case self._t.ResourceContents():
                return value
            case str():
                if (problem := text_problem(value)) is not None:
                    raise self._unsendable(problem)
                return self._t.TextResourceContents(uri=uri, text=value, mime_type=self._mime_type or "text/plain")
            case bytes() | bytearray() | memoryview():
                kind = self._mime_type or "application/octet-stream"
                return self._t.BlobResourceContents(
                    uri=uri, blob=base64.b64encode(bytes(cast(Any, value))).decode(), mime_type=kind
                )
            case Image() | Audio():
                kind = self._mime_type or value.mime_type
                return self._t.BlobResourceContents(uri=uri, blob=value.encoded(), mime_type=kind)
            case _:
                try:
                    text = json_text(value, self.indent)
                except UnwritableValueError as error:
                    raise self._unsendable(error) from None
                return self._t.TextResourceContents(uri=uri, text=text, mime_type=self._mime_type or "application/json")

    def _check_scheme(self, public: bool) -> None:
        """Warn about an https URI that is not public: clients may fetch it without this server.

        https://modelcontextprotocol.io/specification/draft/server/resources#common-uri-schemes
        """
        if is_https_url(self.uri):
            if not public:
                _log.warning(
                    "%s: clients may fetch https:// URIs from the web without this server; set `public=True` if "
                    "the URI is reachable, otherwise use another scheme, such as a custom one",
                    self._description,
                )
        elif public:
            raise LocalError(f"{self._description} cannot be public: public resources need an https:// URI")

    def _read_by_type(self, properties: Mapping[str, Any]) -> None:
        """Read variables as the types of their parameters say: several values for a list, a path of a file."""
        schemas = {name: _schemas_of(properties[name]) for name in self.template.names}
        lists = {name for name, parts in schemas.items() if any(part.get("type") == "array" for part in parts)}
        paths = {name for name, parts in schemas.items() if any(part.get("format") in _PATHS for part in parts)}
        self.template.read_as(lists=lists, paths=paths)

    def _check(self, signature: Signature) -> None:
        if signature.returns is None or signature.returns is type(None):
            raise LocalError(f"{self._description} returns nothing: return text, bytes, or a value for JSON")
        schema = signature.schema()
        variables, required = {*self.template.names}, {*schema.get("required", ())}
        if missing := required - variables | (variables - {*schema["properties"]}):
            raise LocalError(
                f"{self._description}: URI variables and function parameters differ: {', '.join(sorted(missing))}; "
                "add them to both, or remove them"
            )
        if absent := self.template.optional & required:
            raise LocalError(
                f"{self._description}: parameters for query variables need a default: {', '.join(sorted(absent))}"
            )


def _schemas_of(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the schemas of the values of a parameter: those of a union, else its own."""
    return [schema, *(part for part in schema.get("anyOf", ()) if is_object(part))]


def _mime_type_of(returns: Any) -> str | None:
    """Return the MIME type of the contents of a return type; None if it does not say it."""
    origin, inner = get_origin(returns), get_args(returns)
    if origin is Annotated:
        return _mime_type_of(inner[0])
    if origin in (Union, UnionType):
        kinds = {_mime_type_of(hint) for hint in inner}
        return kinds.pop() if len(kinds) == 1 else None
    if any(_has_own_type(hint) for hint in (returns, *inner)) or returns in (
        Any,
        object,
        NoneType,
        inspect.Signature.empty,
    ):
        return None
    if isinstance(returns, type) and issubclass(returns, (str, bytes, bytearray, memoryview)):
        return "text/plain" if issubclass(returns, str) else "application/octet-stream"
    return "application/json"


def _has_own_type(hint: Any) -> bool:
    return isinstance(hint, type) and not get_args(hint) and issubclass(hint, (wire_model(), Image, Audio, File))


# Resources whose content is a text, bytes, a file, a folder or an HTTP response. Names as in the official SDK.


_CONTENTS: Final = {
    "text": TEXT,
    "data": instance((bytes, bytearray, memoryview), 'bytes, such as b"…"; a text is a TextResource'),
    "path": instance((str, PathLike), "an absolute path, such as Path(__file__)"),
    "url": TEXT,
}


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
        check_values(type(self).__name__, vars(self), _CONTENTS)
        self.uri = str(self.uri)

    def settings(self) -> ResourceSettings:
        """Return the keywords of `App.add_resource`."""
        given = {item.name: getattr(self, item.name) for item in fields(ResourceSource) if item.name != "uri"}
        return cast(ResourceSettings, {**given, "name": self.name or self.uri})

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
        except ModuleNotFoundError:
            raise LocalError("HttpResource() needs httpx2: pip install 'mcp-generated[http]'") from None
        async with AsyncClient() as client:
            with outgoing.without_secrets_in_logs():
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
