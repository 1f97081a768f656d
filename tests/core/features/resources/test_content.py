"""What prompts and resources hold: text or bytes, each of one kind, and nothing in between."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest
from support.endpoints import ALL_REVISIONS, HANDSHAKE, Rev, among, clause, client_of, raw_server, server_of

from mcp_runtime.errors import InvalidResponseError

BYTES = bytes(range(256))
BLOB = base64.b64encode(BYTES).decode()


@among(ALL_REVISIONS)
async def test_a_resource_is_text_or_bytes_and_arrives_as_its_kind(rev: Rev) -> None:
    async def read_resource(ctx: Any, params: Any) -> Any:
        text = rev.t.TextResourceContents(uri=params.uri, text="é\n", mime_type="text/plain")
        blob = rev.t.BlobResourceContents(uri=params.uri, blob=BLOB)
        return rev.t.ReadResourceResult(contents=[text, blob])

    async with client_of(rev, server_of(rev, read_resource=read_resource)) as client:
        text, blob = (await client.read_resource(uri="test://x")).contents
    assert isinstance(text, rev.t.TextResourceContents) and (text.text, text.mime_type) == ("é\n", "text/plain")
    assert isinstance(blob, rev.t.BlobResourceContents) and base64.b64decode(blob.blob) == BYTES


@among(ALL_REVISIONS)
async def test_a_prompt_gets_its_arguments_and_holds_resources(rev: Rev) -> None:
    async def get_prompt(ctx: Any, params: Any) -> Any:
        resource = rev.t.TextResourceContents(uri="test://x", mime_type="text/plain", text=params.arguments["who"])
        message = rev.t.PromptMessage(role="user", content=rev.t.EmbeddedResource(resource=resource))
        return rev.t.GetPromptResult(messages=[message], description="A greeting")

    async with client_of(rev, server_of(rev, get_prompt=get_prompt)) as client:
        result = await client.get_prompt(name="greet", arguments={"who": "Ada"})
    assert result.messages[0].content.resource.text == "Ada" and result.description == "A greeting"


@clause("2024-11-05/prompts/06", "2025-03-26/prompts/07", "draft/prompts/07")
@among(HANDSHAKE)
async def test_an_embedded_resource_without_text_and_bytes_is_no_answer(rev: Rev) -> None:
    wire, connect = raw_server()
    opening = asyncio.create_task(client_of(rev, connect).__aenter__())
    await wire.welcome(rev, {"prompts": {}})
    client = await opening
    for resource in (
        {"uri": "test://x"},
        {"uri": "test://x", "text": 5},
        {"text": "x"},
        {"uri": "test://x", "blob": None},
    ):
        task = asyncio.create_task(client.get_prompt(name="x"))
        content = {"type": "resource", "resource": resource}
        request = await wire.receive()
        result = {"messages": [{"role": "user", "content": content}]}
        wire.send({"jsonrpc": "2.0", "id": request["id"], "result": result})
        with pytest.raises(InvalidResponseError, match=r"'prompts/get' .*messages\[0\]: content"):
            await task
    await client.close()
