"""An app inside of another application: mounted, with custom routes, with settings of the official SDK."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import httpx2
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from support.clients import connect

from mcp_generated import App, Context, LocalError
from mcp_generated.http import HTTPOptions

INITIALIZE = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
HEADERS = {"accept": "application/json, text/event-stream"}


def app_of(events: list[str] | None = None, **settings: Any) -> App:
    @asynccontextmanager
    async def lifespan(app: App) -> AsyncIterator[str]:
        (events if events is not None else []).append("start")
        yield "state"
        (events if events is not None else []).append("end")

    app = App("counter", lifespan=lifespan, **settings)

    @app.tool()
    async def state(ctx: Context) -> str:
        await ctx.progress(1, 2)
        return str(ctx.state)

    @app.custom_route("/health", methods=["GET"])
    async def health(request: Request) -> Response:
        return JSONResponse({"ok": request.method})

    return app


def browser(application: Any) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(application), base_url="http://localhost")


def request(method: str, params: dict[str, Any], id: int = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


async def initialize(client: httpx2.AsyncClient, url: str = "/mcp") -> httpx2.Response:
    return await client.post(url, json=request("initialize", INITIALIZE), headers=HEADERS)


def in_fastapi(app: App) -> Any:
    web = FastAPI()
    web.add_route("/mcp", app.asgi())
    return web


def in_starlette(app: App) -> Any:
    return Starlette(routes=[Route("/mcp", app.asgi())])


def below_a_mount(app: App) -> Any:
    return Starlette(routes=[Mount("/outer", Starlette(routes=[Route("/mcp", app.asgi())]))])


@pytest.mark.parametrize(("put", "url"), [(in_fastapi, "/mcp"), (in_starlette, "/mcp"), (below_a_mount, "/outer/mcp")])
async def test_the_path_of_a_route_costs_no_redirect(put: Callable[[App], Any], url: str) -> None:
    async with browser(put(app_of())) as client:
        response = await initialize(client, url)
        assert (response.status_code, response.json()["result"]["serverInfo"]["name"]) == (200, "counter")


async def test_a_mount_redirects_as_each_does_and_our_client_follows() -> None:
    web = Starlette(routes=[Mount("/mcp", app_of().asgi())])
    async with browser(web) as client:
        redirect = await initialize(client)
        assert (redirect.status_code, redirect.headers["location"]) == (307, "http://localhost/mcp/")
        assert (await initialize(client, "/mcp/")).status_code == 200
        async with connect("http://localhost/mcp", http=HTTPOptions(client=client)) as ours:
            assert (await ours.call_tool("state", {})).content[0].text == "state"


async def test_the_lifespan_starts_with_the_first_request_of_a_mounted_app() -> None:
    events: list[str] = []
    async with browser(in_fastapi(app_of(events))) as client:
        async with connect("http://localhost/mcp", http=HTTPOptions(client=client)) as ours:
            assert (await ours.call_tool("state", {})).content[0].text == "state"
    assert events == ["start"]


async def test_the_lifespan_of_the_official_sdks_examples_starts_and_ends_it() -> None:
    events: list[str] = []
    app = app_of(events)

    @asynccontextmanager
    async def lifespan(web: Starlette) -> AsyncIterator[None]:
        async with app.session_manager.run():
            yield

    web = Starlette(routes=[Mount("/", app.streamable_http_app())], lifespan=lifespan)
    async with web.router.lifespan_context(web):
        assert events == ["start"]
        async with browser(web) as client:
            assert (await initialize(client)).status_code == 200
            assert (await client.get("/health")).json() == {"ok": "GET"}
            assert (await client.post("/health")).status_code == 405
    assert events == ["start", "end"]


async def test_the_lifespan_of_an_http_app_can_be_passed_on() -> None:
    events: list[str] = []
    mcp_app = app_of(events).http_app(path="/mcp")
    web = FastAPI(lifespan=mcp_app.lifespan)
    web.mount("/llm", mcp_app)
    async with web.router.lifespan_context(web):
        async with browser(web) as client:
            assert (await initialize(client, "/llm/mcp")).status_code == 200
    assert events == ["start", "end"]


async def test_custom_routes_are_served_by_each_way_to_serve() -> None:
    app = app_of()
    for application in (app.asgi(path="/mcp"), app.asgi(), app.streamable_http_app(), app.http_app(), app.sse_app()):
        async with browser(application) as client:
            assert (await client.get("/health")).json() == {"ok": "GET"}
            assert (await initialize(client)).status_code == 200


async def test_custom_routes_are_served_beside_those_of_the_call() -> None:
    app = app_of()

    async def more(request: Request) -> Response:
        return JSONResponse({"more": True})

    routes = [Route("/more", more)]
    for application in (app.asgi(routes=routes), app.http_app(routes=routes)):
        async with browser(application) as client:
            assert (await client.get("/health")).json() == {"ok": "GET"}
            assert (await client.get("/more")).json() == {"more": True}


async def test_the_endpoint_keeps_its_path_beside_a_route_for_all_paths() -> None:
    app = app_of()

    @app.custom_route("/{page:path}", methods=["GET"])
    async def page(request: Request) -> Response:
        return JSONResponse({"page": request.path_params["page"]})

    for application in (app.asgi(path="/mcp"), app.streamable_http_app(), app.http_app()):
        async with browser(application) as client:
            assert (await client.get("/index.html")).json() == {"page": "index.html"}
            assert (await initialize(client)).status_code == 200


def test_routes_that_are_none_are_refused() -> None:
    app, wrong = App("routes"), cast(Any, 5)
    with pytest.raises(LocalError, match=r"asgi\(\): routes must be a list of Starlette routes, .*; 5 is not"):
        app.asgi(routes=wrong)
    with pytest.raises(LocalError, match=r"custom_route\(\): '/x' needs a function, not 5"):
        app.custom_route("/x", methods=["GET"])(wrong)


async def test_a_custom_route_needs_no_token_and_no_host() -> None:
    async with browser(app_of().asgi(path="/mcp")) as client:
        assert (await client.get("/health", headers={"host": "pod.internal"})).status_code == 200
        assert (await client.get("/other")).status_code == 404


async def test_an_error_of_a_custom_route_is_an_error_of_that_route() -> None:
    app = app_of()

    @app.custom_route("/broken", methods=["GET"])
    async def broken(request: Request) -> Response:
        from starlette.exceptions import HTTPException

        raise HTTPException(418)

    async with browser(app.asgi(path="/mcp")) as client:
        assert (await client.get("/broken")).status_code == 418


def test_session_manager_exists_when_an_http_application_does() -> None:
    with pytest.raises(LocalError, match=r"call app\.streamable_http_app\(\) first"):
        _ = App("x").session_manager


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: App("x", log_level="LOUD"), "log_level='LOUD' is not a level; use one of DEBUG"),
        (lambda: App("x", streamable_http_path="mcp"), "streamable_http_path='mcp' must begin with"),
        (lambda: App("x", sse_path="/events"), r'HTTP\+SSE is served at /sse and /messages; write run\("sse"\)'),
        (lambda: App("x", dependencies="httpx"), r"write \['httpx'\]"),
        (lambda: App("x").sse_app("/x"), r"web\.mount\('/x', app\.sse_app\(\)\)"),
        (lambda: App("x").custom_route("x", methods=["GET"]), 'must begin with "/"'),
        (lambda: App("x").custom_route("/mcp", methods=["GET"]), "'/mcp' is the path of the MCP endpoint; choose"),
        (lambda: App("x").custom_route("/x", methods="GET"), r"write methods=\['GET'\]"),
        (lambda: App("x").run("websocket"), "there is no transport 'websocket'"),
        (lambda: App("x").run("http", port=70_000), "port must be a whole number from 0 to 65535"),
    ],
)
def test_a_setting_that_cannot_be_served_is_refused_with_the_line_to_write(
    wrong: Callable[[], Any], message: str
) -> None:
    with pytest.raises(LocalError, match=message) as caught:
        wrong()
    assert str(caught.value).count("\n") < 2


@pytest.mark.parametrize("call", ["run", "asgi", "streamable_http_app", "http_app", "sse_app"])
def test_an_unknown_setting_is_a_type_error(call: str) -> None:
    arguments = ["http"] if call == "run" else []
    with pytest.raises(TypeError, match="colour"):
        getattr(App("x"), call)(*arguments, colour="red")
    with pytest.raises(TypeError, match="colour"):
        App("x", **{"colour": "red"})


async def test_json_response_opens_no_stream() -> None:
    called = request("tools/call", {"name": "state", "arguments": {}, "_meta": {"progressToken": 1}}, 2)
    for settings, expected in (({}, "text/event-stream"), ({"json_response": True}, "application/json")):
        async with browser(app_of(**settings).asgi()) as client:
            session = (await initialize(client)).headers["mcp-session-id"]
            headers = {**HEADERS, "mcp-session-id": session, "mcp-protocol-version": "2025-06-18"}
            await client.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers)
            response = await client.post("/mcp", json=called, headers=headers)
            assert response.headers["content-type"] == expected
            assert "state" in response.text
        async with browser(app_of(**settings).asgi()) as client:
            meta = {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {},
                "progressToken": 1,
            }
            stateless = request("tools/call", {"name": "state", "arguments": {}, "_meta": meta})
            headers = {**HEADERS, "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "state"}
            response = await client.post("/mcp", json=stateless, headers=headers)
            assert response.headers["content-type"] == expected


@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18", "2025-11-25"])
async def test_stateless_http_serves_requests_without_a_session(version: str) -> None:
    processes = [app_of(stateless_http=True).asgi() for _ in range(2)]
    for first, second in (processes, [*reversed(processes)]):
        async with browser(first) as one, browser(second) as other:
            response = await one.post(
                "/mcp", json=request("initialize", {**INITIALIZE, "protocolVersion": version}), headers=HEADERS
            )
            assert response.json()["result"]["protocolVersion"] == version
            assert "mcp-session-id" not in response.headers
            headers = {**HEADERS, "mcp-protocol-version": version}
            initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            assert (await other.post("/mcp", json=initialized, headers=headers)).status_code == 202
            called = await other.post(
                "/mcp", json=request("tools/call", {"name": "state", "arguments": {}}), headers=headers
            )
            assert json.loads(called.text)["result"]["content"][0]["text"] == "state"
            for method in ("GET", "DELETE"):
                assert (await one.request(method, "/mcp", headers=headers)).status_code == 405


IDENTITY = {
    "title": "Counter",
    "description": "Counts.",
    "website_url": "https://example.com",
    "icons": [{"src": "https://example.com/i.png"}],
}
SHOWN = {
    "2024-11-05": {"name", "version"},
    "2025-03-26": {"name", "version"},
    "2025-06-18": {"name", "version", "title"},
    "2025-11-25": {"name", "version", "title", "description", "websiteUrl", "icons"},
}


@pytest.mark.parametrize("version", SHOWN)
async def test_a_client_sees_the_identity_that_its_revision_has(version: str) -> None:
    async with browser(app_of(**IDENTITY).asgi()) as client:
        response = await client.post(
            "/mcp", json=request("initialize", {**INITIALIZE, "protocolVersion": version}), headers=HEADERS
        )
    info = response.json()["result"]["serverInfo"]
    assert info.keys() == SHOWN[version]
    assert {key: info[key] for key in ("title", "description", "icons") if key in info} == {
        key: value for key, value in IDENTITY.items() if key in info
    }


async def test_a_client_of_the_newest_revision_sees_the_whole_identity() -> None:
    app = app_of(**IDENTITY)
    async with connect(app.server) as client:
        info = client.server.meta.server_info
    assert (info.title, info.description, info.website_url) == ("Counter", "Counts.", "https://example.com")
    assert info.icons[0].src == "https://example.com/i.png"
