"""`@app.tool(view=…)`: a tool names a resource with HTML, in each version, also behind mounts, proxies and prefixes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.endpoints import ALL_REVISIONS, Rev, among
from support.http.sockets import listening

from mcp_generated import App, Gateway
from mcp_generated.transforms import Namespace
from mcp_products.versions.adapters import server_candidates
from mcp_runtime.errors import LocalError

MIME_TYPE = "text/html;profile=mcp-app"
HTML = "<!doctype html><p>A chart.</p>"


def chart(points: list[int]) -> str:
    """Draw the points."""
    return f"{len(points)} points"


def program(folder: Path, **settings: Any) -> App:
    """An app whose program stands in a folder of its own, as a file does."""
    source = "def chart(points: list[int]) -> str:\n    return f'{len(points)} points'\n"
    module: dict[str, Any] = {"__name__": "program"}
    exec(compile(source, folder / "server.py", "exec"), module)
    app = App("charts")
    app.add_tool(module["chart"], **settings)
    return app


async def view_of(app: App) -> tuple[str, str]:
    """The URI of the view of the only tool, and the HTML at it."""
    [tool] = await app.list_tools()
    uri = tool.meta["ui"]["resourceUri"]  # type: ignore[index]
    [resource] = await app.list_resources()
    assert (resource.uri, resource.mime_type) == (uri, MIME_TYPE)
    [content] = (await app.read_resource(uri=uri)).contents
    assert (content.uri, content.mime_type) == (uri, MIME_TYPE)
    return uri, content.text  # type: ignore[union-attr]


@among(ALL_REVISIONS)
async def test_a_tool_names_its_view_in_each_version(rev: Rev) -> None:
    app = App("charts")
    app.tool(view=HTML)(chart)
    async with rev.package.Client.memory(*server_candidates(app.server, "all")) as client:
        [tool] = (await client.list_tools()).tools
        written = tool.to_dict().get("_meta")  # Tools of versions before 2025-06-18 have none.
        assert written == ({"ui": {"resourceUri": "ui://chart/view.html"}} if rev.id >= "2025-06-18" else None)
        [resource] = (await client.list_resources()).resources
        assert (resource.uri, resource.mime_type) == ("ui://chart/view.html", MIME_TYPE)
        [content] = (await client.read_resource(uri="ui://chart/view.html")).contents
        assert (content.text, content.mime_type) == (HTML, MIME_TYPE)


async def test_a_file_is_read_when_it_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "chart.html").write_text(HTML, encoding="utf-8")
    app = program(tmp_path, view="chart.html")
    assert await view_of(app) == ("ui://chart/view.html", HTML)
    (tmp_path / "chart.html").write_text("<p>ä</p>", encoding="utf-8")
    assert (await view_of(app))[1] == "<p>ä</p>"
    assert await view_of(program(tmp_path, view=tmp_path / "chart.html")) == ("ui://chart/view.html", "<p>ä</p>")


async def test_a_function_returns_html() -> None:
    def plain() -> str:
        return HTML

    async def later() -> str:
        return HTML

    functions: list[Callable[[], Any]] = [plain, later]
    for function in functions:
        app = App("charts")
        app.tool("drawn", view=function)(chart)
        assert await view_of(app) == ("ui://drawn/view.html", HTML)


def test_what_cannot_be_a_view_is_refused_where_it_is_written(tmp_path: Path) -> None:
    with pytest.raises(
        LocalError, match=r"the tool 'chart': view='none.html': there is no file .*none\.html; write the "
    ):
        program(tmp_path, view="none.html")
    with pytest.raises(LocalError, match="view= and meta={'ui': …} both name a view: leave one of them out"):
        App("charts").tool(view=HTML, meta={"ui": {"resourceUri": "ui://own"}})(chart)
    wrong: Any
    for wrong in (5, b"<p>", "", ["chart.html"]):
        with pytest.raises((LocalError, TypeError), match="view"):
            App("charts").tool(view=wrong)(chart)


async def test_a_resource_of_the_same_uri_is_a_clash_and_the_tool_is_not_added() -> None:
    app = App("charts")
    app.add_resource("ui://chart/view.html", lambda: "own", mime_type=MIME_TYPE)
    with pytest.raises(LocalError, match="has 'ui://chart/view.html' among its resources already"):
        app.tool(view=HTML)(chart)
    assert await app.list_tools() == []
    assert [resource.uri for resource in await app.list_resources()] == ["ui://chart/view.html"]


async def test_a_tool_is_removed_with_its_view() -> None:
    app = App("charts")
    app.tool(view=HTML, version="1")(chart)
    app.tool(version="2")(chart)
    app.remove_tool("chart", "2")
    assert await view_of(app) == ("ui://chart/view.html", HTML)
    app.remove_tool("chart")
    assert await app.list_tools() == [] and await app.list_resources() == []
    app.tool(view=HTML)(chart)
    assert await view_of(app) == ("ui://chart/view.html", HTML)


async def test_other_meta_and_tags_remain_and_hide_the_view_too() -> None:
    app = App("charts")
    app.tool(view=HTML, meta={"own": 1}, tags={"drawn"})(chart)
    [tool] = await app.list_tools()
    assert tool.meta is not None and tool.meta["own"] == 1 and "ui" in tool.meta
    app.disable(tags={"drawn"})
    assert await app.list_tools() == [] and await app.list_resources() == []


def mounted(app: App) -> App:
    outer = App("outer")
    outer.mount(app, "sub")
    return outer


def mounted_twice(app: App) -> App:
    outermost = App("outermost")
    outermost.mount(mounted(app), "far")
    return outermost


def renamed(app: App) -> App:
    app.add_transform(Namespace("sub"))
    return app


@pytest.mark.parametrize(
    ("around", "expected"),
    [
        (mounted, "ui://sub/chart/view.html"),
        (mounted_twice, "ui://far/sub/chart/view.html"),
        (renamed, "ui://sub/chart/view.html"),
        (lambda app: App.proxy(app), "ui://chart/view.html"),
        (lambda app: mounted(App.proxy(app)), "ui://sub/chart/view.html"),
    ],
)
async def test_a_view_can_be_read_behind_other_apps(around: Callable[[App], App], expected: str) -> None:
    app = App("charts")
    app.tool(view=HTML)(chart)
    assert await view_of(around(app)) == (expected, HTML)


async def test_a_view_at_its_former_place_gets_the_prefix_too() -> None:
    app = App("charts")
    app.tool(meta={"ui/resourceUri": "ui://own", "ui": {"visibility": ["model"]}})(chart)
    [tool] = await mounted(app).list_tools()
    assert tool.meta == {"ui/resourceUri": "ui://sub/own", "ui": {"visibility": ["model"]}}


async def test_a_view_can_be_read_through_a_gateway() -> None:
    app = App("charts")
    app.tool(view=HTML)(chart)
    async with listening(app.asgi()) as port:
        gateway = Gateway({"upstreams": {"up": {"url": f"http://127.0.0.1:{port}/mcp"}}})
        assert await view_of(gateway.app) == ("ui://up/chart/view.html", HTML)
