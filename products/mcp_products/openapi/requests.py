"""The input schema of an operation, and the HTTP request for its arguments."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from pydantic_core import from_json, to_json

from mcp_products.json_schema.validator import CompiledSchema
from mcp_runtime.errors import LocalError, ToolError
from mcp_runtime.http.outgoing import without_secrets_in_logs
from mcp_runtime.http.urls import redact_url
from mcp_runtime.protocol.models import is_list, is_object
from mcp_runtime.protocol.uris import has_separator, has_traversal

from .document import OpenAPIParameter, Operation, RequestBody, is_json_type
from .schemas import SchemaConverter, usable

# Values of parameters as text: the styles of OpenAPI, with all that has a meaning in a URL percent-encoded.
#
# https://spec.openapis.org/oas/latest.html#style-values

_RESERVED: Final = (
    ":/?@!$'()*,;"  # Reserved in a query, but without a meaning there. Not `#`, `&`, `=`, `+` and brackets.
)
_DELIMITERS: Final = {"form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C"}
_COOKIE_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_COOKIE_VALUE: Final = re.compile(r"[!#-+\--:<-\[\]-~]*")
_MAX_LEVELS: Final = 20

EncodedItems = list[tuple[str, str]]

_FORM: Final = "application/x-www-form-urlencoded"
_MULTIPART: Final = "multipart/form-data"
_UNUSABLE: Final = re.compile(r"[^A-Za-z0-9_.-]")  # Characters that models do not accept in the name of an argument.
_MAX_NAME: Final = 64
_MAX_DEFINITIONS: Final = 32_000  # Bytes.
_MAX_SHOWN: Final = 2000  # Characters of the body of an error response in the message.
_TEXT_TYPES: Final = ("text/", "application/xml", "application/javascript", "application/yaml", "application/x-yaml")


def path_text(parameter: OpenAPIParameter, value: Any) -> str:
    """Return the text of a path parameter. Raises ToolError for a value that would leave its segment."""
    leaves = [*_leaves(value)]
    for text in leaves:
        segments = text.split("/") if parameter.multi_segment or parameter.encodes_slashes else [text]
        inside = all(segments) and not has_traversal(text) and not any(map(has_separator, segments))
        if not inside or any(ord(character) < 32 for character in text):
            raise ToolError(f"the path parameter {parameter.name!r} cannot be {text[:100]!r}: it would leave its path")
    if not leaves:
        raise ToolError(f"the path parameter {parameter.name!r} cannot be empty")
    prefix = {"label": ".", "matrix": ";"}.get(parameter.style, "")
    separator = {"label": ".", "matrix": ";"}.get(parameter.style, ",") if parameter.explode else ","
    safe = "/" if parameter.multi_segment and not parameter.encodes_slashes else ""
    if parameter.style == "matrix":
        return prefix + _matrix(parameter, value, separator)
    return prefix + separator.join(_parts(value, parameter.explode, safe))


def query_items(parameter: OpenAPIParameter, value: Any) -> EncodedItems:
    """Return the encoded names and values of a parameter of a query or a cookie, or of a property of a form."""
    safe = _RESERVED if parameter.allow_reserved and parameter.location == "query" else ""
    name = quote(parameter.name, safe="[]")
    if parameter.style == "deepObject" and (is_object(value) or is_list(value)):
        return [*_deep(name, value, 0)]
    if parameter.explode and is_list(value):
        return [(name, quote(scalar(item), safe=safe)) for item in value]
    if parameter.explode and is_object(value):
        return [(quote(str(key), safe=""), quote(scalar(item), safe=safe)) for key, item in value.items()]
    delimiter = _DELIMITERS.get(parameter.style, ",")
    return [(name, delimiter.join(_parts(value, False, safe)))]


def cookie_items(parameter: OpenAPIParameter, value: Any) -> EncodedItems:
    """Return the names and values of a cookie parameter.

    They are percent-encoded, except in the style `cookie` of OpenAPI 3.2. Raises ToolError for characters that no
    cookie can have then (RFC 6265, section 4.1.1).
    """
    if parameter.style != "cookie":
        return query_items(parameter, value)
    if is_object(value):
        items = [(str(key), scalar(item)) for key, item in value.items()]
    else:
        items = [(parameter.name, scalar(item)) for item in (value if is_list(value) else [value])]
    if not parameter.explode and (is_object(value) or is_list(value)):
        raise ToolError(f"the cookie {parameter.name!r} cannot have several values: it has explode=false")
    for name, text in items:
        if not _COOKIE_NAME.fullmatch(name) or not _COOKIE_VALUE.fullmatch(text):
            raise ToolError(
                f"the cookie {name[:100]!r} cannot have the value {text[:100]!r}: use printable ASCII without spaces, "
                "quotes, commas, semicolons and backslashes"
            )
    return items


def header_text(parameter: OpenAPIParameter, value: Any) -> str:
    """Return the text of a header. Raises ToolError for characters that a header cannot have, and for an item with the
    character that separates items."""
    if is_object(value):
        sign = "=" if parameter.explode else ","
        items = [(str(key), scalar(item)) for key, item in value.items()]
        _check_items(parameter, [text for item in items for text in item], ",")
        _check_items(parameter, [key for key, _ in items], sign)
        text = ",".join(f"{key}{sign}{item}" for key, item in items)
    elif is_list(value):
        parts = [*map(scalar, value)]
        _check_items(parameter, parts, ",")
        text = ",".join(parts)
    else:
        text = scalar(value)
    if any(not 32 <= ord(character) < 127 for character in text):
        raise ToolError(f"the header {parameter.name!r} cannot have the value {text[:100]!r}: use printable ASCII")
    return text


def _check_items(parameter: OpenAPIParameter, items: list[str], separator: str) -> None:
    if wrong := next((item for item in items if separator in item), None):
        raise ToolError(f"the header {parameter.name!r} cannot have the item {wrong[:100]!r}: it has {separator!r}")


def scalar(value: Any) -> str:
    """Return the text of a value without structure; structured values become JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return to_json(value).decode()


