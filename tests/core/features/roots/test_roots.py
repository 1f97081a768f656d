"""Directories and files that a server is meant to work on: the client lists them, and tells when they change."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.endpoints import (
    HANDSHAKE,
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    STATELESS,
    Rev,
    Tap,
    among,
    clause,
    client_of,
    raw_server,
    server_of,
)

from mcp_runtime.errors import ProtocolViolationError, RemoteJSONRPCError
from mcp_runtime.protocol.revision import InputRequest


def listing(rev: Rev, roots: list[str]) -> Any:
    async def on_list_roots(ctx: Any, params: Any) -> Any:
        return rev.t.ListRootsResult(roots=[rev.t.Root(uri=uri, name=uri[-1]) for uri in roots])

    return on_list_roots


def asking(rev: Rev, **more: Any) -> Any:
    """A server whose tool says which roots there are."""

    async def call_tool(ctx: Any, params: Any) -> Any:
        try:
            return rev.text(" ".join(root.uri for root in (await ctx.list_roots()).roots))
        except (RemoteJSONRPCError, ProtocolViolationError) as error:
            return rev.text(f"{type(error).__name__}: {error}")

    return server_of(rev, call_tool=call_tool, **more)


@clause("2024-11-05/roots/01", "2025-03-26/roots/01", "draft/roots/01")
@among(HANDSHAKE)
async def test_a_client_that_lists_roots_declares_it_and_is_asked(rev: Rev) -> None:
    tap = Tap(asking(rev))
    async with client_of(rev, tap, on_list_roots=listing(rev, ["file:///a", "file:///b"])) as client:
        assert (await client.call_tool(name="x")).content[0].text == "file:///a file:///b"
    assert tap.sent[0]["params"]["capabilities"] == {"roots": {}}


@clause("2024-11-05/roots/17", "2025-03-26/roots/17", "draft/roots/17")
@clause("2024-11-05/lifecycle/19", "2025-03-26/lifecycle/24", "draft/lifecycle/24")
@among(HANDSHAKE)
async def test_a_client_that_lists_none_is_not_asked(rev: Rev) -> None:
    tap = Tap(asking(rev))
    async with client_of(rev, tap) as client:
        text = (await client.call_tool(name="x")).content[0].text
    assert (
        text
        == f"ProtocolViolationError: 'roots/list' in {rev} needs the capability 'client.roots', which was not declared"
    )
    assert not [message for message in tap.received if "method" in message]


@clause("2024-11-05/roots/04", "2025-03-26/roots/04", "draft/roots/04")
@among(HANDSHAKE)
async def test_a_client_that_lists_none_says_so_to_a_server_that_asks_all_the_same(rev: Rev) -> None:
    wire, connect = raw_server()
    opening = asyncio.create_task(client_of(rev, connect).__aenter__())
    await wire.welcome(rev)
    client = await opening
    assert (await wire.request(rev.request(1, "roots/list")))["error"]["code"] == METHOD_NOT_FOUND
    await client.close()


@clause("2024-11-05/roots/05", "2025-03-26/roots/05", "draft/roots/05")
@among(HANDSHAKE)
async def test_a_client_that_fails_to_list_is_an_internal_error(rev: Rev) -> None:
    async def on_list_roots(ctx: Any, params: Any) -> Any:
        raise OSError("the disk of the user is gone")

    async with client_of(rev, asking(rev), on_list_roots=on_list_roots) as client:
        text = (await client.call_tool(name="x")).content[0].text
    assert text == f"RemoteJSONRPCError: internal error (code {INTERNAL_ERROR})"


@clause("2024-11-05/roots/02", "2025-03-26/roots/02", "draft/roots/02")
@clause("2024-11-05/roots/18", "2025-03-26/roots/18", "draft/roots/18")
@among(HANDSHAKE)
async def test_a_change_of_the_roots_reaches_the_server_which_asks_again(rev: Rev) -> None:
    seen: asyncio.Queue[list[str]] = asyncio.Queue()

    async def on_roots_list_changed(ctx: Any, params: Any) -> None:
        seen.put_nowait([root.uri for root in (await ctx.list_roots()).roots])

    roots = ["file:///a"]
    settings = {"on_list_roots": listing(rev, roots), "capabilities": {"roots": {"listChanged": True}}}
    async with client_of(rev, asking(rev, on_roots_list_changed=on_roots_list_changed), **settings) as client:
        roots.append("file:///b")
        await client.notify_roots_list_changed()
        assert await seen.get() == ["file:///a", "file:///b"]


@among(HANDSHAKE)
async def test_a_change_that_was_not_declared_is_not_told(rev: Rev) -> None:
    async with client_of(rev, asking(rev), on_list_roots=listing(rev, [])) as client:
        with pytest.raises(ProtocolViolationError, match="needs the capability 'client.roots.listChanged'"):
            await client.notify_roots_list_changed()


@among(STATELESS)
def test_without_sessions_roots_are_asked_for_inside_results_only(rev: Rev) -> None:
    assert "roots/list" in {row.method for row in rev.revision.rows if isinstance(row, InputRequest)}
    assert not hasattr(rev.package.Client, "notify_roots_list_changed")
    assert "roots/list" not in rev.revision.table("server_to_client")
