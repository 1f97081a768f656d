"""Our clients use all that the official everything server has; it is written in TypeScript, and
speaks over stdio and over HTTP."""

from __future__ import annotations

import asyncio
import base64
import gzip
from typing import Any

import pytest
from support.peer_drivers.our_client import DEADLINE, Everything, converse, reached, text
from support.peer_drivers.our_client import transport as transport  # Runs each test in all ways.
from support.project import package

from mcp_generated import v2025_11_25
from mcp_generated.v2025_11_25 import types as t
from mcp_runtime.errors import RemoteJSONRPCError

pytestmark = pytest.mark.long

HANDSHAKES = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
FIRST_TEXT, FIRST_BLOB = "demo://resource/dynamic/text/1", "demo://resource/dynamic/blob/1"


@pytest.mark.parametrize("handshake", HANDSHAKES)
def test_it_agrees_to_each_revision_with_a_handshake(handshake: str, transport: str) -> None:
    if transport == "streamableHttp" and handshake < "2025-03-26":
        pytest.skip("this revision does not have it")

    async def conversation() -> None:
        module: Any = package(handshake, "client")
        async with reached(module.Client) as client:
            assert client.server.protocol_version == handshake
            result = await client.call_tool(name="echo", arguments={"message": "héllo\u2028"})
            assert result.content[0].text == "Echo: héllo\u2028"
            assert await client.ping() is not None

    asyncio.run(asyncio.wait_for(conversation(), DEADLINE))


def test_the_newest_revision_that_both_speak_is_agreed() -> None:
    async def conversation(client: Everything) -> None:
        assert isinstance(client.server, t.InitializeResult)
        assert client.server.protocol_version == "2025-11-25"
        assert client.server.server_info.name == "mcp-servers/everything"
        assert client.server.instructions and client.server.capabilities.tasks
        assert await client.ping() == t.EmptyResult()

    converse(conversation)


def test_the_synchronous_client_lists_and_calls() -> None:
    with reached(v2025_11_25.SyncClient) as client:
        assert "get-sum" in [tool.name for tool in client.iter_tools()]
        assert text(client.call_tool(name="get-sum", arguments={"a": 2, "b": 0.5})) == "The sum of 2 and 0.5 is 2.5."


def test_all_lists_are_read_to_their_end() -> None:
    async def conversation(client: Everything) -> None:
        tools = {tool.name: tool async for tool in client.iter_tools()}
        # The last ones are only there for clients that have declared what they need.
        assert {"echo", "get-structured-content", "get-roots-list", "trigger-sampling-request"} <= set(tools)
        assert {"trigger-elicitation-request", "trigger-url-elicitation", "simulate-research-query"} <= set(tools)
        assert {"trigger-sampling-request-async", "trigger-elicitation-request-async"} <= set(tools)
        assert tools["get-structured-content"].output_schema is not None
        execution = tools["simulate-research-query"].execution
        assert execution is not None and execution.task_support == "required"
        resources = [resource.name async for resource in client.iter_resources()]
        assert resources[0] == "architecture.md"
        templates = [template.uri_template async for template in client.iter_resource_templates()]
        assert templates == [f"demo://resource/dynamic/{kind}/{{resourceId}}" for kind in ("text", "blob")]
        prompts = [prompt.name async for prompt in client.iter_prompts()]
        assert prompts == ["simple-prompt", "args-prompt", "completable-prompt", "resource-prompt"]

    converse(conversation)


def test_tools_give_every_kind_of_content() -> None:
    async def conversation(client: Everything) -> None:
        result = await client.call_tool(name="get-structured-content", arguments={"location": "Chicago"})
        assert result.structured_content == {"temperature": 36, "conditions": "Light rain / drizzle", "humidity": 82}
        arguments = {"messageType": "error", "includeImage": True}
        words, image = (await client.call_tool(name="get-annotated-message", arguments=arguments)).content
        assert isinstance(words, t.TextContent) and isinstance(image, t.ImageContent)
        assert words.annotations == t.Annotations(audience=["user", "assistant"], priority=1)
        assert base64.b64decode(image.data).startswith(b"\x89PNG")
        assert isinstance((await client.call_tool(name="get-tiny-image")).content[1], t.ImageContent)
        arguments = {"resourceType": "Blob", "resourceId": 1}
        embedded = (await client.call_tool(name="get-resource-reference", arguments=arguments)).content[1]
        assert isinstance(embedded, t.EmbeddedResource)
        assert isinstance(embedded.resource, t.BlobResourceContents) and embedded.resource.uri == FIRST_BLOB
        _, *links = (await client.call_tool(name="get-resource-links", arguments={"count": 2})).content
        assert [link.uri for link in links if isinstance(link, t.ResourceLink)] == [FIRST_BLOB, FIRST_TEXT[:-1] + "2"]

    converse(conversation)