def _parts(value: Any, explode: bool, safe: str) -> list[str]:
    if is_list(value):
        return [quote(scalar(item), safe=safe) for item in value]
    if is_object(value):
        encoded = [(quote(str(key), safe=""), quote(scalar(item), safe=safe)) for key, item in value.items()]
        return [f"{key}={text}" for key, text in encoded] if explode else [part for entry in encoded for part in entry]
    return [quote(scalar(value), safe=safe)]


def _matrix(parameter: OpenAPIParameter, value: Any, separator: str) -> str:
    name = quote(parameter.name, safe="")
    if parameter.explode and is_list(value):
        return separator.join(f"{name}={text}" for text in _parts(value, False, ""))
    if parameter.explode and is_object(value):
        return separator.join(_parts(value, True, ""))
    return f"{name}={','.join(_parts(value, False, ''))}"


def _deep(name: str, value: Any, level: int) -> EncodedItems:
    if level > _MAX_LEVELS:
        raise ToolError(f"the parameter {name!r} has more than {_MAX_LEVELS} levels")
    if is_object(value):
        items = [(quote(str(key), safe=""), item) for key, item in value.items()]
    elif is_list(value):
        items = [(str(index), item) for index, item in enumerate(value)]
    else:
        return [(name, quote(scalar(value), safe=""))]
    return [entry for key, item in items for entry in _deep(f"{name}[{key}]", item, level + 1)]


def _leaves(value: Any) -> list[str]:
    """Return the texts that a path parameter consists of."""
    if is_object(value):
        return [text for key, item in value.items() for text in (str(key), scalar(item))]
    return [scalar(item) for item in value] if is_list(value) else [scalar(value)]


class APIRequest(NamedTuple):
    """A request without its origin: `target` is the path with the query, relative to the URL of the API."""

    method: str
    target: str
    headers: dict[str, str]
    content: bytes | None
    files: list[tuple[str, Any]] | None


