"""What servers and clients may not answer, or be asked, although the schema would let it through."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from support.endpoints import (
    ALL_REVISIONS,
    HANDSHAKE,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    Rev,
    among,
    clause,
    client_of,
    server_of,
    since,
    wire_to,
)

from mcp_runtime.endpoint import checks as guards
from mcp_runtime.errors import InvalidMessageError, InvalidResponseError, RemoteJSONRPCError

GOOD, BAD = "iVBORw0KGgo=", ["iVBORw0KGgo", "not base64!", "AA=A"]
REASONS = ("not base64", "its mime_type is not one", "without a MIME type", "is not one (RFC 3986)")
MORE: dict[str, Any] = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


def more(rev: Rev) -> dict[str, Any]:
    return MORE if rev.stateless else {}


def prompting(rev: Rev, content: Any) -> Any:
    async def get_prompt(ctx: Any, params: Any) -> Any:
        message = {"role": "user", "content": content}
        return rev.t.GetPromptResult.model_validate({"messages": [message], **more(rev)})

    return server_of(rev, get_prompt=get_prompt)


async def is_refused(rev: Rev, content: Any) -> bool:
    async with client_of(rev, prompting(rev, content)) as client:
        try:
            await client.get_prompt(name="x")
        except RemoteJSONRPCError as error:
            assert error.code == INTERNAL_ERROR
            assert any(reason in str(error) for reason in REASONS), error  # The place and the rule, never the value.
            return True
    return False


@clause("2024-11-05/prompts/03", "2025-03-26/prompts/03", "draft/prompts/03")
@among(ALL_REVISIONS)
async def test_an_image_of_a_prompt_is_base64_and_has_a_mime_type(rev: Rev) -> None:
    assert not await is_refused(rev, {"type": "image", "data": GOOD, "mimeType": "image/png"})
    for data, kind in [*((bad, "image/png") for bad in BAD), (GOOD, "png"), (GOOD, ""), (GOOD, "image/")]:
        assert await is_refused(rev, {"type": "image", "data": data, "mimeType": kind})


@clause("2025-03-26/prompts/04", "draft/prompts/04")
@among(since("2025-03-26"))
async def test_a_sound_of_a_prompt_is_base64_and_has_a_mime_type(rev: Rev) -> None:
    assert not await is_refused(rev, {"type": "audio", "data": GOOD, "mimeType": "audio/wav"})
    for data, kind in [*((bad, "audio/wav") for bad in BAD), (GOOD, "wav")]:
        assert await is_refused(rev, {"type": "audio", "data": data, "mimeType": kind})


@clause("2024-11-05/prompts/04", "2025-03-26/prompts/05", "draft/prompts/05")
@among(ALL_REVISIONS)
async def test_a_resource_in_a_prompt_has_a_uri(rev: Rev) -> None:
    def embedded(uri: str) -> dict[str, Any]:
        return {"type": "resource", "resource": {"uri": uri, "text": "x", "mimeType": "text/plain"}}

    assert not await is_refused(rev, embedded("note://a"))
    assert not await is_refused(rev, embedded("note://a b"))  # It is sent percent-encoded.
    for uri in ("", "a", "1a:b", "note://a\nb"):
        assert await is_refused(rev, embedded(uri))


@clause("2024-11-05/prompts/05", "2025-03-26/prompts/06", "draft/prompts/06")
@among(ALL_REVISIONS)
async def test_a_resource_in_a_prompt_has_a_mime_type(rev: Rev) -> None:
    resource = {"uri": "note://a", "text": "x"}
    assert await is_refused(rev, {"type": "resource", "resource": resource})
    assert not await is_refused(rev, {"type": "resource", "resource": {**resource, "mimeType": "text/plain"}})


@clause("2024-11-05/resources/07", "2025-03-26/resources/07", "draft/resources/08")
@among(ALL_REVISIONS)
async def test_a_resource_is_asked_for_by_a_uri(rev: Rev) -> None:
    read: list[str] = []

    async def read_resource(ctx: Any, params: Any) -> Any:
        read.append(params.uri)
        return rev.t.ReadResourceResult.model_validate({"contents": [], **more(rev)})

    async with wire_to(server_of(rev, read_resource=read_resource), opened=rev) as wire:
        for id, uri in enumerate(["", "a", "/etc/passwd", "1a:b", "a b:c", "file:///a\u0000b", "note://a\r\nb"]):
            answer = await wire.request(rev.request(id, "resources/read", {"uri": uri}))
            assert answer["error"]["code"] == INVALID_PARAMS
        assert "result" in await wire.request(rev.request("x", "resources/read", {"uri": "note://a?b=1"}))
    assert read == ["note://a?b=1"]


@clause("2024-11-05/resources/09", "2025-03-26/resources/09", "draft/resources/10")
@among(ALL_REVISIONS)
async def test_binary_contents_are_base64(rev: Rev) -> None:
    async def read_resource(ctx: Any, params: Any) -> Any:
        contents = [{"uri": "x:y", "blob": params.uri[2:]}]
        return rev.t.ReadResourceResult.model_validate({"contents": contents, **more(rev)})

    async with client_of(rev, server_of(rev, read_resource=read_resource)) as client:
        assert (await client.read_resource(uri=f"x:{GOOD}")).contents[0].blob == GOOD
        for blob in ("AAA", "A=AA", "A!AA"):
            with pytest.raises(RemoteJSONRPCError) as caught:
                await client.read_resource(uri=f"x:{blob}")
            assert caught.value.code == INTERNAL_ERROR


@clause("draft/resources/05")
@among(ALL_REVISIONS)
async def test_every_scheme_of_a_listed_resource_is_one(rev: Rev) -> None:
    listed: list[str] = []

    async def list_resources(ctx: Any, params: Any) -> Any:
        resources = [{"uri": uri, "name": "x"} for uri in listed]
        return rev.t.ListResourcesResult.model_validate({"resources": resources, **more(rev)})

    async with client_of(rev, server_of(rev, list_resources=list_resources)) as client:
        for uri in ("my-own+scheme.2:x", "git://a/b", "urn:isbn:1"):
            listed[:] = [uri]
            assert [resource.uri for resource in (await client.list_resources()).resources] == [uri]
        for uri in ("no scheme", "2my:x", "my_own:x", ":x"):
            listed[:] = [uri]
            with pytest.raises(RemoteJSONRPCError):
                await client.list_resources()


ROOTS = [
    *("file:relative", "file://host/share", "/home", "file:///a?b", "file:///a#b"),
    *("file:///a/../b", "file:///a/%2e%2e/b", "file:///a/%252e%252e/b", "file:///a/..%5Cb", "file:///a%00b"),
]


@clause("2024-11-05/roots/03", "2025-03-26/roots/03", "draft/roots/03")
@clause("2024-11-05/roots/07", "2025-03-26/roots/07", "draft/roots/07")
@among(HANDSHAKE)
async def test_a_root_that_is_no_local_file_or_leads_elsewhere_is_not_told(rev: Rev) -> None:
    uris: list[str] = []

    async def on_list_roots(ctx: Any, params: Any) -> Any:
        return rev.t.ListRootsResult.model_validate({"roots": [{"uri": uri} for uri in uris]})

    async def call_tool(ctx: Any, params: Any) -> Any:
        try:
            return rev.text(" ".join(root.uri for root in (await ctx.list_roots()).roots))
        except RemoteJSONRPCError as error:
            return rev.text(str(error.code))

    async with client_of(rev, server_of(rev, call_tool=call_tool), on_list_roots=on_list_roots) as client:
        for uri in ROOTS:
            uris[:] = ["file:///a", uri]
            assert (await client.call_tool(name="x")).content[0].text == str(INTERNAL_ERROR), uri
        uris[:] = ["file:///a/b%20c", "file:///a..b"]
        assert (await client.call_tool(name="x")).content[0].text == " ".join(uris)


FORM: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string", "minLength": 1}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name"],
}
MISFITS: list[dict[str, Any]] = [{}, {"name": ""}, {"name": 5}, {"name": "Ada", "age": -1}, {"name": "Ada", "age": "x"}]


async def elicit(rev: Rev, ctx: Any) -> Any:
    params = {"message": "Who?", "requestedSchema": FORM}
    if hasattr(rev.t, "ElicitRequestFormParams"):
        return await ctx.elicit(rev.t.ElicitRequestFormParams.model_validate(params))
    return await ctx.elicit(message="Who?", requested_schema=rev.t.RequestedSchema.model_validate(FORM))


@clause("draft/elicitation/08")
@among([rev for rev in since("2025-06-18") if not rev.stateless])
async def test_what_a_user_fills_in_is_checked_on_both_sides(rev: Rev) -> None:
    pytest.importorskip("jsonschema_rs")
    content: dict[str, Any] = {}

    async def on_elicit(ctx: Any, params: Any) -> Any:
        return rev.t.ElicitResult(action="accept", content=content)

    async def call_tool(ctx: Any, params: Any) -> Any:
        try:
            return rev.text(str((await elicit(rev, ctx)).content))
        except (RemoteJSONRPCError, InvalidResponseError) as error:
            return rev.text(type(error).__name__)

    server = server_of(rev, call_tool=call_tool)
    async with client_of(rev, server, on_elicit=on_elicit) as client:
        for misfit in MISFITS:  # The client does not send it.
            content = misfit
            assert (await client.call_tool(name="x")).content[0].text == "RemoteJSONRPCError"
        content = {"name": "Ada", "age": 36}
        assert (await client.call_tool(name="x")).content[0].text == str(content)
    async with wire_to(server, opened=None) as wire:  # And the server does not take it.
        await wire.shake_hands(rev, {"elicitation": {}})
        for id, misfit in enumerate(MISFITS):
            wire.send(rev.request(id, "tools/call", {"name": "x"}))
            request = await wire.receive()
            result = {"action": "accept", "content": misfit}
            wire.send({"jsonrpc": "2.0", "id": request["id"], "result": result})
            assert (await wire.receive())["result"]["content"][0]["text"] == "InvalidResponseError"


def test_forms_are_checked_without_the_validator_of_json_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)  # As where it is not installed.
    rev = since("2025-06-18")[0]
    form = {"requestedSchema": {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}}
    guards.check_form_answer(form, rev.t.ElicitResult(action="accept", content={"age": 3}))
    for content in ({"age": "three"}, {}):
        with pytest.raises(InvalidMessageError):
            guards.check_form_answer(form, rev.t.ElicitResult(action="accept", content=content))
