"""Roots of the specification's page of concepts, an https one among them, do not fail the list."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.endpoints import Rev
from support.http.observed_clients import CELLS, observed_client

CONCEPT_PAGE = [
    ("file:///home/user/projects/frontend", "Frontend Repository"),
    ("https://api.example.com/v1", "API Endpoint"),
]


@CELLS
async def test_the_roots_of_the_page_of_concepts_are_listed_without_those_that_servers_reject(
    transport: str, rev: Rev, caplog: pytest.LogCaptureFixture
) -> None:
    roots = [*CONCEPT_PAGE, ("git://example.com/x", "Other")]

    async def on_list_roots(ctx: Any, params: Any) -> Any:
        return rev.t.ListRootsResult(roots=[rev.t.Root(uri=uri, name=name) for uri, name in roots])

    async with observed_client(transport, rev, {"on_list_roots": on_list_roots}) as client:
        result = await client.call_tool("roots")
    assert not result.is_error
    listed = [json.loads(content.text) if content.text[0] in '["' else content.text for content in result.content]
    assert listed == ["file:///home/user/projects/frontend"]
    for uri, _ in roots[1:]:
        assert f"the root {uri!r} is left out: the specification has only file:// roots" in caplog.text
