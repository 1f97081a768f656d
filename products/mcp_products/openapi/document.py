"""OpenAPI documents: load one, and list its operations with all references resolved.

https://spec.openapis.org/oas/latest.html
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urljoin

from mcp_products.json_schema.cost import NOTHING, pointed
from mcp_runtime.errors import LocalError
from mcp_runtime.http.outgoing import without_secrets_in_logs
from mcp_runtime.http.urls import redact_url
from mcp_runtime.protocol.models import is_list, is_object

_log: Final = logging.getLogger("mcp_runtime.openapi.document")
_METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
_MAX_REFERENCES: Final = 100  # References to references.
_IGNORED_HEADERS: Final = ("accept", "content-type", "authorization")  # As OpenAPI specifies.
# Headers that say where a request goes and where it ends: no argument may set them.
_FRAMING_HEADERS: Final = frozenset(
    ("host", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer", "upgrade", "expect",
     "proxy-authorization", "proxy-connection")
)  # fmt: skip
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110, section 5.6.2.
_MEDIA_TYPE: Final = re.compile(r"[ -~]+")

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAPIParameter:
    """A parameter of an operation; `location` is "path", "query", "header" or "cookie"."""

    name: str
    location: str
    required: bool
    style: str
    explode: bool
    schema: Object | bool
    description: str | None = None
    allow_reserved: bool = False
    content_type: str | None = None
    multi_segment: bool = False
    """True if a slash in a value of the path stays one, so that the value may span several segments."""
    encodes_slashes: bool = False
    """True if a slash in a value of the path is sent as `%2F`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class APIResponse:
    """What a successful response has, if its status is this one: a media type and a schema, or no content."""

    status: str
    content_type: str | None
    schema: Object | bool

    def describes(self, status: int) -> bool:
        """Return True if this is about responses with a status."""
        return self.status == str(status) or self.status.upper() == f"{status // 100}XX"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestBody:
    """The body of an operation: its media type, its schema, and how its properties are encoded."""

    content_type: str
    schema: Object | bool
    required: bool
    encoding: Object
    description: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """An operation of an OpenAPI document: a method at a path."""

    method: str
    path: str
    operation_id: str | None
    summary: str | None
    description: str | None
    tags: Sequence[str]
    parameters: Sequence[OpenAPIParameter]
    body: RequestBody | None
    response: tuple[str, Object | bool] | None
    """The media type and the schema of a successful response, if the document has one."""
    responses: Sequence[APIResponse] = ()
    """All successful responses, each media type on its own."""

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class OpenAPIDocument:
    """An OpenAPI document of version 3.0 or 3.1."""

    def __init__(self, root: Object) -> None:
        """Check a document. Raises LocalError for another version, and for a document without paths."""
        if "swagger" in root:
            raise LocalError(
                f"from_openapi(): Swagger {root['swagger']} is not supported, only OpenAPI 3.0 and 3.1; "
                "convert it first: npx swagger2openapi FILE"
            )
        version = str(root.get("openapi", ""))
        if not version.startswith(("3.0", "3.1", "3.2")):
            raise LocalError(
                f"from_openapi(): openapi={version!r} is not supported; pass a document of OpenAPI 3.0 or 3.1"
            )
        if not is_object(root.get("paths", {})):
            raise LocalError("from_openapi(): `paths` of the document must be an object")
        self.root = root
        self.is_3_0 = version.startswith("3.0")

    @property
    def title(self) -> str:
        """The title of the API."""
        info = self.root.get("info")
        return str(info.get("title") or "OpenAPI") if is_object(info) else "OpenAPI"

    def server_url(self, location: str | None) -> str | None:
        """Return the absolute URL of the first server, with the defaults of its variables; None without one."""
        servers = self.root.get("servers")
        first = servers[0] if is_list(servers) and servers else None
        if not is_object(first):
            return None
        url = str(first.get("url", ""))
        variables = first.get("variables")
        for name, variable in (variables if is_object(variables) else {}).items():
            url = url.replace(f"{{{name}}}", str(variable.get("default", "")))
        url = urljoin(location or "", url)
        return url if url.startswith(("http://", "https://")) else None

    def operations(self) -> Iterator[Operation]:
        """Yield all operations, in the order of the document. Raises LocalError for an invalid one."""
        for path, reference in self.root.get("paths", {}).items():
            item = self.resolve(reference)
            if path.startswith("x-"):
                continue
            if not path.startswith("/") or path.startswith("//"):
                raise LocalError(f'from_openapi(): the path {path!r} of the document must begin with one "/"')
            for method, operation in item.items():
                if method in _METHODS and is_object(operation):
                    yield self._operation(method, path, item, operation)

    def resolve(self, value: Any) -> Any:
        """Return what a reference object refers to, or the value. Raises LocalError for a reference to nothing."""
        reference: object = None
        for _ in range(_MAX_REFERENCES):
            reference = value.get("$ref") if is_object(value) else None
            if not isinstance(reference, str):
                return value if is_object(value) else {}
            value = self.target(reference)
        raise LocalError(f"from_openapi(): the reference {reference!r} refers to itself")

    def target(self, reference: str) -> Any:
        """Return what a JSON pointer into this document refers to. Raises LocalError for other references."""
        if not reference.startswith("#"):
            raise LocalError(
                f"from_openapi(): the reference {reference!r} leaves the document; bundle it into one file"
            )
        value = pointed(self.root, reference)
        if value is NOTHING:
            raise LocalError(f"from_openapi(): the document has nothing at {reference!r}")
        return value

    def _operation(self, method: str, path: str, item: Object, operation: Object) -> Operation:
        parameters = {
            (parameter.location, parameter.name): parameter
            for source in (item, operation)
            for reference in source.get("parameters") or ()
            if (parameter := self._parameter(self.resolve(reference), path)) is not None
        }
        id = operation.get("operationId")
        return Operation(
            method=method.upper(),
            path=path,
            operation_id=id if isinstance(id, str) and id else None,
            summary=operation.get("summary") or item.get("summary"),
            description=operation.get("description") or item.get("description"),
            tags=tuple(map(str, operation.get("tags") or ())),
            parameters=tuple(parameters.values()),
            body=self._body(self.resolve(operation.get("requestBody"))),
            response=self._response(operation.get("responses")),
            responses=tuple(self._responses(operation.get("responses"))),
        )

    def _parameter(self, source: Object, path: str) -> OpenAPIParameter | None:
        name, location = str(source.get("name")), str(source.get("in"))
        if location == "header" and name.lower() in _IGNORED_HEADERS:
            return None
        if location == "path" and f"{{{name}}}" not in path:
            return None
        if location == "header" and name.lower() in _FRAMING_HEADERS:
            _log.warning("from_openapi(): the header parameter %r of %s is left out: HTTP clients set it", name, path)
            return None
        if location == "header" and not _TOKEN.fullmatch(name):
            raise LocalError(
                f"from_openapi(): {name[:100]!r} of {path} is not the name of a header (RFC 9110): rename it"
            )
        style = source.get("style") or ("form" if location in ("query", "cookie") else "simple")
        content: Object = source.get("content") or {}
        content_type: str | None = next(iter(content), None)
        schema = source if content_type is None else content[content_type]
        return OpenAPIParameter(
            name=name,
            location=location,
            required=location == "path" or source.get("required") is True,
            style=style,
            explode=bool(source.get("explode", style in ("form", "deepObject", "cookie"))),
            schema=self.resolve(schema).get("schema", {}),
            description=source.get("description"),
            allow_reserved=source.get("allowReserved") is True,
            content_type=content_type,
            multi_segment=source.get("x-multi-segment") is True,
            encodes_slashes=source.get("x-encoded-slash") is True,
        )

    def _body(self, source: Object) -> RequestBody | None:
        content = source.get("content")
        chosen = choose_media_type(content) if is_object(content) else None
        if chosen is None or not is_object(content):
            return None
        if not _MEDIA_TYPE.fullmatch(chosen):
            raise LocalError(f"from_openapi(): {chosen[:100]!r} is not a media type: correct the body of the operation")
        media = self.resolve(content[chosen])
        encoding = media.get("encoding")
        return RequestBody(
            content_type=chosen,
            schema=media.get("schema", {}),
            required=source.get("required") is True,
            encoding=encoding if is_object(encoding) else {},
            description=source.get("description"),
        )

    def _response(self, responses: object) -> tuple[str, Object | bool] | None:
        """Return the media type and schema of the first successful response with content."""
        if not is_object(responses):
            return None
        for status in sorted(map(str, responses)):
            content = self.resolve(responses.get(status)).get("content") if status.startswith("2") else None
            if is_object(content) and (chosen := choose_media_type(content)) is not None:
                return chosen, self.resolve(content[chosen]).get("schema", {})
        return None

    def _responses(self, responses: object) -> Iterator[APIResponse]:
        for status in sorted(map(str, responses)) if is_object(responses) else ():
            if not status.startswith("2"):
                continue
            content = self.resolve(responses.get(status)).get("content")  # type: ignore[attr-defined]
            if not is_object(content) or not content:
                yield APIResponse(status=status, content_type=None, schema=True)
                continue
            for name, media in content.items():
                yield APIResponse(status=status, content_type=str(name), schema=self.resolve(media).get("schema", {}))