def test_what_goes_wrong_in_a_tool_is_a_result_and_an_unknown_one_too() -> None:
    async def conversation(client: Everything) -> None:
        wrong = await client.call_tool(name="get-sum", arguments={"a": 1, "b": "two"})
        assert wrong.is_error and "Invalid arguments for tool get-sum" in text(wrong)
        unknown = await client.call_tool(name="nonsense")
        assert unknown.is_error and "nonsense not found" in text(unknown)

    converse(conversation)


def test_the_server_gets_a_small_environment(monkeypatch: pytest.MonkeyPatch, transport: str) -> None:
    if transport != "stdio":
        pytest.skip("the server is not a child of the client")
    monkeypatch.setenv("A_SECRET", "of the parent")

    async def conversation(client: Everything) -> None:
        environment = text(await client.call_tool(name="get-env"))
        assert '"PATH"' in environment and "A_SECRET" not in environment

    converse(conversation)


@pytest.mark.edges
def test_a_tool_makes_a_resource_and_tells_that_the_list_changed() -> None:
    async def conversation(client: Everything) -> None:
        data = "data:text/plain;base64," + base64.b64encode(b"a text").decode()
        [link] = (
            await client.call_tool(name="gzip-file-as-resource", arguments={"name": "a.gz", "data": data})
        ).content
        assert isinstance(link, t.ResourceLink)
        await client.until("resources")
        [packed] = (await client.read_resource(uri=link.uri)).contents
        assert isinstance(packed, t.BlobResourceContents)
        assert gzip.decompress(base64.b64decode(packed.blob)) == b"a text"
        assert link.uri in [resource.uri async for resource in client.iter_resources()]

    converse(conversation)


def test_resources_are_read_and_an_unknown_one_is_an_error() -> None:
    async def conversation(client: Everything) -> None:
        [words] = (await client.read_resource(uri=FIRST_TEXT)).contents
        assert isinstance(words, t.TextResourceContents) and words.text.startswith("Resource 1: This is a plaintext")
        [blob] = (await client.read_resource(uri=FIRST_BLOB)).contents
        assert isinstance(blob, t.BlobResourceContents)
        assert base64.b64decode(blob.blob).startswith(b"Resource 1: This is a base64 blob")
        [page] = (await client.read_resource(uri="demo://resource/static/document/features.md")).contents
        assert isinstance(page, t.TextResourceContents) and page.text.startswith("# Everything Server")
        with pytest.raises(RemoteJSONRPCError) as caught:
            await client.read_resource(uri="demo://nothing")
        assert caught.value.code == -32602

    converse(conversation)


def test_who_subscribes_is_told_of_updates() -> None:
    async def conversation(client: Everything) -> None:
        assert await client.subscribe(uri=FIRST_TEXT) == t.EmptyResult()
        assert await client.subscribe(uri=FIRST_BLOB) == t.EmptyResult()
        assert await client.unsubscribe(uri=FIRST_TEXT) == t.EmptyResult()
        await client.call_tool(name="toggle-subscriber-updates")
        assert (await client.until("updated")).uri == FIRST_BLOB
        await client.call_tool(name="toggle-subscriber-updates")
        assert client.notifications("updated").empty()

    converse(conversation)


def test_prompts_are_filled_in() -> None:
    async def conversation(client: Everything) -> None:
        [message] = (await client.get_prompt(name="simple-prompt")).messages
        assert message.role == "user" and isinstance(message.content, t.TextContent)
        [message] = (await client.get_prompt(name="args-prompt", arguments={"city": "Rome"})).messages
        assert message.content == t.TextContent(text="What's weather in Rome?")
        arguments = {"resourceType": "Text", "resourceId": "3"}
        _, message = (await client.get_prompt(name="resource-prompt", arguments=arguments)).messages
        assert isinstance(message.content, t.EmbeddedResource)
        with pytest.raises(RemoteJSONRPCError) as caught:
            await client.get_prompt(name="args-prompt", arguments={})
        assert caught.value.code == -32602

    converse(conversation)


