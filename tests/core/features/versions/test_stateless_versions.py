"""Several stateless versions beside each other: each message is served in the version that it names, over each
transport, and a client chooses the newest version that both sides have."""

from __future__ import annotations

import asyncio
import sys
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.endpoints import Wire, hello
from support.http.in_process import asking
from support.matrices import long_after
from support.peers import once, run_folder
from support.schemas.draft_packages import Types, import_package, write_package
from support.schemas.drafts import TEXT

from mcp_products.relay.bridge.service import Bridge
from mcp_products.relay.upstream.target import Target
from mcp_products.versions.adapters import server_candidates
from mcp_runtime.errors import LocalError
from mcp_runtime.server.service import service_candidates
from mcp_runtime.session.requests import RequestOptions
from mcp_runtime.session.serving import serve
from mcp_runtime.transports.memory import MemoryTransport, connect_in_memory, linked_transports
from mcp_runtime.transports.stdio.client import start_server

OLD, RELEASE, DRAFT, LATER = "2025-11-25", "2026-07-28", "draft", "draft-2"
STATELESS = [RELEASE, DRAFT, LATER]
PREFIX = "io.modelcontextprotocol/"
UNSUPPORTED = -32022
pytestmark = pytest.mark.long  # A package of three versions and two drafts is written for these tests.
# What the list of tools shows of the version in which it was served.
SHADES = {OLD: [], RELEASE: [], DRAFT: ["shade"], LATER: ["shade", "tone"]}


def shade(types: Types) -> None:
    types["Tool"]["properties"]["shade"] = TEXT


def tone(types: Types) -> None:
    types["Tool"]["properties"]["tone"] = TEXT


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a package of the releases and two drafts, each with its own property; all processes share it."""
    folder = run_folder(tmp_path_factory) / "several-stateless"

    def write() -> str:
        folder.mkdir()
        write_package(folder, "several_stateless", {DRAFT: [shade], LATER: [tone]})
        (folder / "shaded.py").write_text(textwrap.dedent(SERVER))
        return str(folder)

    return Path(once(tmp_path_factory, "several-stateless", write))


@pytest.fixture(scope="module")
def package(folder: Path) -> ModuleType:
    return import_package(folder, "several_stateless")


SERVER = """
    import asyncio
    from several_stateless.vdraft_2 import Server, types as t

    class Shaded(Server):
        async def list_tools(self, ctx, params):
            schema = t.ToolInputSchema()
            return t.ListToolsResult(tools=[t.Tool(name="wait", input_schema=schema, shade="red", tone="low")])

        async def call_tool(self, ctx, params):
            arguments = params.arguments or {}
            await ctx.progress(1)
            if arguments.get("wait"):
                await asyncio.sleep(3600)
            await self.notify_tool_list_changed()
            return t.CallToolResult(content=[t.TextContent(text=str(arguments.get("say")))])

    server = Shaded(name="shaded", version="1", capabilities={"tools": {"listChanged": True}})
    if __name__ == "__main__":
        import sys
        server.run("stdio", revisions=sys.argv[1].split(",") if sys.argv[1:] else "all")
