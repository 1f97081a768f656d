"""A resource that a result names can be read by this URI, whatever prefix its server has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.clients import connect
from support.endpoints import ALL_REVISIONS, Rev, among
from support.http.sockets import listening

from mcp_generated import App, Gateway, v2026_07_28
from mcp_generated.transforms import Namespace

t = v2026_07_28.types
MARK = "text/plain"


def notes() -> App:
    app = App("notes")

    @app.resource("note://a/b")
    def note() -> str:
        return "a note"

    @app.resource("dir://all")
    def folder() -> Any:
        texts = [t.TextResourceContents(uri=uri, text=uri) for uri in ("note://a/b", "https://a.example/", "dir://all")]
        return t.ReadResourceResult(contents=texts)

    @app.tool
    def link() -> Any:
        linked = [t.ResourceLink(uri=uri, name="it") for uri in ("note://a/b", "https://a.example/")]
        return [t.TextContent(text="see"), *linked]

    @app.tool
    def embed() -> Any:
        return [t.EmbeddedResource(resource=t.TextResourceContents(uri="note://a/b", text="it", mime_type=MARK))]

    @app.prompt
    def show(kind: str) -> Any:
        resource = t.TextResourceContents(uri="note://a/b", text="it", mime_type=MARK)
        block: Any = t.EmbeddedResource(resource=resource)
        if kind == "link":
            block = t.ResourceLink(uri="note://a/b", name="it")
        return t.GetPromptResult(messages=[t.PromptMessage(role="user", content=block)])

    return app


def mounted(inner: App, *prefixes: str) -> App:
    for prefix in prefixes:
        outer = App(f"outer of {prefix}")
        outer.mount(inner, prefix)
        inner = outer
    return inner


def transformed() -> App:
    app = notes()
    app.add_transform(Namespace("up"))
    return app


FRONTS: dict[str, tuple[Callable[[], App], str, str]] = {
    "no prefix": (lambda: App.proxy(notes()), "", ""),
    "mount": (lambda: mounted(notes(), "up"), "up_", "up/"),
    "two mounts": (lambda: mounted(notes(), "in", "up"), "up_in_", "up/in/"),
    "mounted proxy": (lambda: mounted(App.proxy(notes()), "up"), "up_", "up/"),
    "two mounts of a proxy": (lambda: mounted(App.proxy(notes()), "in", "up"), "up_in_", "up/in/"),
    "namespace": (transformed, "up_", "up/"),
}


def uris(blocks: Any) -> list[str]:
    return [block.resource.uri if block.type == "resource" else block.uri for block in blocks if block.type != "text"]


async def check(front: Any, rev: Rev, name: str, segment: str) -> None:
    inside = f"note://{segment}a/b"
    async with connect(front, revisions=[rev.id]) as client:
        if rev.id >= "2025-06-18":  # Before, there are no links.
            assert uris((await client.call_tool(f"{name}link", {})).content) == [inside, "https://a.example/"]
            [message] = (await client.get_prompt(f"{name}show", {"kind": "link"})).messages
            assert uris([message.content]) == [inside]
        assert uris((await client.call_tool(f"{name}embed", {})).content) == [inside]
        [message] = (await client.get_prompt(f"{name}show", {"kind": "embedded"})).messages
        assert uris([message.content]) == [inside]
        assert (await client.read_resource(inside)).contents[0].text == "a note"
        contents = (await client.read_resource(f"dir://{segment}all")).contents
        assert [item.uri for item in contents] == [inside, "https://a.example/", f"dir://{segment}all"]


@pytest.mark.parametrize("front", FRONTS)
@among(ALL_REVISIONS)
async def test_a_resource_of_a_result_has_the_uri_to_read_it_by(rev: Rev, front: str) -> None:
    make, name, segment = FRONTS[front]
    await check(make(), rev, name, segment)


@among(ALL_REVISIONS)
async def test_a_gateway_names_resources_of_results_as_in_its_lists(rev: Rev) -> None:
    async with listening(notes().asgi()) as port:
        gateway = Gateway({"upstreams": {"up": {"url": f"http://127.0.0.1:{port}/mcp"}}})
        await check(gateway.app, rev, "up_", "up/")
