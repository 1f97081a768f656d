"""The handlers of a low-level server by the types of their messages, and the variable of the request it serves."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from mcp_generated.compat import McpError, Server, create_connected_server_and_client_session, types
from mcp_products.compat.context import request_ctx
from mcp_products.compat.forms.form import FORM


def greeter() -> Server[Any]:
    server: Server[Any] = Server("greeter")

    @server.list_tools()
    async def tools() -> list[Any]:
        assert server.request_context.session is not None  # It raises outside of a request.
        return [types.Tool(name="greet", input_schema={"type": "object"})]

    @server.call_tool(validate_input=False)
    async def call(name: str, arguments: dict[str, Any]) -> list[Any]:
        if name == "gone":
            raise McpError(error=types.ErrorData(code=-32601, message="no such tool"))
        return [types.TextContent(type="text", text=f"hello {arguments['who']}")]

    return server


def to_call(name: str = "greet", **arguments: Any) -> Any:
    return types.CallToolRequest(params=types.CallToolRequestParams(name=name, arguments=arguments))


async def test_a_program_calls_the_handler_of_a_type_itself() -> None:
    server = greeter()
    assert types.ListToolsRequest in server.request_handlers and types.PingRequest in server.request_handlers
    assert types.ListPromptsRequest not in server.request_handlers
    assert len(server.request_handlers) == 3 and not server.notification_handlers
    handle = server.request_handlers[types.CallToolRequest]
    failed = await handle(to_call(who="me"))  # The list that says which arguments it has needs a request.
    assert failed.is_error and "low-level handler" in failed.content[0].text
    token = request_ctx.set(Mock())
    try:
        assert (await handle(to_call(who="me"))).content[0].text == "hello me"
        assert server.request_context.session is not None
    finally:
        request_ctx.reset(token)
    assert request_ctx.get(None) is None
    assert isinstance(await server.request_handlers[types.PingRequest](types.PingRequest()), types.EmptyResult)
    with pytest.raises(LookupError, match="low-level handler"):
        await server.request_handlers[types.ListToolsRequest](None)


async def test_functions_of_messages_serve_them_and_can_be_taken_away() -> None:
    server, seen = greeter(), list[Any]()

    async def complete(request: Any) -> Any:
        seen.append((type(request), request.params.argument.value))
        return FORM.wrapped("ServerResult", types.CompleteResult(completion=types.Completion(values=["a"])))

    async def progress(notification: Any) -> None:
        seen.append((type(notification), notification.params.progress))

    server.request_handlers[types.CompleteRequest] = complete
    server.notification_handlers[types.ProgressNotification] = progress
    assert server.request_handlers[types.CompleteRequest] is complete
    assert [*server.notification_handlers] == [types.ProgressNotification]
    async with create_connected_server_and_client_session(server) as client:
        reference = types.PromptReference(type="ref/prompt", name="x")
        assert (await client.complete(reference, {"name": "n", "value": "v"})).completion.values == ["a"]
        await client.send_progress_notification("mine", 0.5)
        await client.send_ping()
    assert seen == [(types.CompleteRequest, "v"), (types.ProgressNotification, 0.5)]
    del server.request_handlers[types.CompleteRequest]
    assert types.CompleteRequest not in server.request_handlers


async def test_decorated_functions_get_types_of_the_form_and_the_progress_of_a_client() -> None:
    server, seen = greeter(), list[Any]()

    @server.completion()
    async def complete(reference: Any, argument: Any, context: Any) -> None:
        seen.append((reference, argument, context))

    @server.progress_notification()
    async def progress(token: Any, value: float, total: float | None, message: str | None) -> None:
        seen.append((token, value, total, message))

    async with create_connected_server_and_client_session(server) as client:
        reference = types.PromptReference(type="ref/prompt", name="x")
        await client.complete(reference, {"name": "n", "value": "v"})
        await client.send_progress_notification("mine", 0.5, 1.0)
        await client.send_ping()
    assert seen == [(reference, types.CompletionArgument(name="n", value="v"), None), ("mine", 0.5, 1.0, None)]


async def test_an_error_of_a_tool_is_a_result_whatever_its_kind() -> None:
    async with create_connected_server_and_client_session(greeter()) as client:
        result = await client.call_tool("gone", {})
    assert result.is_error and result.content[0].text == "no such tool"