"""


@pytest.fixture
def server(package: ModuleType) -> Any:
    space: dict[str, Any] = {"__name__": "shaded"}
    exec(textwrap.dedent(SERVER), space)
    return space["server"]


@pytest.fixture(scope="module")
def program(folder: Path, package: ModuleType) -> tuple[str, ...]:
    # Windows has no `env` for the variables of a program.
    start = f"import runpy, sys; sys.path[:] = {[str(folder), *sys.path]!r}; "
    return sys.executable, "-c", f"{start}runpy.run_path({str(folder / 'shaded.py')!r}, run_name='__main__')"


def meta(version: Any, **more: Any) -> dict[str, Any]:
    named = {"protocolVersion": version, "clientInfo": {"name": "raw", "version": "1"}, "clientCapabilities": {}}
    return {PREFIX + name: value for name, value in named.items()} | more


def request(id: Any, version: Any, method: str = "tools/list", **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": {**params, "_meta": meta(version)}}


def shades(answer: dict[str, Any]) -> list[str]:
    (tool,) = answer["result"]["tools"]
    return [name for name in ("shade", "tone") if name in tool]


# ---- raw clients over each transport that has connections -----------------------------------------------------------


@asynccontextmanager
async def in_memory(candidates: Any) -> AsyncIterator[Wire]:
    ours, theirs = linked_transports(MemoryTransport)
    serving = asyncio.create_task(serve(candidates, theirs))
    try:
        yield Wire(ours)
    finally:
        await ours.close()
        await asyncio.wait_for(serving, 20)


@asynccontextmanager
async def over_stdio(command: tuple[str, ...]) -> AsyncIterator[Wire]:
    transport: Any = start_server(command, None, None, None)
    try:
        yield Wire(transport)
    finally:
        await transport.close()


def bridge_to(program: tuple[str, ...], package: ModuleType) -> Any:
    return Bridge(Target(command=program), package.__name__).candidates()


@asynccontextmanager
async def connected(over: str, server: Any, program: tuple[str, ...], package: ModuleType) -> AsyncIterator[Wire]:
    """A raw client of a server of all versions."""
    if over == "stdio":
        async with over_stdio(program) as wire:
            yield wire
    else:
        candidates = service_candidates(server_candidates(server))
        async with in_memory(candidates if over == "memory" else bridge_to(program, package)) as wire:
            yield wire


CONNECTIONS = pytest.mark.parametrize("over", long_after(1, ["memory", "stdio", "bridge"]))


@CONNECTIONS
@pytest.mark.parametrize("first", [*STATELESS, OLD])
async def test_each_request_of_a_connection_is_served_in_the_version_that_it_names(
    over: str, first: str, server: Any, program: tuple[str, ...], package: ModuleType
) -> None:
    async with connected(over, server, program, package) as wire:
        if first == OLD:
            assert (await wire.request(hello(OLD)))["result"]["protocolVersion"] == OLD
            wire.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
            plain = {"jsonrpc": "2.0", "id": "plain", "method": "tools/list"}
            assert shades(await wire.request(plain)) == []
        for round, version in enumerate([first] * (first != OLD) + [*STATELESS, *reversed(STATELESS)]):
            answer = await wire.request(request(round, version))
            assert shades(answer) == SHADES[version] and answer["result"]["resultType"] == "complete"
        if first == OLD:
            again = await wire.request({"jsonrpc": "2.0", "id": "again", "method": "tools/list"})
            assert shades(again) == [] and "resultType" not in again["result"]


@CONNECTIONS
@pytest.mark.parametrize("first", STATELESS)
async def test_a_version_that_is_not_served_is_refused_with_those_that_are_and_a_handshake_may_follow(
    over: str, first: str, server: Any, program: tuple[str, ...], package: ModuleType
) -> None:
    async with connected(over, server, program, package) as wire:
        for unknown in ("2099-01-01", "", OLD):
            refused = (await wire.request(request("x", unknown)))["error"]
            assert refused["code"] == UNSUPPORTED and refused["data"]["supported"] == STATELESS
        assert shades(await wire.request(request(1, first))) == SHADES[first]
        refused = (await wire.request(request(2, "2099-01-01", "server/discover")))["error"]
        assert refused["data"] == {"supported": STATELESS, "requested": "2099-01-01"}
        assert (await wire.request(hello(OLD)))["result"]["protocolVersion"] == OLD
        wire.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        answer = await wire.request({"jsonrpc": "2.0", "id": 3, "method": "tools/list", "params": {}})
        assert shades(answer) == [] and "resultType" not in answer["result"]
        assert shades(await wire.request(request(4, LATER))) == SHADES[LATER]


@CONNECTIONS
async def test_discovery_names_all_stateless_versions_in_each_of_them(
    over: str, server: Any, program: tuple[str, ...], package: ModuleType
) -> None:
    async with connected(over, server, program, package) as wire:
        for version in STATELESS:
            found = (await wire.request(request(version, version, "server/discover")))["result"]
            assert found["supportedVersions"] == STATELESS


@pytest.mark.parametrize("over", ["memory", "stdio"])
async def test_requests_of_two_versions_run_at_the_same_time_and_are_cancelled_by_their_ids(
    over: str, server: Any, program: tuple[str, ...], package: ModuleType
) -> None:
    async with connected(over, server, program, package) as wire:
        for version in STATELESS:
            wire.send(request(version, version, "tools/call", name="wait", arguments={"wait": True}))
        for version in STATELESS:  # The id belongs to a request of another version that still runs.
            other = RELEASE if version != RELEASE else DRAFT
            refused = await wire.request(request(version, other))
            assert refused["error"]["code"] == -32600 and "in use" in refused["error"]["message"]
        for version in reversed(STATELESS):
            cancelled = {"requestId": version}
            wire.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled})
        for version in STATELESS:  # A cancelled request has no answer, and its id is free.
            assert shades(await wire.request(request(version, version))) == SHADES[version]


@pytest.mark.parametrize("over", ["memory", "stdio"])
async def test_subscriptions_of_each_version_get_the_changes(
    over: str, server: Any, program: tuple[str, ...], package: ModuleType
) -> None:
    async with connected(over, server, program, package) as wire:
        wanted = {"notifications": {"toolsListChanged": True}}
        for version in STATELESS:
            wire.send(request(version, version, "subscriptions/listen", **wanted))
            acknowledged = await wire.receive()
            assert acknowledged["params"]["_meta"][f"{PREFIX}subscriptionId"] == version
        wire.send(request("call", RELEASE, "tools/call", name="say", arguments={"say": "it"}))
        received = [await wire.receive() for _ in range(len(STATELESS) + 1)]
        told = {
            item["params"]["_meta"][f"{PREFIX}subscriptionId"]
            for item in received
            if item.get("method") == "notifications/tools/list_changed"
        }
        assert told == set(STATELESS)


@pytest.mark.parametrize("version", STATELESS)
async def test_http_serves_each_request_in_its_version(version: str, server: Any) -> None:
    app = server.asgi()
    async with asking(app) as web:
        for named in (version, "2099-01-01"):
            headers = {"MCP-Protocol-Version": named, "Mcp-Method": "tools/list", "accept": "application/json"}
            answer = (await web.post("/mcp", json=request(1, named), headers=headers)).json()
            if named == version:
                assert shades(answer) == SHADES[version]
            else:
                assert answer["error"]["code"] == UNSUPPORTED and answer["error"]["data"]["supported"] == STATELESS
    await app.close()


# ---- what a client chooses ------------------------------------------------------------------------------------------

SERVED = [[RELEASE], [DRAFT], [LATER], [RELEASE, DRAFT], [OLD], [OLD, RELEASE], [OLD, DRAFT], [OLD, RELEASE, LATER]]


@pytest.mark.parametrize("served", SERVED, ids=",".join)
@pytest.mark.parametrize("over", long_after(1, ["memory", "stdio", "http"]))
@pytest.mark.parametrize("own", ["v2026_07_28", "vdraft", "vdraft_2"])
async def test_a_client_speaks_the_newest_version_of_both(
    own: str, over: str, served: list[str], server: Any, program: tuple[str, ...], package: ModuleType
) -> None:
    client_class = __import__(f"{package.__name__}.{own}", fromlist=["Client"]).Client
    app: Any = None
    if over == "stdio":
        client = client_class.stdio(*program, ",".join(served), revisions="all")
    elif over == "memory":
        client = client_class(connect_in_memory(service_candidates(server_candidates(server, served))), revisions="all")
    else:
        from mcp_generated import HTTPOptions

        app = server.asgi(revisions=served)
        options = HTTPOptions(client=asking(app))
        client = client_class.http("http://localhost/mcp", http=options, revisions="all")
    heard: list[float] = []
    async with client:
        (tool,) = (await client.list_tools()).tools
        result = await client.call_tool(
            "say",
            {"say": "red"},
            options=RequestOptions(on_progress=lambda progress: heard.append(progress.progress)),
        )
        assert type(tool).__module__.split(".")[1] == own and result.content[0].text == "red" and heard == [1]
        shown = [name for name in ("shade", "tone") if getattr(tool, name, None)]
        carried = {"v2026_07_28": [], "vdraft": ["shade"], "vdraft_2": ["shade", "tone"]}[own]
        assert shown == [name for name in carried if name in SHADES[served[-1]]]
        if isinstance(versions := getattr(client.server, "supported_versions", None), list):
            assert versions[-1] == served[-1]
    if app is not None:
        await app.close()


@pytest.mark.parametrize("told", ["list", "nothing", "result"])
async def test_a_client_tries_an_older_stateless_version_of_a_server_of_another_project(
    told: str, package: ModuleType
) -> None:
    """The error lists what the server has, or it lists nothing, or the server answers in a version of its own."""
    from several_stateless.vdraft_2 import Client  # type: ignore[import-not-found]

    ours, theirs = linked_transports(MemoryTransport)

    async def answer() -> list[str]:
        versions: list[str] = []
        wire = Wire(ours)
        while (message := await wire.receive()) is not None:
            version = message["params"]["_meta"][f"{PREFIX}protocolVersion"]
            versions.append(version)
            found = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "capabilities": {}}
            found |= {"supportedVersions": [RELEASE], "_meta": {}}
            if version == RELEASE or told == "result":
                wire.send({"jsonrpc": "2.0", "id": message["id"], "result": found})
                continue
            data = {"data": {"supported": [RELEASE], "requested": version}} if told == "list" else {}
            error = {"code": UNSUPPORTED, "message": "no", **data}
            wire.send({"jsonrpc": "2.0", "id": message["id"], "error": error})
        return versions

    async def connect() -> Any:
        return theirs

    peer: asyncio.Task[list[str]] = asyncio.create_task(answer())
    async with Client(connect, revisions="all") as client:
        assert client.server.supported_versions == [RELEASE]
    assert (
        await peer == {"list": [LATER, RELEASE], "nothing": [LATER, DRAFT, RELEASE], "result": [LATER, RELEASE]}[told]
    )


async def test_a_client_of_one_version_names_it_when_the_server_has_others(server: Any, package: ModuleType) -> None:
    from several_stateless.vdraft import Client  # type: ignore[import-not-found]

    served = service_candidates(server_candidates(server, [RELEASE, LATER]))
    with pytest.raises(LocalError, match=r"does not support draft"):
        async with Client(connect_in_memory(served)):
            pass


async def test_a_server_whose_lifespan_fails_answers_the_messages_that_wait_for_it(package: ModuleType) -> None:
    """Servers of two versions have a lifespan each: that of the second begins with the first message for it."""
    from several_stateless import v2026_07_28, vdraft  # type: ignore[import-not-found]

    from mcp_runtime.bindings.server import services_of

    began: list[str] = []

    class Failing(vdraft.Server):  # type: ignore[misc]
        @asynccontextmanager
        async def lifespan(self) -> AsyncIterator[None]:
            began.append("failing")
            raise OSError("no database")
            yield

    class Lasting(vdraft.Server):  # type: ignore[misc]
        @asynccontextmanager
        async def lifespan(self) -> AsyncIterator[str]:
            began.append("begun")
            await asyncio.sleep(0)
            yield "state"
            began.append("ended")

        async def list_tools(self, ctx: Any, params: Any) -> Any:
            assert ctx.state == "state"
            return vdraft.types.ListToolsResult(tools=[])

    older = v2026_07_28.Server(name="older", version="1")
    async with in_memory(services_of((older, Failing(name="newer", version="1")))) as wire:
        assert "result" in await wire.request(request(1, RELEASE, "server/discover"))
        refused = await wire.request(request(2, DRAFT, "server/discover"))
        assert refused["error"] == {"code": -32603, "message": "internal error"}
    async with in_memory(services_of((older, Lasting(name="newer", version="1")))) as wire:
        assert "result" in await wire.request(request(1, RELEASE, "server/discover"))
        assert (await wire.request(request(2, DRAFT)))["result"]["tools"] == []
        assert (await wire.request(request(3, DRAFT)))["result"]["tools"] == []
    assert began == ["failing", "begun", "ended"]