class OperationArguments:
    """The arguments of an operation: its parameters and the properties of its body, with distinct names."""

    def __init__(self, operation: Operation, converter: SchemaConverter) -> None:
        """Name the arguments. A parameter whose name another argument has gets its location as a suffix."""
        self._operation = operation
        self._body_schema = self._body_properties(operation.body, converter)
        properties: Mapping[str, Any] = (self._body_schema or {}).get("properties") or {}
        self.body_names: dict[str, str] = {}
        for name in properties:
            self.body_names[self._free(name, "body", {})] = name
        self.body_name = self._free("body", "body", {}) if operation.body and self._body_schema is None else None
        self.parameters: dict[str, OpenAPIParameter] = {}
        for parameter in operation.parameters:
            self.parameters[self._free(parameter.name, parameter.location, self.parameters)] = parameter
        self.schema = usable(self._schema(converter))

    def request(self, arguments: Mapping[str, Any]) -> APIRequest:
        """Return the request for validated arguments. Raises ToolError for values that a request cannot have."""
        operation = self._operation
        path, query, headers, cookies = operation.path, EncodedItems(), dict[str, str](), list[str]()
        for argument, parameter in self.parameters.items():
            if argument not in arguments:
                continue
            value = arguments[argument]
            if parameter.content_type is not None:
                value = to_json(value).decode() if is_json_type(parameter.content_type) else scalar(value)
            if parameter.location == "path":
                path = path.replace(f"{{{parameter.name}}}", path_text(parameter, value).replace("{", "%7B"))
            elif parameter.location == "query":
                query += self._own(parameter, query_items(parameter, value))
            elif parameter.location == "header":
                headers[parameter.name] = header_text(parameter, value)
            elif parameter.location == "cookie":
                cookies += [f"{name}={text}" for name, text in self._own(parameter, cookie_items(parameter, value))]
        if cookies:
            headers["Cookie"] = "; ".join(cookies)
        if any(segment in (".", "..") for segment in path.split("/")):
            raise ToolError(f"the arguments give the path {path[:200]!r}, which leaves that of the operation")
        target = path + "".join(("?", "&".join(f"{name}={value}" for name, value in query))) if query else path
        content, files = self._content(arguments, headers)
        return APIRequest(operation.method, target, headers, content, files)

    def _own(self, parameter: OpenAPIParameter, items: EncodedItems) -> EncodedItems:
        """Return the items of a parameter. Raises ToolError if a key of an object is the name of another parameter."""
        for other in self._operation.parameters if parameter.explode else ():
            if other.location == parameter.location and other.name != parameter.name:
                if any(unquote(name) == other.name for name, _ in items):
                    raise ToolError(f"{parameter.name!r} cannot have the key {other.name!r}: it is another parameter")
        return items

    def _content(
        self, arguments: Mapping[str, Any], headers: dict[str, str]
    ) -> tuple[bytes | None, list[tuple[str, Any]] | None]:
        """Return the body, or the parts of a multipart body; set the content type."""
        body = self._operation.body
        if body is None:
            return None, None
        fields = {name: arguments[argument] for argument, name in self.body_names.items() if argument in arguments}
        value = fields if self.body_name is None else arguments.get(self.body_name)
        if value is None or (not value and self.body_name is None and not body.required):
            return None, None
        if body.content_type == _MULTIPART and is_object(value):
            return None, [(str(name), (None, scalar(item))) for name, item in value.items()]
        headers["Content-Type"] = body.content_type
        if body.content_type == _FORM and is_object(value):
            encoded = [entry for name, item in value.items() for entry in query_items(_field(body, str(name)), item)]
            return "&".join(f"{name}={text}" for name, text in encoded).encode(), None
        if is_json_type(body.content_type) or not isinstance(value, str):
            return to_json(value), None
        return value.encode(), None

    def _body_properties(self, body: RequestBody | None, converter: SchemaConverter) -> dict[str, Any] | None:
        """Return the object schema whose properties become arguments, None if the body is one argument or absent."""
        if body is None or not (is_json_type(body.content_type) or body.content_type in (_FORM, _MULTIPART)):
            return None
        return converter.merged_properties(body.schema)

    def _free(self, name: str, location: str, used: Mapping[str, Any]) -> str:
        base = _UNUSABLE.sub("_", name)[:_MAX_NAME] or location
        used_names = {*self.body_names, *used, *filter(None, [getattr(self, "body_name", None)])}
        if base not in used_names:
            return base
        base = f"{base[: _MAX_NAME - 10]}__{location}"
        return next(
            f"{base}{number or ''}"
            for number in range(len(used_names) + 1)
            if f"{base}{number or ''}" not in used_names
        )

    def _schema(self, converter: SchemaConverter) -> dict[str, Any]:
        body = self._operation.body
        sources: dict[str, Any] = {}
        required = [argument for argument, parameter in self.parameters.items() if parameter.required]
        for argument, parameter in self.parameters.items():
            sources[argument] = _described(parameter.schema, parameter.description)
        if self._body_schema is not None and body is not None:
            for argument, name in self.body_names.items():
                sources[argument] = self._body_schema["properties"][name]
                if name in self._body_schema["required"] and (body.required or not self._operation.parameters):
                    required.append(argument)
        elif body is not None and self.body_name is not None:
            sources[self.body_name] = _described(body.schema, body.description)
            required += [self.body_name] if body.required else []
        merged = {"type": "object", "properties": sources, "required": required, "additionalProperties": False}
        schema = converter.convert(merged, "readOnly", _MAX_DEFINITIONS)
        if not schema["required"]:
            del schema["required"]
        return schema


