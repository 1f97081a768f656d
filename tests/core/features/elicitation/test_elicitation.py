"""Questions to the user, since the third revision: by a form, and by a URL since the fourth."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.endpoints import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    STATELESS,
    Rev,
    Tap,
    among,
    before,
    clause,
    client_of,
    raw_server,
    server_of,
    since,
)

from mcp_runtime.errors import ProtocolViolationError
from mcp_runtime.protocol.revision import InputRequest
from mcp_runtime.session.requests import RequestOptions

WITH_FORM = [rev for rev in since("2025-06-18") if not rev.stateless]
WITH_URL = [rev for rev in since("2025-11-25") if not rev.stateless]
WITHOUT = before("2025-06-18")

FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "age": {"type": "integer", "minimum": 0},
        "member": {"type": "boolean", "default": False},
        "size": {"type": "string", "enum": ["s", "m"]},
    },
    "required": ["name"],
}


async def elicit(rev: Rev, ctx: Any, options: RequestOptions | None = None) -> Any:
    """Ask for a form, as each revision takes it."""
    if rev.id == "2025-06-18":
        schema = rev.t.RequestedSchema.model_validate(FORM)
        return await ctx.elicit(message="Who are you?", requested_schema=schema, options=options)
    params = rev.t.ElicitRequestFormParams.model_validate({"message": "Who are you?", "requestedSchema": FORM})
    return await ctx.elicit(params, options=options)


def curious(rev: Rev) -> Any:
    """A server whose tool says what the user said."""

    async def call_tool(ctx: Any, params: Any) -> Any:
        answer = await elicit(rev, ctx)
        return rev.text(f"{answer.action} {answer.content}")

    return server_of(rev, call_tool=call_tool)


@clause("draft/elicitation/05")
@among(WITH_FORM)
async def test_a_client_that_can_ask_the_user_declares_it_and_shows_the_form(rev: Rev) -> None:
    requests: list[Any] = []

    async def on_elicit(ctx: Any, params: Any) -> Any:
        requests.append(params.model_dump())
        return rev.t.ElicitResult(action="accept", content={"name": "Ada", "age": 36, "member": True})

    tap = Tap(curious(rev))
    async with client_of(rev, tap, on_elicit=on_elicit) as client:
        answer = (await client.call_tool(name="x")).content[0].text
    assert answer == "accept {'name': 'Ada', 'age': 36, 'member': True}"
    assert tap.sent[0]["params"]["capabilities"] == {"elicitation": {}}
    assert (requests[0]["message"], requests[0]["requestedSchema"]) == ("Who are you?", FORM)


@clause("draft/elicitation/10")
@pytest.mark.parametrize("action", ["decline", "cancel"])
@among(WITH_FORM)
async def test_a_user_can_decline_or_close_the_form(rev: Rev, action: str) -> None:
    async def on_elicit(ctx: Any, params: Any) -> Any:
        return rev.t.ElicitResult(action=action)

    async with client_of(rev, curious(rev), on_elicit=on_elicit) as client:
        assert (await client.call_tool(name="x")).content[0].text == f"{action} None"


@among(WITH_FORM)
async def test_a_form_holds_only_the_flat_fields_of_the_specification(rev: Rev) -> None:
    async def on_elicit(ctx: Any, params: Any) -> Any:
        raise AssertionError("it is not to be asked")

    nested = {"type": "object", "properties": {"who": {"type": "object", "properties": {}}}}
    wire, connect = raw_server()
    opening = asyncio.create_task(client_of(rev, connect, on_elicit=on_elicit).__aenter__())
    await wire.welcome(rev)
    client = await opening
    answer = await wire.request(rev.request(1, "elicitation/create", {"message": "?", "requestedSchema": nested}))
    assert answer["error"]["code"] == INVALID_PARAMS
    await client.close()


@clause("2024-11-05/lifecycle/14", "2025-03-26/lifecycle/15", "draft/lifecycle/15")
@among(WITH_FORM)
async def test_a_client_that_cannot_ask_is_not_asked(rev: Rev) -> None:
    async def call_tool(ctx: Any, params: Any) -> Any:
        with pytest.raises(ProtocolViolationError, match="needs the capability 'client.elicitation'"):
            await elicit(rev, ctx)
        return rev.text("refused")

    async with client_of(rev, server_of(rev, call_tool=call_tool)) as client:
        assert (await client.call_tool(name="x")).content[0].text == "refused"


@among(WITH_URL)
async def test_a_user_is_sent_to_a_url_and_the_client_hears_of_the_end(rev: Rev) -> None:
    seen: asyncio.Queue[Any] = asyncio.Queue()

    async def on_elicit(ctx: Any, params: Any) -> Any:
        seen.put_nowait((params.mode, params.url, params.elicitation_id))
        return rev.t.ElicitResult(action="accept")

    async def on_elicitation_complete(ctx: Any, params: Any) -> None:
        seen.put_nowait(params.elicitation_id)

    async def call_tool(ctx: Any, params: Any) -> Any:
        url = rev.t.ElicitRequestURLParams(message="Sign in", url="https://example.com/in", elicitation_id="e1")
        answer = await ctx.elicit(url)
        await ctx.notify_elicitation_complete(elicitation_id="e1")
        return rev.text(answer.action)

    handlers = {"on_elicit": on_elicit, "on_elicitation_complete": on_elicitation_complete}
    capabilities = {"elicitation": {"url": {}}}
    async with client_of(rev, server_of(rev, call_tool=call_tool), capabilities=capabilities, **handlers) as client:
        assert (await client.call_tool(name="x")).content[0].text == "accept"
        assert await seen.get() == ("url", "https://example.com/in", "e1")
        assert await seen.get() == "e1"


@among([rev for rev in WITH_FORM if rev not in WITH_URL])
def test_the_third_revision_has_no_urls(rev: Rev) -> None:
    assert not hasattr(rev.t, "ElicitRequestURLParams")
    assert not hasattr(rev.package.Context, "notify_elicitation_complete")
    assert "notifications/elicitation/complete" not in rev.revision.table("server_to_client")


@among(WITHOUT)
async def test_before_that_there_is_nothing_of_it(rev: Rev) -> None:
    assert not hasattr(rev.package.Client, "on_elicit") and not hasattr(rev.package.Context, "elicit")
    assert not [name for name in vars(rev.t) if name.startswith("Elicit")]

    async def on_elicit(ctx: Any, params: Any) -> Any:
        raise AssertionError("it is not to be asked")

    wire, connect = raw_server()
    opening = asyncio.create_task(client_of(rev, connect, on_elicit=on_elicit).__aenter__())
    initialize = await wire.welcome(rev)
    client = await opening
    assert "elicitation" not in initialize["params"]["capabilities"]
    answer = await wire.request(rev.request(1, "elicitation/create", {"message": "?", "requestedSchema": FORM}))
    assert answer["error"]["code"] == METHOD_NOT_FOUND
    await client.close()


@among(STATELESS)
def test_without_sessions_a_user_is_asked_inside_results_only(rev: Rev) -> None:
    assert "elicitation/create" in {row.method for row in rev.revision.rows if isinstance(row, InputRequest)}
    assert "elicitation/create" not in rev.revision.table("server_to_client")
