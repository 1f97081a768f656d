"""Which paths an endpoint serves, by itself and mounted in another application."""

from __future__ import annotations

import pytest
from support.endpoints import ALL_REVISIONS, Rev, among
from support.http.asgi_client import web
from support.http.echo import call, echo


@among(ALL_REVISIONS)
@pytest.mark.parametrize(
    ("served", "path", "root", "status"),
    [
        ("/mcp", "/mcp", "", 200),
        ("/mcp", "/api/mcp", "/api", 200),
        ("/mcp", "/other", "", 404),
        ("/mcp", "/mcp/", "", 404),
        ("/mcp", "/api/mcp", "", 404),
        ("/mcp", "/api/other", "/api", 404),
        ("/mcp", "/mcp", "/mcp", 404),
        (None, "/wherever/it/is", "/wherever", 200),
    ],
)
async def test_a_path_is_served_below_where_the_application_is_mounted(
    rev: Rev, served: str | None, path: str, root: str, status: int
) -> None:
    async with web(rev, echo(rev), path=served) as client:
        assert (await client.answered(body=call(rev), path=path, root_path=root)).status == status
