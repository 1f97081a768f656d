"""Small things that clients and servers may use: known roots, suggestions, checked tools, the choice of a model."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.endpoints import ALL_REVISIONS, HANDSHAKE, Rev, Tap, among, clause, client_of, raw_server, server_of, since

from mcp_products.host.roots import RootsCache, is_within, path_to_root
from mcp_products.host.sampling import choose_model
from mcp_products.host.tools import ApprovedTools, CompletionSession
from mcp_runtime.errors import ConnectionClosedError, InvalidMessageError, InvalidResponseError

MORE: dict[str, Any] = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


def root(path: Path) -> Any:
    return SimpleNamespace(uri=path.as_uri())


@clause("2024-11-05/roots/12", "2025-03-26/roots/12", "draft/roots/12")
def test_a_server_can_tell_whether_a_path_is_inside_of_a_root(tmp_path: Path) -> None:
    top, outside = tmp_path / "top", tmp_path / "top-secret"
    top.mkdir()
    outside.mkdir()
    (top / "way out").symlink_to(outside)
    roots = [root(top), SimpleNamespace(uri="https://example.com/")]
    assert all(is_within(str(path), roots) for path in (top, top / "a", top / "a" / ".." / "b"))
    for path in (outside, tmp_path, top / ".." / "top-secret", top / "way out" / "file", Path("/")):
        assert not is_within(str(path), roots), path


@clause("2024-11-05/roots/15", "2025-03-26/roots/15", "draft/roots/15")
def test_a_path_becomes_a_root_only_where_it_can_be_read(tmp_path: Path) -> None:
    assert path_to_root(str(tmp_path)) == tmp_path.resolve().as_uri()
    with pytest.raises(InvalidMessageError, match="cannot be a root"):
        path_to_root(str(tmp_path / "gone"))


@clause("2024-11-05/roots/20", "2025-03-26/roots/20", "draft/roots/20")
@among(HANDSHAKE)
async def test_a_server_keeps_the_roots_until_they_change(rev: Rev) -> None:
    cache, forgotten, roots = RootsCache(), asyncio.Event(), ["file:///a"]

    async def call_tool(ctx: Any, params: Any) -> Any:
        return rev.text(" ".join(root.uri for root in await cache.get(ctx)))

    async def on_roots_list_changed(ctx: Any, params: Any) -> None:
        cache.forget(ctx)
        forgotten.set()

    async def on_list_roots(ctx: Any, params: Any) -> Any:
        return rev.t.ListRootsResult(roots=[rev.t.Root(uri=uri) for uri in roots])

    tap = Tap(server_of(rev, call_tool=call_tool, on_roots_list_changed=on_roots_list_changed))
    settings: dict[str, Any] = {"on_list_roots": on_list_roots, "capabilities": {"roots": {"listChanged": True}}}
    async with client_of(rev, tap, **settings) as client:

        async def listed() -> str:
            return str((await client.call_tool(name="x")).content[0].text)

        assert [await listed() for _ in range(3)] == ["file:///a"] * 3
        roots.append("file:///b")
        await client.notify_roots_list_changed()
        await forgotten.wait()
        assert [await listed() for _ in range(2)] == ["file:///a file:///b"] * 2
    assert [message.get("method") for message in tap.received].count("roots/list") == 2


@clause("2024-11-05/sampling/09", "2025-03-26/sampling/09", "draft/sampling/09")
@among(ALL_REVISIONS)
def test_the_first_hint_that_fits_a_model_chooses_it(rev: Rev) -> None:
    models = ["large-2", "small-1", "small-2"]

    def chosen(*names: str | None) -> str:
        hints = [rev.t.ModelHint(name=name) for name in names]
        return choose_model(rev.t.ModelPreferences(hints=hints), models)

    assert chosen("Small") == "small-1" and chosen("2", "small") == "large-2"
    assert chosen("unknown", None, "small-2") == "small-2" and chosen("unknown") == "large-2"
    assert choose_model(None, models) == choose_model(rev.t.ModelPreferences(), models) == "large-2"
    with pytest.raises(ValueError, match="no model"):
        choose_model(None, [])


@clause("2024-11-05/completion/05", "2025-03-26/completion/10", "draft/completion/10")
@clause("2024-11-05/completion/06", "2025-03-26/completion/11", "draft/completion/11")
@among(ALL_REVISIONS)
async def test_suggestions_are_asked_for_when_the_user_pauses_and_once_for_the_same_text(rev: Rev) -> None:
    texts: list[str] = []

    async def complete(ctx: Any, params: Any) -> Any:
        texts.append(params.argument.value)
        return rev.t.CompleteResult(completion=rev.t.Completion(values=[params.argument.value + "!"]))

    ref = rev.t.PromptReference(name="p")
    async with client_of(rev, server_of(rev, complete=complete)) as client:
        suggestions = CompletionSession(client, debounce=0.01)

        async def typed(text: str) -> Any:
            completion = await suggestions.complete(ref, rev.t.CompletionArgument(name="a", value=text))
            return completion and completion.values

        assert await asyncio.gather(typed("w"), typed("wo"), typed("wor")) == [None, None, ["wor!"]]
        assert await typed("wor") == ["wor!"] and await typed("wo") == ["wo!"] and await typed("wor") == ["wor!"]
    assert texts == ["wor", "wo"]


def counting(rev: Rev, structured: Any, listings: list[Any]) -> Any:
    """A server with a tool that promises a count."""
    schema = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}
    more = MORE if rev.stateless else {}

    async def list_tools(ctx: Any, params: Any) -> Any:
        listings.append(params)
        tool = {"name": "count", "inputSchema": {"type": "object"}, "outputSchema": schema}
        return rev.t.ListToolsResult.model_validate({"tools": [tool], **more})

    async def call_tool(ctx: Any, params: Any) -> Any:
        answer = {"content": [], "structuredContent": structured(), "isError": structured() == {"count": "failed"}}
        return rev.t.CallToolResult.model_validate({k: v for k, v in answer.items() if v is not None} | more)

    return server_of(rev, list_tools=list_tools, call_tool=call_tool)


@clause("draft/tools/11")
@among(since("2025-06-18"))
async def test_structured_content_that_does_not_fit_is_not_taken(rev: Rev) -> None:
    pytest.importorskip("jsonschema_rs")
    content: Any = {"count": 1}
    listings: list[Any] = []
    async with client_of(rev, counting(rev, lambda: content, listings)) as client:
        tools = ApprovedTools(client)
        assert (await tools.call("count")).structured_content is not None
        for content in ({}, {"count": "1"}, None):  # noqa: B007 - the server returns it
            with pytest.raises(InvalidResponseError, match="output schema"):
                await tools.call("count")
        content = {"count": "failed"}  # An error need not fit.
        assert (await tools.call("count")).is_error
        assert len(listings) == 1
        tools.forget()
        await tools.call("count")
        assert len(listings) == 2


@clause("2024-11-05/tools/15", "2025-03-26/tools/16", "draft/tools/20")
@among(ALL_REVISIONS)
async def test_each_use_of_a_tool_is_written_down(rev: Rev, caplog: pytest.LogCaptureFixture) -> None:
    async def list_tools(ctx: Any, params: Any) -> Any:
        return rev.t.ListToolsResult.model_validate({"tools": [], **(MORE if rev.stateless else {})})

    async def call_tool(ctx: Any, params: Any) -> Any:
        if params.name == "odd":
            raise KeyError("x")
        return rev.t.CallToolResult(content=[], is_error=params.name == "wrong")

    caplog.set_level(logging.INFO, "mcp_runtime.audit")
    async with client_of(rev, server_of(rev, list_tools=list_tools, call_tool=call_tool)) as client:
        tools = ApprovedTools(client)
        for name in ("right", "wrong"):
            await tools.call(name, {"password": "secret"})
        with pytest.raises(Exception, match="internal error"):
            await tools.call("odd")
    messages = [record.getMessage() for record in caplog.records if record.name == "mcp_runtime.audit"]
    assert messages == ["tool 'right': done", "tool 'wrong': error", "tool 'odd': failed"]


@clause("2024-11-05/ping/07", "2025-03-26/ping/07", "draft/ping/07")
@among(HANDSHAKE)
async def test_a_ping_that_fails_is_written_down(rev: Rev, caplog: pytest.LogCaptureFixture) -> None:
    wire, connect = raw_server()
    opening = asyncio.create_task(client_of(rev, connect, ping_interval=0.02).__aenter__())
    await wire.welcome(rev, {"tools": {}})
    client = await opening
    with pytest.raises(ConnectionClosedError):
        await client.call_tool(name="never answered")
    await client.close()
    messages = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(messages) == 1 and messages[0].startswith(
        "the server does not answer pings, and the connection is closed: 'ping'"
    )
