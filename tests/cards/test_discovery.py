"""How a client goes from a host to an endpoint: what it reads, what it sends, and where it does not go."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.clients import connect
from support.http.raw_server import Got, Raw, Write, reply, serving

from mcp_generated import LocalError, MCPError
from mcp_generated.http import HTTPOptions
from mcp_products.cards.card import CARD_TYPE, CATALOG_PATH
from mcp_products.cards.discovery import endpoint_of


def host(documents: dict[str, Any]) -> Raw:
    """A host that answers GET with these documents by path, an exact reply where one is bytes."""

    async def answer(got: Got, write: Write) -> None:
        document = documents.get(got.path)
        if document is None:
            await write(reply(b"<h1>nothing</h1>", 404, "text/html"))
        elif isinstance(document, bytes):
            await write(document)
        else:
            await write(reply(json.dumps(document).encode()))

    return Raw({"GET": answer})


def origin_of(raw: Raw) -> str:
    return raw.url.removesuffix("/mcp")


def entry(url: str = "/mcp/server-card") -> dict[str, Any]:
    return {"identifier": "urn:air:example.com:mcp:a", "type": CARD_TYPE, "url": url}


def card(url: str) -> dict[str, Any]:
    return {"name": "com.example/a", "remotes": [{"type": "streamable-http", "url": url}]}


async def located(documents: dict[str, Any]) -> str:
    """Where a host with these documents leads; `HOST` in them is its origin."""
    raw = host({})
    async with serving(raw):
        filled = json.loads(json.dumps(documents).replace("HOST", origin_of(raw)))
        raw.answers = host(filled).answers
        return (await endpoint_of(origin_of(raw), HTTPOptions())).replace(origin_of(raw), "HOST")


@pytest.mark.parametrize(
    "documents",
    [
        {CATALOG_PATH: {"entries": [entry()]}, "/mcp/server-card": card("HOST/mcp")},
        {CATALOG_PATH: {"entries": [entry("HOST/mcp/server-card")]}, "/mcp/server-card": card("HOST/mcp")},
        {CATALOG_PATH: {"entries": [{"type": CARD_TYPE, "data": card("HOST/mcp")}]}},
        {CATALOG_PATH: {"entries": [{"type": "text/plain"}, 7, {"type": CARD_TYPE, "data": card("HOST/mcp")}]}},
    ],
)
async def test_the_catalog_and_the_card_lead_to_the_endpoint(documents: dict[str, Any]) -> None:
    assert await located(documents) == "HOST/mcp"


@pytest.mark.parametrize(
    "documents",
    [
        {},
        {CATALOG_PATH: []},
        {CATALOG_PATH: {"entries": "x"}},
        {CATALOG_PATH: {"entries": [entry()]}},
        {CATALOG_PATH: {"entries": [entry()]}, "/mcp/server-card": {"remotes": {}}},
        {CATALOG_PATH: {"entries": [entry()]}, "/mcp/server-card": {"remotes": [{"type": "sse", "url": "HOST/sse"}]}},
        {CATALOG_PATH: {"entries": [entry()]}, "/mcp/server-card": card("HOST/{tenant}/mcp")},
    ],
)
async def test_a_host_that_says_nothing_of_use_is_the_endpoint_itself(documents: dict[str, Any]) -> None:
    assert await located(documents) == "HOST"


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ({CATALOG_PATH: {"entries": [entry("https://other.example/card")]}}, "the server card of .* is elsewhere, at"),
        (
            {CATALOG_PATH: {"entries": [entry()]}, "/mcp/server-card": card("https://other.example/mcp?key=1")},
            "the endpoint of .* is elsewhere, at https://other.example/mcp; if you trust it, pass that URL",
        ),
        ({CATALOG_PATH: {"entries": [entry("file:///etc/passwd")]}}, "the server card of .* is elsewhere"),
        (
            {
                CATALOG_PATH: {"entries": [{"type": CARD_TYPE, "data": card(f"HOST/{name}")} for name in "ab"]},
            },
            "has several servers: pass one of http://[^/]+/a, http://[^/]+/b",
        ),
    ],
)
async def test_a_card_leads_to_no_other_host_and_chooses_none_of_several(
    documents: dict[str, Any], message: str
) -> None:
    with pytest.raises(LocalError, match=message):
        await located(documents)


@pytest.mark.parametrize(
    "bad",
    [
        reply(b'{"entries": [' + b" " * 100_000 + b"]}"),
        reply(b"", 302, headers={"location": "https://other.example/.well-known/ai-catalog.json"}),
        reply(b"[" * 50_000),
        reply(b"\xff\xfe"),
        b"no HTTP at all\r\n\r\n",
    ],
    ids=["large", "redirect", "deep", "no text", "no HTTP"],
)
async def test_a_large_or_wrong_document_and_a_redirect_to_elsewhere_are_no_catalog(bad: bytes) -> None:
    raw = host({CATALOG_PATH: bad})
    async with serving(raw):
        assert await endpoint_of(origin_of(raw), HTTPOptions()) == origin_of(raw)
        assert len(raw.seen) == 1


async def test_the_documents_are_asked_for_without_tokens_and_the_endpoint_gets_them() -> None:
    raw = host({})
    async with serving(raw):
        catalog = {"entries": [{"type": CARD_TYPE, "data": card(raw.url)}]}
        raw.answers = host({CATALOG_PATH: catalog}).answers
        options = HTTPOptions(headers={"Authorization": "Bearer secret"})
        async with connect(origin_of(raw), http=options, revisions=["2025-11-25"]) as client:
            await client.call_tool("t", {})
    first, *others = raw.seen
    assert first.path == CATALOG_PATH and "authorization" not in first.headers
    assert {request.headers["authorization"] for request in others} == {"Bearer secret"}
    assert {request.path for request in others} == {"/mcp"}


@pytest.mark.parametrize("path", ["/", "/mcp", "?tenant=1"])
async def test_a_url_with_a_path_is_that_of_the_endpoint(path: str) -> None:
    raw = host({CATALOG_PATH: {"entries": [{"type": CARD_TYPE, "data": card("http://other.example/mcp")}]}})
    async with serving(raw):
        assert await endpoint_of(f"{origin_of(raw)}{path}", HTTPOptions()) == f"{origin_of(raw)}{path}"
        assert raw.seen == []


async def test_a_host_without_a_card_gives_the_error_of_the_endpoint() -> None:
    async def nothing(got: Got, write: Write) -> None:
        await write(reply(b"", 404))

    raw = Raw(dict.fromkeys(("initialize", "server/discover", "GET"), nothing))
    async with serving(raw):
        with pytest.raises(MCPError, match="no endpoint is at this path"):
            async with connect(origin_of(raw)):
                pass