def test_arguments_are_completed() -> None:
    async def conversation(client: Everything) -> None:
        prompt = t.PromptReference(name="completable-prompt")
        result = await client.complete(ref=prompt, argument=t.CompletionArgument(name="department", value="S"))
        assert result.completion.values == ["Sales", "Support"]
        context = t.CompletionContext(arguments={"department": "Sales"})
        result = await client.complete(
            ref=prompt, argument=t.CompletionArgument(name="name", value=""), context=context
        )
        assert result.completion.values == ["David", "Eve", "Frank"] and result.completion.has_more is False
        template = t.ResourceTemplateReference(uri="demo://resource/dynamic/text/{resourceId}")
        result = await client.complete(ref=template, argument=t.CompletionArgument(name="resourceId", value="12"))
        assert result.completion.values == ["12"]

    converse(conversation)


def test_a_level_keeps_lesser_log_messages_away() -> None:
    async def conversation(client: Everything) -> None:
        client.roots = []
        await client.until("log")  # About the roots, once the server has asked for them.
        assert await client.set_level(level="warning") == t.EmptyResult()
        await client.subscribe(uri=FIRST_TEXT)  # Which is logged as information.
        await client.set_level(level="debug")
        await client.subscribe(uri=FIRST_BLOB)
        message = await client.until("log")
        assert message.level == "info" and FIRST_BLOB in message.data
        await client.call_tool(name="toggle-simulated-logging")
        assert "message" in (await client.until("log")).data
        assert client.notifications("log").empty()

    converse(conversation)


def test_the_server_asks_for_the_roots_and_again_when_they_change() -> None:
    async def conversation(client: Everything) -> None:
        assert "file:///work" in text(await client.call_tool(name="get-roots-list"))
        await client.until("log")
        client.roots = [t.Root(uri="file:///a"), t.Root(uri="file:///b", name="b")]
        await client.notify_roots_list_changed()
        assert (await client.until("log")).data == "Roots updated: 2 root(s) received from client"
        roots = text(await client.call_tool(name="get-roots-list"))
        assert "file:///a" in roots and "file:///b" in roots and "file:///work" not in roots

    converse(conversation)


def test_the_server_asks_for_a_message_of_the_model() -> None:
    async def conversation(client: Everything) -> None:
        sampled = text(
            await client.call_tool(name="trigger-sampling-request", arguments={"prompt": "hi", "maxTokens": 7})
        )
        assert '"text": "I am a parrot."' in sampled and '"model": "parrot"' in sampled
        [request] = client.requests
        assert request.max_tokens == 7 and request.system_prompt and "hi" in request.messages[0].content.text

    converse(conversation)


@pytest.mark.parametrize(
    ("action", "beginning"),
    [("accept", "✅ User provided"), ("decline", "❌ User declined"), ("cancel", "⚠️ User cancelled")],
)
def test_the_server_asks_the_user(action: str, beginning: str) -> None:
    async def conversation(client: Everything) -> None:
        client.action = action
        client.filled = {"name": "Ada", "integer": 36, "untitledMultipleSelectEnum": ["Piano", "Bass"]}
        result = await client.call_tool(name="trigger-elicitation-request")
        assert text(result).startswith(beginning)
        assert ("Name: Ada" in text(result, 1)) is (action == "accept")
        [request] = client.requests
        # Every kind of form field that the revision has is in this form.
        kinds = {type(field).__name__ for field in request.requested_schema.properties.values()}
        assert {"StringSchema", "NumberSchema", "BooleanSchema", "LegacyTitledEnumSchema"} <= kinds
        assert {"TitledSingleSelectEnumSchema", "UntitledMultiSelectEnumSchema"} <= kinds

    converse(conversation)


def test_the_server_sends_the_user_to_a_page() -> None:
    async def conversation(client: Everything) -> None:
        arguments = {"url": "https://example.com/", "elicitationId": "e-1", "errorPath": True}
        with pytest.raises(RemoteJSONRPCError) as caught:
            await client.call_tool(name="trigger-url-elicitation", arguments=arguments)
        assert caught.value.code == -32042
        first = t.URLElicitationRequiredErrorObjectData.model_validate(caught.value.data)
        assert first.elicitations[0].mode == "url" and not client.requests
        result = await client.call_tool(name="trigger-url-elicitation", arguments=arguments)
        assert text(result).startswith("✅ User completed the URL elicitation flow.")
        assert [(request.url, request.elicitation_id) for request in client.requests] == [
            ("https://example.com/", "e-1")
        ]

    converse(conversation)