def is_json_type(content_type: str) -> bool:
    """Return True for JSON, and for types with the suffix `+json` (RFC 6839)."""
    essence = content_type.partition(";")[0].strip().lower()
    return essence in ("application/json", "text/json") or essence.endswith("+json")


def choose_media_type(content: Object) -> str | None:
    """Return the media type to use: JSON before forms before others."""
    types = [str(name) for name in content]
    json_types = [name for name in types if is_json_type(name)]
    forms = [name for name in types if name in ("application/x-www-form-urlencoded", "multipart/form-data")]
    return next(iter([*json_types, *forms, *types]), None)


def load_document(source: Any) -> tuple[Any, str | None]:
    """Return the document of a dict, a path, a URL or a JSON or YAML text, and its URL. Blocks while it reads.

    Raises LocalError for a source that cannot be read.
    """
    if is_object(source):
        return source, None
    location, text = None, source
    if isinstance(source, Path) or (isinstance(source, str) and "\n" not in source and not source.startswith("{")):
        if str(source).startswith(("http://", "https://")):
            location, text = str(source), _fetch(str(source))
        else:
            try:
                text = Path(source).read_text(encoding="utf-8")
            except OSError as error:
                raise LocalError(f"from_openapi(): {str(source)!r} cannot be read: {error.strerror}") from None
    if not isinstance(text, str):
        raise LocalError(f"from_openapi(): the document is a {type(source).__name__}; pass a dict, a path or a URL")
    return _parse(text), location


def _fetch(url: str) -> str:
    try:
        import httpx2
    except ModuleNotFoundError:
        raise LocalError("from_openapi() with a URL needs httpx2: pip install 'mcp-generated[openapi]'") from None
    try:
        with without_secrets_in_logs():
            response = httpx2.get(url, follow_redirects=True)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise LocalError(f"from_openapi(): {redact_url(url)} cannot be fetched: {type(error).__name__}") from None
    if response.is_error:
        status = f"{response.status_code} {response.reason_phrase}"
        raise LocalError(f"from_openapi(): {redact_url(url)} cannot be fetched: status {status}")
    return response.text


def _parse(text: str) -> Any:
    try:
        document = json.loads(text)
    except ValueError:
        try:
            import yaml
        except ModuleNotFoundError:
            raise LocalError(
                "from_openapi(): a document in YAML needs PyYAML: pip install 'mcp-generated[openapi]'"
            ) from None
        try:
            document = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise LocalError(f"from_openapi(): the document is neither JSON nor YAML: {str(error)[:100]!r}") from None
    if not is_object(document):
        raise LocalError("from_openapi(): the document must be an object; pass a dict, a path or a URL")
    return document