def _described(schema: Any, description: str | None) -> Any:
    return {**schema, "description": description} if description and is_object(schema) else schema


def _field(body: RequestBody, name: str) -> OpenAPIParameter:
    """Return the property of a form as a parameter of a query, which is encoded in the same way."""
    encoding = body.encoding.get(name)
    encoding = encoding if is_object(encoding) else {}
    style = str(encoding.get("style", "form"))
    return OpenAPIParameter(
        name=name,
        location="query",
        required=False,
        style=style,
        explode=bool(encoding.get("explode", style in ("form", "deepObject"))),
        schema=True,
        allow_reserved=encoding.get("allowReserved") is True,
    )


# Calls of the operations of an API: send the request, and read the response.


class APIClient:
    """The HTTP client of an API, with the URL that all requests stay below."""

    def __init__(self, client: Any) -> None:
        """Check a client. Raises LocalError for one that is not an `AsyncClient` of httpx with a base URL."""
        if not hasattr(client, "build_request") or not hasattr(client, "aclose"):
            raise LocalError(
                f"from_openapi(): client is a {type(client).__name__}; pass httpx2.AsyncClient(base_url=…)"
            )
        self._base = str(client.base_url)
        if not urlsplit(self._base).hostname:
            raise LocalError(
                'from_openapi(): the client has no base URL; write httpx2.AsyncClient(base_url="https://…")'
            )
        self._client = client

    async def send(self, request: APIRequest) -> Any:
        """Send a request, and return the response with a status of success.

        Raises ToolError if there is none, for another status, and for a request that would leave the base URL.
        """
        client = self._client
        name = f"{request.method} {request.target.partition('?')[0]}"
        built = client.build_request(
            request.method, request.target, headers=request.headers, content=request.content, files=request.files
        )
        sent, base = urlsplit(str(built.url)), urlsplit(self._base)
        expected = base.path.rstrip("/") + request.target.partition("?")[0]
        if (sent.scheme, sent.netloc) != (base.scheme, base.netloc) or sent.path != expected:
            raise ToolError(
                f"{name}: the request would be sent to {redact_url(str(built.url))[:200]!r}, outside of its path"
            )
        try:
            with without_secrets_in_logs():
                response = await client.send(built)
        except Exception as error:
            if not _is_transport_error(error):
                raise
            raise ToolError(f"{name}: no response: {type(error).__name__}: {error}") from None
        if not 200 <= response.status_code < 300:
            body = response.text[:_MAX_SHOWN]
            raise ToolError(f"{name}: HTTP {response.status_code} {response.reason_phrase}{': ' if body else ''}{body}")
        return response


