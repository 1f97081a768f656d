"""A client answers only so many requests of one server; a server with more gets an error that says so."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.clients import connect
from support.endpoints import ALL_REVISIONS, Rev, among
from support.http.observed_clients import observed_client, text_of

from mcp_generated import App, Context, JSONRPCError, LocalError, RateLimit, RemoteJSONRPCError
from mcp_generated.v2026_07_28 import Client

CELLS = pytest.mark.parametrize(
    ("transport", "rev"),
    [
        *(("http", rev) for rev in ALL_REVISIONS if rev.id >= "2025-06-18"),
        ("stdio", ALL_REVISIONS[-1]),
        *(pytest.param("stdio", rev, marks=pytest.mark.long) for rev in ALL_REVISIONS[2:-1]),
    ],
    ids=str,
)
RARE = RateLimit(per_second=0.0001, burst=3)


def handlers(rev: Rev, answered: list[Any]) -> dict[str, Any]:
    t: Any = rev.t

    async def on_elicit(ctx: Any, params: Any) -> Any:
        answered.append(params.message)
        return t.ElicitResult(action="accept", content={"value": "x"})

    async def on_create_message(ctx: Any, params: Any) -> Any:
        answered.append(params)
        return t.CreateMessageResult(role="assistant", content=t.TextContent(text="x"), model="m")

    return {"on_elicit": on_elicit, "on_create_message": on_create_message}


@CELLS
@pytest.mark.parametrize(("tool", "handler"), [("question", "on_elicit"), ("sample", "on_create_message")])
async def test_more_requests_than_the_limit_are_refused_with_a_clear_error(
    transport: str, rev: Rev, tool: str, handler: str
) -> None:
    answered: list[Any] = []
    limits = {handler: RARE}
    async with observed_client(transport, rev, handlers(rev, answered), rate_limits=limits) as client:
        assert text_of(await client.call_tool(tool, {"count": 2})) == "2"
        if rev.stateless:  # The client's own call fails, because it answers the requests within the call.
            with pytest.raises(JSONRPCError, match="refuses .* more than 0.0001 a second after the first 3"):
                await client.call_tool(tool, {"count": 2})
        else:
            result = await client.call_tool(tool, {"count": 2})
            assert (result.is_error, result.content[0].text) == (True, f"the tool {tool!r} failed")
        assert len(answered) == 3
        assert text_of(await client.call_tool("program_log", {"texts": []})) == "logged"


async def test_the_server_gets_the_error_with_the_seconds_to_wait() -> None:
    from mcp_generated.v2025_11_25 import Client as Handshake

    app, errors = App("question"), list[RemoteJSONRPCError]()

    @app.tool
    async def question(ctx: Context) -> str:
        for _ in range(3):
            try:
                await ctx.elicit("?", str)
            except RemoteJSONRPCError as error:
                errors.append(error)
        return "done"

    rev = next(rev for rev in ALL_REVISIONS if rev.id == "2025-11-25")
    answered: list[Any] = []
    kind: Any = type(
        "C", (Handshake,), {name: staticmethod(handler) for name, handler in handlers(rev, answered).items()}
    )
    limits = {"on_elicit": RateLimit(per_second=0.5, burst=1)}
    async with kind.memory(app, rate_limits=limits) as one, kind.memory(app, rate_limits=limits) as other:
        assert text_of(await one.call_tool("question")) == "done"
        assert len(answered) == 1 and len(errors) == 2
        assert errors[0].message == (
            "the client refuses 'elicitation/create': more than 0.5 a second after the first 1"
        )
        assert 0 < errors[0].data["retryAfter"] <= 2  # type: ignore[index]
        await other.call_tool("question")
        assert len(answered) == 2, "the limit is that of one connection"


@among([rev for rev in ALL_REVISIONS if rev.id >= "2025-06-18"])
@pytest.mark.parametrize("revisions", [(), "all"], ids=["own", "all"])
async def test_the_default_is_sixty_and_none_removes_it(rev: Rev, revisions: Any) -> None:
    app = App("question")

    @app.tool
    async def question(ctx: Context) -> str:
        await ctx.elicit("?", str)
        return "done"

    async def count(**settings: Any) -> int:
        answered: list[Any] = []
        members = {name: staticmethod(handler) for name, handler in handlers(rev, answered).items()}
        kind: Any = type("C", (rev.package.Client,), members)
        async with kind.memory(app, revisions=revisions, **settings) as client:
            calls = (client.call_tool("question") for _ in range(65))
            await asyncio.gather(*calls, return_exceptions=True)
        return len(answered)

    assert 60 <= await count() < 65  # A slow machine gives some back meanwhile.
    assert await count(rate_limits={"on_elicit": None}) == 65


def test_a_wrong_limit_is_refused() -> None:
    with pytest.raises(LocalError, match="there is no handler 'on_elicitation'; did you mean 'on_elicit'"):
        connect(App("x"), rate_limits={"on_elicitation": RARE})
    wrong: Any = {"on_elicit": 5}
    with pytest.raises(LocalError, match="rate_limits must be a dict such as"):
        Client.memory(App("x"), rate_limits=wrong)
