"""A server that does not list what it has, or does not end to, costs nobody but itself."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import pytest
from support.clients import connect
from support.project import SERVERS

from mcp_generated import App, Gateway, MultiClient, RemoteJSONRPCError
from mcp_generated.v2025_06_18 import Client
from mcp_generated.v2025_06_18 import types as t
from mcp_products.host import multi_client
from mcp_products.host.multi_client import ListedPages, ListLimits
from mcp_products.relay.proxy.provider import ProxyProvider
from mcp_products.versions.adapters import server_candidates
from mcp_runtime.errors import RemoteError

pytestmark = pytest.mark.deadline(120)

WAYWARD = str(SERVERS / "wayward.py")
LISTS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resource_templates",
}
WRONG = {
    "hangs": "has not listed its {} within 2 s",
    "endless": "has more than 1,000 pages",
    "circle": "repeats the cursor 'a'",
    "many": "has more than 10,000 items",
    "big": "has more than 16,777,216 bytes",
    "fails": "out of order",
}


def patience(wrong: str) -> float:
    """The seconds for a list: few for one that never comes, and more than a slow machine needs for the others."""
    return 2.0 if wrong == "hangs" else 100.0


def server(wrong: str = "nothing", method: str = "", **more: Any) -> dict[str, Any]:
    """The table of a server that does something wrong."""
    return {"command": sys.executable, "args": [WAYWARD, wrong, method or "-"], **more}


async def ids(client: Any, kind: str) -> list[str]:
    """The names or URIs of a list."""
    field = {"resources": "uri", "resource_templates": "uri_template"}.get(kind, "name")
    return [getattr(item, field) async for item in getattr(client, f"iter_{kind}")()]


OWN = {
    "tools": ["good_own"],
    "prompts": ["good_own"],
    "resources": ["note://good/own"],
    "resource_templates": ["all://good/own/{x}"],
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("method", LISTS)
async def test_the_others_are_listed_and_called_and_the_server_is_named(
    wrong: str, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    kind = LISTS[method]
    gateway = Gateway(
        {"upstreams": {"good": server(list_timeout=100), "bad": server(wrong, method, list_timeout=patience(wrong))}}
    )
    async with connect(gateway.app) as client, asyncio.timeout(110):
        listing = asyncio.ensure_future(ids(client, kind))
        called: Any = await client.call_tool("good_own", {})
        assert called.content[0].text == "called own"
        assert await listing == OWN[kind]
        (line,) = [text for text in caplog.messages if "left out" in text]
        assert f"the {kind} of <proxy 'bad'>" in line and WRONG[wrong].format(kind) in line
        assert gateway.health() == {
            "status": "degraded",
            "upstreams": {"good": "ok", "bad": "failed"},
            "circuits": {"good": "closed", "bad": "closed"},
        }
        if kind != "tools":
            assert (await client.call_tool("bad_own", {})).content[0].text == "called own"  # type: ignore[union-attr]
        assert gateway.health()["upstreams"]["bad"] == "failed", "the list is missing still"


@pytest.mark.parametrize("method", ["initialize", "notifications/none"])
async def test_a_server_that_never_opens_is_left_out(method: str, caplog: pytest.LogCaptureFixture) -> None:
    wrong = "hangs" if method == "initialize" else "nothing"
    gateway = Gateway(
        {"upstreams": {"good": server(list_timeout=100), "bad": server(wrong, method, list_timeout=patience(wrong))}}
    )
    async with connect(gateway.app) as client, asyncio.timeout(110):
        found = await ids(client, "tools")
        assert found == (["good_own"] if wrong == "hangs" else ["good_own", "bad_own"])
        assert gateway.health()["upstreams"]["bad"] == ("failed" if wrong == "hangs" else "ok")


async def test_clients_are_told_when_a_server_that_was_left_out_has_opened() -> None:
    slow = (
        "import time, runpy, sys; time.sleep(4); sys.argv = sys.argv[:1]; "
        f"runpy.run_path({WAYWARD!r}, run_name='__main__')"
    )
    late = {"command": sys.executable, "args": ["-c", slow], "list_timeout": 0.5}
    gateway = Gateway({"upstreams": {"good": server(), "late": late}})
    async with Client.memory(*server_candidates(gateway.app.server, "all")) as client, asyncio.timeout(110):
        async with client.listen() as changes:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["good_own"]
            async for change in changes:
                if "tools" in change.method:
                    break
        assert {tool.name for tool in (await client.list_tools()).tools} == {"good_own", "late_own"}


@pytest.mark.parametrize("method", ["completion/complete", "resources/subscribe", "logging/setLevel", "tools/call"])
async def test_a_request_that_a_server_never_answers_keeps_nobody_else_waiting(method: str) -> None:
    bad = server("hangs", method, list_timeout=1, timeout=1)
    gateway = Gateway({"upstreams": {"good": server(), "bad": bad}})
    async with Client.memory(*server_candidates(gateway.app.server, "all")) as client, asyncio.timeout(110):
        # The log level of a session is set before its first request.
        assert len((await client.list_tools()).tools) == (1 if method == "logging/setLevel" else 2)
        for name in ("good", "bad"):
            requests = {
                "completion/complete": lambda name=name: client.complete(
                    t.PromptReference(name=f"{name}_own"), t.CompletionArgument(name="a", value="")
                ),
                "resources/subscribe": lambda name=name: client.subscribe(f"note://{name}/own"),
                "logging/setLevel": lambda: client.set_level("error"),
                "tools/call": lambda name=name: client.call_tool(f"{name}_own", {}),
            }
            if name == "good" or method == "logging/setLevel":
                await requests[method]()
            else:
                with pytest.raises(RemoteJSONRPCError, match="'bad' has not answered within 1 s"):
                    await requests[method]()


@pytest.mark.parametrize("order", [("good", "bad"), ("bad", "good")], ids=["last", "first"])
async def test_a_url_that_several_servers_may_have_waits_for_those_before_its_server_only(
    order: tuple[str, ...],
) -> None:
    shown = "import sys; from mcp_generated import App; app = App('x'); "
    shown += "app.add_resource('https://docs.example/one', lambda: 'one', name='one'); app.run()"
    seconds = 1 if order[0] == "bad" else 1000
    upstreams = {
        "good": {"command": sys.executable, "args": ["-c", shown], "list_timeout": 100},
        "bad": server("hangs", "resources/list", list_timeout=seconds),
    }
    gateway = Gateway({"upstreams": {name: upstreams[name] for name in order}})
    async with connect(gateway.app) as client, asyncio.timeout(110):
        for _ in range(2):
            read = await client.read_resource("https://docs.example/one")
            assert read.contents[0].text == "one"  # type: ignore[union-attr]


@pytest.mark.long
async def test_a_storm_of_changes_is_passed_on_as_few() -> None:
    gateway = Gateway({"upstreams": {"good": server("changes", "tools/list")}})
    seen = 0
    async with Client.memory(*server_candidates(gateway.app.server, "all")) as client, asyncio.timeout(110):
        async with client.listen() as changes:
            began = time.monotonic()
            await client.list_tools()
            async for _ in changes:
                seen += 1
                if time.monotonic() - began > 2:
                    break
                await client.call_tool("good_own", {})
                await client.list_tools()
    assert seen < 50


# ---- the same in apps and clients of several servers ----------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("wrong", WRONG)
async def test_an_app_with_several_proxies_lists_the_others(
    wrong: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ProxyProvider, "limits", ListLimits(seconds=5 if wrong == "hangs" else 100))
    app = App.proxy({"mcpServers": {"good": server(), "bad": server(wrong, "tools/list")}})
    async with connect(app) as client, asyncio.timeout(110):
        assert await ids(client, "tools") == ["good_own"]
        assert (await client.call_tool("good_own", {})).content[0].text == "called own"  # type: ignore[union-attr]
    assert any(
        "left out" in text and WRONG[wrong].format("tools").replace("2 s", "5 s") in text for text in caplog.messages
    )


@pytest.mark.long
@pytest.mark.parametrize("wrong", ["hangs", "many", "endless"])
async def test_a_client_of_several_servers_lists_the_others(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multi_client, "_LIST_SECONDS", 5.0 if wrong != "many" else 100.0)
    targets: Any = {name: [sys.executable, WAYWARD, *words] for name, words in
                    {"good": (), "bad": (wrong, "tools/list")}.items()}  # fmt: skip
    async with MultiClient(targets) as client, asyncio.timeout(110):
        assert [tool.name for tool in await client.list_tools()] == ["good_own"]
        assert "bad" in client.errors and "good" not in client.errors


# ---- the limits -----------------------------------------------------------------------------------------------------


class Page:
    def __init__(self, cursor: str | None, size: int = 10) -> None:
        self.next_cursor = cursor
        self._size = size

    def model_dump_json(self) -> str:
        return "x" * self._size


def test_each_limit_is_named_and_a_list_within_all_of_them_passes() -> None:
    limits = ListLimits(pages=3, items=5, size=100)

    def listed(*pages: tuple[str | None, int, int]) -> list[str | None]:
        counted = ListedPages("tools/list", limits)
        return [counted.add_page(Page(cursor, size), items) for cursor, items, size in pages]

    assert listed(("a", 2, 10), ("b", 2, 10), (None, 1, 10)) == ["a", "b", None]
    assert listed((None, 5, 10_000)) == [None], "one page is a message, which has a limit of its own"
    for pages, reason in (
        ([("a", 1, 1), ("b", 1, 1), ("a", 1, 1)], "repeats the cursor 'a'"),
        ([("a", 1, 1), ("b", 1, 1), ("c", 1, 1)], "more than 3 pages"),
        ([("a", 3, 1), ("b", 3, 1)], "more than 5 items"),
        ([("a", 1, 60), ("b", 1, 60)], "more than 100 bytes"),
    ):
        with pytest.raises(RemoteError, match=reason):
            listed(*pages)


async def test_a_line_that_is_no_message_is_in_the_log_once(caplog: pytest.LogCaptureFixture) -> None:
    """The server was said not to answer, and nothing said why."""
    program = "import sys\nprint('Starting \\x1b[1m' + 'x' * 5000, 'ready', sep='\\n', flush=True)\nsys.stdin.read()"
    noisy = {"command": sys.executable, "args": ["-c", program], "list_timeout": 2}
    async with connect(Gateway({"upstreams": {"noisy": noisy, "good": server()}}).app) as client:
        assert await ids(client, "tools") == ["good_own"]
    (line,) = {record.getMessage() for record in caplog.records if "what is not a message" in record.getMessage()}
    assert line.startswith("'noisy': the server has sent what is not a message: 'Starting \\x1b[1mxxx")
    assert "not JSON" in line and len(line) < 500