class OperationCall:
    """An operation as the function of a tool or a resource."""

    def __init__(self, operation: Operation, arguments: OperationArguments, client: APIClient, t: ModuleType) -> None:
        self._arguments = arguments
        self._client = client
        self._t = t
        self._operation = operation
        self.output: CompiledSchema | None = None
        """Checks structured content; None for a tool without an output schema."""
        self.wraps = False
        """True if the structured content is an object with the value as `result`."""

    async def call(self, arguments: dict[str, Any]) -> Any:
        """Return the result of a tool: the JSON object of the response, or its text or other content.

        What the document describes is structured content. A response without content, with another media type, or with
        a status that the document does not describe is a success as well: the API has carried out the request. Raises
        ToolError for a response that contradicts the document.
        """
        response = await self._client.send(self._arguments.request(arguments))
        kind, value = read_response(response)
        if kind == "bytes":
            return self._success([self._media(response, value)])
        if kind == "text":
            return self._success([self._t.TextContent(text=value)] if value.strip() else [])
        if value is None and self.output is not None and not self.wraps:
            return self._success([])
        structured = value if is_object(value) and not self.wraps else {"result": value}
        text = self._t.TextContent(text=json.dumps(value, ensure_ascii=False))
        if self.output is None or (mismatch := self.output.first_error(structured)) is None:
            return self._t.CallToolResult(content=[text], structured_content=structured)
        if not any(known.describes(response.status_code) for known in self._operation.responses):
            return self._success([text])
        request = f"{self._operation.method} {response.request.url.path}: HTTP {response.status_code}"
        raise ToolError(
            f"{request}: the API has carried out the request, but its response does not match the document: {mismatch}"
        )

    def _success(self, content: list[Any]) -> Any:
        """Return a result without what the document describes; clients require structured content all the same."""
        structured = None if self.output is None else dict[str, Any]()
        return self._t.CallToolResult(content=content, structured_content=structured)

    async def read(self, arguments: Mapping[str, Any]) -> Any:
        """Return the content of a resource: text, bytes, or a JSON value."""
        _, value = read_response(await self._client.send(self._arguments.request(arguments)))
        return value

    def _media(self, response: Any, value: bytes) -> Any:
        blob = base64.b64encode(value).decode()
        mime_type = str(response.headers.get("content-type", "application/octet-stream")).partition(";")[0].strip()
        if mime_type.startswith("image/"):
            return self._t.ImageContent(data=blob, mime_type=mime_type)
        contents = self._t.BlobResourceContents(
            uri=redact_url(str(response.request.url)), blob=blob, mime_type=mime_type
        )
        return self._t.EmbeddedResource(resource=contents)


def read_response(response: Any) -> tuple[str, Any]:
    """Return the body of a response and its kind: "json", "text" or "bytes"."""
    content_type = str(response.headers.get("content-type", "")).lower()
    if is_json_type(content_type) and response.content:
        try:
            text = response.content.decode(json.detect_encoding(response.content))
            [[[[[[value]]]]]] = from_json(f"[[[[[[{text}]]]]]]")  # As deep as in a message.
        except ValueError:
            # It cannot be read, or not be sent: the request was carried out all the same.
            return "text", response.text
        return "json", value
    if not response.content or content_type.startswith(_TEXT_TYPES) or "+xml" in content_type:
        return "text", response.text
    return "bytes", response.content


def _is_transport_error(error: Exception) -> bool:
    """Return True for the errors of httpx, whichever of its packages the client is of."""
    return any(kind.__name__ == "RequestError" for kind in type(error).__mro__)
