"""Arguments that would lead a request of an API to another path, with the credentials of the client."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx2
import pytest
from support.servers.apis import document

from mcp_generated import App, MCPType, RemoteJSONRPCError, RouteMap

STRING: dict[str, Any] = {"type": "string"}
ATTACKS = [
    "../admin", "../../admin/users", "..%2fadmin", "%2e%2e%2fadmin", "%252e%252e%252fadmin", "..\\admin", "..", ".",
    "a/../../../admin", "/admin", "//evil.test/admin", "a/admin", "a%2fadmin", "..;/admin", "",
]  # fmt: skip
ENCODED = {"?admin=1": "%3Fadmin%3D1", "#admin": "%23admin", "a?x#y": "a%3Fx%23y", "a&b=c": "a%26b%3Dc",
        "{other}": "%7Bother%7D", "@evil.test": "%40evil.test", ";admin": "%3Badmin"}  # fmt: skip


class API(BaseHTTPRequestHandler):
    """An API that notes the targets of its requests, as they arrive."""

    targets: list[str]

    def do_GET(self) -> None:
        """Answer any request."""
        self.targets.append(self.path)
        body = b'{"ok":true}'
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Write nothing."""


@pytest.fixture
def api() -> Iterator[tuple[str, list[str]]]:
    """Return the base URL of an API, and the targets that it was asked for."""
    handler = type("Noting", (API,), {"targets": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1/", handler.targets
    server.shutdown()
    server.server_close()


def app(base: str, **settings: Any) -> App:
    """Return an app of an API with two parameters in its path."""
    parameters = [{"name": name, "in": "path", "required": True, "schema": STRING} for name in ("id", "other")]
    spec = document({"GET /notes/{id}/parts/{other}": {"operationId": "part", "parameters": parameters}})
    client = httpx2.AsyncClient(base_url=base, headers={"authorization": "Bearer of-the-app"})
    return App.from_openapi(spec, client, **settings)


@pytest.mark.long
@pytest.mark.advisory("CVE-2026-32871")
@pytest.mark.parametrize("place", ["id", "other"])
async def test_no_argument_of_a_tool_leads_to_another_path(api: Any, place: str) -> None:
    base, targets = api
    for value in ATTACKS:
        result = await app(base).call_tool("part", {"id": "a", "other": "b", place: value})
        assert result.is_error and "path" in result.content[0].text, value
    assert targets == []
    for value, encoded in ENCODED.items():
        arguments = {"id": "a", "other": "b", place: value}
        assert not (await app(base).call_tool("part", arguments)).is_error, value
        expected = {"id": "a", "other": "b", place: encoded}
        assert targets.pop() == f"/v1/notes/{expected['id']}/parts/{expected['other']}"


@pytest.mark.advisory("CVE-2026-32871")
async def test_no_uri_of_a_resource_leads_to_another_path(api: Any) -> None:
    base, targets = api
    served = app(base, route_maps=[RouteMap(mcp_type=MCPType.RESOURCE_TEMPLATE)])
    (template,) = await served.list_resource_templates()
    for value in ATTACKS:
        for place in ("{id}", "{other}"):
            uri = template.uri_template.replace(place, value).replace("{id}", "a").replace("{other}", "b")
            with pytest.raises(RemoteJSONRPCError):
                await served.read_resource(uri)
    for encoded in ENCODED.values():
        uri = template.uri_template.replace("{id}", encoded).replace("{other}", "b")
        await served.read_resource(uri)
        assert targets.pop() == f"/v1/notes/{encoded}/parts/b"
    assert targets == []
