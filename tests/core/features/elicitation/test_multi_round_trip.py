"""What a handler asks the user or the model: the same in both lifecycles, across processes that share a key ring."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.endpoints import INVALID_PARAMS

from mcp_generated import v2025_06_18, v2026_07_28
from mcp_generated.app import App
from mcp_generated.v2026_07_28 import types as t
from mcp_products.common.keys import KeyRing
from mcp_runtime.errors import LocalError, RemoteJSONRPCError

FORM: dict[str, Any] = {
    "message": "Who are you?",
    "requestedSchema": {
        "type": "object",
        "properties": {"name": {"type": "string", "minLength": 1}},
        "required": ["name"],
    },
}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
}


def form() -> t.ElicitRequestFormParams:
    return t.ElicitRequestFormParams.model_validate(FORM)


class Greeter(v2026_07_28.Server):
    """Greets a user whom it asks for the name, and counts how often it was paid."""

    user = ""
    paid = 0

    def principal(self, ctx: Any) -> str:
        return self.user

    def pay(self) -> int:
        self.paid += 1
        return self.paid

    async def call_tool(self, ctx: v2026_07_28.Context, params: t.CallToolRequestParams) -> t.CallToolResult:
        receipt = await ctx.once("pay", self.pay)
        if params.name == "both":
            elicited, roots = await asyncio.gather(ctx.elicit(form()), ctx.list_roots())
            text = f"{elicited.content} {[root.uri for root in roots.roots]}"
        elif params.name == "sample":
            message = t.SamplingMessage.model_validate({"role": "user", "content": {"type": "text", "text": "2+2?"}})
            text = (await ctx.sample(messages=[message], max_tokens=10)).model
        else:
            elicited = await ctx.elicit(form())
            text = f"{elicited.action} {(elicited.content or {}).get('name')} {receipt}"
        return t.CallToolResult.model_validate({"resultType": "complete", "content": [{"type": "text", "text": text}]})


def greeter(**settings: Any) -> Greeter:
    return Greeter(name="greeter", version="1", **settings)


def answers(package: Any, **content: Any) -> Any:
    class Answering(package.Client):  # type: ignore[misc]
        async def on_elicit(self, ctx: Any, params: Any) -> Any:
            return package.types.ElicitResult(action="accept", content=content)

        async def on_list_roots(self, ctx: Any, params: Any) -> Any:
            return package.types.ListRootsResult.model_validate({"roots": [{"uri": "file:///here"}]})

        async def on_create_message(self, ctx: Any, params: Any) -> Any:
            message = {"role": "assistant", "content": {"type": "text", "text": "4"}, "model": "small"}
            return package.types.CreateMessageResult.model_validate(message)

    return Answering


EITHER = pytest.mark.parametrize("package", [v2025_06_18, v2026_07_28], ids=["handshake", "stateless"])


def served(package: Any, server: Greeter) -> list[Any]:
    from mcp_products.versions.adapters import server_candidates

    return [candidate.get() for candidate in server_candidates(server, [package.methods.REVISION.id])]


@EITHER
async def test_a_tool_asks_the_user_in_either_lifecycle_and_pays_once(package: Any) -> None:
    server = greeter()
    async with answers(package, name="Ada").memory(*served(package, server)) as client:
        result = await client.call_tool(name="greet")
    assert result.content[0].text == "accept Ada 1"
    assert server.paid == 1


@EITHER
async def test_a_tool_asks_several_things_at_once(package: Any) -> None:
    async with answers(package, name="Ada").memory(*served(package, greeter())) as client:
        result = await client.call_tool(name="both")
    assert result.content[0].text == "{'name': 'Ada'} ['file:///here']"


@EITHER
async def test_a_tool_asks_the_model(package: Any) -> None:
    async with answers(package).memory(*served(package, greeter())) as client:
        assert (await client.call_tool(name="sample")).content[0].text == "small"


async def test_a_handler_of_an_older_revision_asks_a_client_without_a_handshake() -> None:
    old = v2025_06_18.types

    class Old(v2025_06_18.Server):
        async def call_tool(self, ctx: v2025_06_18.Context, params: old.CallToolRequestParams) -> old.CallToolResult:
            schema = old.RequestedSchema.model_validate(FORM["requestedSchema"])
            elicited = await ctx.elicit(message="Who are you?", requested_schema=schema)
            text = {"type": "text", "text": str(elicited.content)}
            return old.CallToolResult.model_validate({"content": [text]})

    from mcp_products.versions.adapters import server_candidates

    candidates = [candidate.get() for candidate in server_candidates(Old(name="old", version="1"), ["2026-07-28"])]
    async with answers(v2026_07_28, name="Ada").memory(*candidates) as client:
        result = await client.call_tool(name="greet")
    assert result.content[0].text == "{'name': 'Ada'}"


# ---- the state that is handed back ----------------------------------------------------------------------------------


async def first_round(server: Greeter, name: str = "greet") -> dict[str, Any]:
    """The params with which the request is made again, after a first round at this server."""
    client = v2026_07_28.Client.memory(server, capabilities={"elicitation": {}, "roots": {}})
    async with client:
        result: Any = await client.call_tool(name=name)
    assert isinstance(result, t.InputRequiredResult)
    assert result.input_requests is not None
    input_responses = {key: t.ElicitResult(action="accept", content={"name": "Ada"}) for key in result.input_requests}
    return {"name": name, "input_responses": input_responses, "request_state": result.request_state}


async def second_round(server: Greeter, params: dict[str, Any]) -> Any:
    async with v2026_07_28.Client.memory(server, capabilities={"elicitation": {}, "roots": {}}) as client:
        return await client.call_tool(**params)


async def test_two_servers_that_share_a_key_ring_serve_one_request_together() -> None:
    key, older = KeyRing.new_key(), KeyRing.new_key()
    one, other = greeter(keys=KeyRing(older)), greeter(keys=KeyRing(key, older))
    result = await second_round(other, await first_round(one))
    assert result.content[0].text == "accept Ada 1"
    assert (one.paid, other.paid) == (1, 0)


async def refusal(server: Greeter, params: dict[str, Any]) -> str:
    with pytest.raises(RemoteJSONRPCError) as refused:
        await second_round(server, params)
    assert refused.value.code == INVALID_PARAMS
    return refused.value.message


async def test_a_state_that_was_changed_is_refused() -> None:
    server = greeter()
    params = await first_round(server)
    state = params["request_state"]
    middle = len(state) // 2
    changed = state[:middle] + ("A" if state[middle] != "A" else "B") + state[middle + 1 :]
    assert "was changed" in await refusal(server, {**params, "request_state": changed})
    for more in (f"{state}-more", f"{state}=", f"{state}\n", f"{state[:middle]}*{state[middle:]}"):
        assert "requestState is invalid" in await refusal(server, {**params, "request_state": more})
    assert "not from this server" in await refusal(server, {**params, "request_state": "made up"})
    assert server.paid == 1


async def test_a_state_of_a_server_with_other_keys_is_refused() -> None:
    params = await first_round(greeter(keys=KeyRing(KeyRing.new_key())))
    assert "no key" in await refusal(greeter(keys=KeyRing(KeyRing.new_key())), params)


@pytest.mark.advisory("GHSA-84j6-jc92-77jm")
async def test_a_state_is_refused_for_another_request_and_another_user() -> None:
    server = greeter()
    params = await first_round(server)
    assert "another request" in await refusal(server, {**params, "name": "other"})
    server.user = "somebody else"
    assert "another request or user" in await refusal(server, params)


async def test_a_state_that_has_expired_is_refused() -> None:
    server = greeter(keys=KeyRing(KeyRing.new_key(), lifetime=-10))
    assert "expired" in await refusal(server, await first_round(server))


async def test_what_is_missing_is_asked_for_again() -> None:
    server = greeter()
    params = await first_round(server)
    again = await second_round(server, {**params, "input_responses": {}})
    assert isinstance(again, t.InputRequiredResult)
    assert again.input_requests is not None and again.input_requests.keys() == params["input_responses"].keys()
    assert server.paid == 1


async def test_a_form_that_is_filled_in_wrongly_is_no_answer() -> None:
    server = greeter()
    params = await first_round(server)
    wrong = {key: t.ElicitResult(action="accept", content={"name": ""}) for key in params["input_responses"]}
    with pytest.raises(RemoteJSONRPCError):
        await second_round(server, {**params, "input_responses": wrong})


async def test_a_client_that_did_not_declare_it_is_told_what_is_missing() -> None:
    async with v2026_07_28.Client.memory(greeter()) as client:
        with pytest.raises(RemoteJSONRPCError) as refused:
            await client.call_tool(name="greet")
    assert refused.value.code == v2026_07_28.methods.REVISION.constants["MISSING_REQUIRED_CLIENT_CAPABILITY"]
    assert refused.value.data == {"requiredCapabilities": {"elicitation": {"form": {}}}}


def test_a_key_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(LocalError, match="32 bytes"):
        KeyRing(b"short")


async def test_a_decorated_tool_asks_the_user_too() -> None:
    app = App("greeter", keys=KeyRing(KeyRing.new_key()))

    @app.tool()
    async def greet(ctx: v2026_07_28.Context) -> str:
        """Greet the user."""
        return str((await ctx.elicit(form())).content)

    async with answers(v2026_07_28, name="Ada").memory(app.server) as client:
        assert (await client.call_tool(name="greet")).content[0].text == "{'name': 'Ada'}"
