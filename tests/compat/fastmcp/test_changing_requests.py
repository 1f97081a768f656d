"""The log names handlers whose input requests differ in each round, since the answers of clients are lost."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from support.clients import connect

from mcp_generated import App, Context, MCPError
from mcp_generated.compat import types
from mcp_generated.v2026_07_28 import Client


class Answering(Client):
    """Accepts all forms."""

    async def on_elicit(self, ctx: Any, params: Any) -> Any:
        return {"action": "accept", "content": {"value": "yes"}}


@pytest.mark.parametrize("form", ["changing", "once", "same", "two"])
async def test_a_handler_that_makes_other_requests_in_each_round_is_named(
    form: str, caplog: pytest.LogCaptureFixture
) -> None:
    app, numbers = App("app"), itertools.count()

    @app.tool
    async def book(ctx: Context) -> str:
        number: Any = "" if form in ("same", "two") else next(numbers)
        if form == "once":
            number = await ctx.once("number", lambda: next(numbers))
        for text in ("first", "second") if form == "two" else ("first",):
            await ctx.elicit(f"{text} {number}", str)
        return "booked"

    async with connect(app, client=Answering, revisions=["2026-07-28"]) as client:
        if form == "changing":
            with pytest.raises(MCPError):
                await client.call_tool("book")
        else:
            assert (await client.call_tool("book")).content[0].text == "booked"
    warnings = [record.getMessage() for record in caplog.records if "ctx.once" in record.getMessage()]
    assert bool(warnings) is (form == "changing")
    assert all("'tools/call'" in warning and "elicit-" in warning for warning in warnings)


def test_the_codes_of_errors_are_among_the_types() -> None:
    assert types.MISSING_REQUIRED_CLIENT_CAPABILITY == -32021
    with pytest.raises(AttributeError, match="no type 'NO_SUCH_CODE'"):
        types.NO_SUCH_CODE
