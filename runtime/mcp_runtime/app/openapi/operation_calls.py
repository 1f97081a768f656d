"""Calls of the operations of an API: send the request, and read the response."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Final
from urllib.parse import urlsplit

from ...errors import LocalError, ToolError
from ...http.request_logs import without_secrets_in_logs
from ...http.urls import redact_url
from ...json_schema.validator import CompiledSchema
from ...protocol.models import is_object
from .api_requests import APIRequest, OperationArguments
from .openapi_document import Operation, is_json_type

_MAX_SHOWN: Final = 2000  # Characters of the body of an error response in the message.
_TEXT_TYPES: Final = ("text/", "application/xml", "application/javascript", "application/yaml", "application/x-yaml")


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
            return "json", response.json()
        except ValueError:
            return "text", response.text
    if not response.content or content_type.startswith(_TEXT_TYPES) or "+xml" in content_type:
        return "text", response.text
    return "bytes", response.content


def _is_transport_error(error: Exception) -> bool:
    """Return True for the errors of httpx, whichever of its packages the client is of."""
    return any(kind.__name__ == "RequestError" for kind in type(error).__mro__)
