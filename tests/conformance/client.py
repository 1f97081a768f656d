"""A client for the official conformance suite, which starts it with the URL of a server as its last argument.

The environment says what to do: MCP_CONFORMANCE_SCENARIO, MCP_CONFORMANCE_PROTOCOL_VERSION, and, where a scenario has
one, MCP_CONFORMANCE_CONTEXT as JSON. One client, written for the newest revision, speaks all of them. It starts 79
times, and loads what its scenario needs.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from mcp_generated.v2026_07_28 import Client
from mcp_generated.v2026_07_28 import types as t
from mcp_runtime.transports.http_client.connection import HTTPOptions

Context = Mapping[str, Any]

sys.modules["trio"] = None  # type: ignore[assignment]  # Programs of users have none: httpcore2 would load it.

_OF_TYPE: Final[Mapping[str, Any]] = {"string": "text", "integer": 1, "number": 1.5, "boolean": True, "array": []}


class Fixture(Client):
    """Answers whatever a server asks."""

    async def on_elicit(self, ctx: Any, params: t.ElicitRequestParams) -> t.ElicitResult:
        form = params.model_dump()["requestedSchema"]["properties"]
        filled = {name: field.get("default", _OF_TYPE.get(field["type"])) for name, field in form.items()}
        return t.ElicitResult(action="accept", content=filled)

    async def on_create_message(self, ctx: Any, params: t.CreateMessageRequestParams) -> t.CreateMessageResult:
        content = t.TextContent(text="This is what the model says.")
        return t.CreateMessageResult(role="assistant", model="fixture", content=content)

    async def on_list_roots(self, ctx: Any, params: t.ListRootsRequestParams) -> t.ListRootsResult:
        return t.ListRootsResult(roots=[t.Root(uri="file:///fixture", name="fixture")])


async def open_only(client: Fixture, context: Context) -> None:
    """Do nothing more."""


async def list_tools(client: Fixture, context: Context) -> None:
    await client.list_tools()


async def call_first(client: Fixture, context: Context) -> None:
    """Call the first tool there is, with 1 for every number."""
    tool = (await client.list_tools()).tools[0]
    properties = tool.model_dump()["inputSchema"].get("properties", {})
    await client.call_tool(
        name=tool.name, arguments={name: _OF_TYPE[schema["type"]] for name, schema in properties.items()}
    )


def call(name: str) -> Callable[[Fixture, Context], Awaitable[None]]:
    """What calls one tool, once it is sure that there is one."""

    async def act(client: Fixture, context: Context) -> None:
        assert any(tool.name == name for tool in (await client.list_tools()).tools), f"there is no {name}"
        await client.call_tool(name=name)

    return act


async def send_all_headers(client: Fixture, context: Context) -> None:
    """Use every method that is named in headers."""
    for tool in (await client.list_tools()).tools:
        await client.call_tool(name=tool.name)
    for resource in (await client.list_resources()).resources:
        await client.read_resource(uri=resource.uri)
    for prompt in (await client.list_prompts()).prompts:
        await client.get_prompt(name=prompt.name)


async def call_listed_tools(client: Fixture, context: Context) -> None:
    await client.list_tools()
    for call in context["toolCalls"]:
        await client.call_tool(name=call["name"], arguments=call["arguments"])


async def call_all(client: Fixture, context: Context) -> None:
    """Call every tool that may be called."""
    for tool in (await client.list_tools()).tools:
        await client.call_tool(name=tool.name, arguments={})


async def echo_schema(client: Fixture, context: Context) -> None:
    """Send back a schema as it came."""
    [schema] = [
        tool.input_schema for tool in (await client.list_tools()).tools if tool.name == "json_schema_2020_12_tool"
    ]
    await client.call_tool(name="json_schema_echo", arguments={"schema": schema.model_dump()})


async def call_side_by_side(client: Fixture, context: Context) -> None:
    """Call all tools at once: what one of them asks concerns no other."""
    tools = (await client.list_tools()).tools
    await asyncio.gather(*(client.call_tool(name=tool.name, arguments={}) for tool in tools))


SCENARIOS: Final[Mapping[str, Callable[[Fixture, Context], Awaitable[None]]]] = {
    "initialize": open_only,
    "tools_call": call_first,
    "elicitation-sep1034-client-defaults": call("test_client_elicitation_defaults"),
    "sse-retry": call("test_reconnection"),
    "request-metadata": open_only,
    "http-standard-headers": send_all_headers,
    "http-custom-headers": call_listed_tools,
    "http-invalid-tool-headers": call_all,
    "json-schema-ref-no-deref": list_tools,
    "json-schema-2020-12-preservation": echo_schema,
    "sep-2322-client-request-state": call_side_by_side,
}


async def main(url: str) -> None:
    scenario = os.environ["MCP_CONFORMANCE_SCENARIO"]
    if scenario.startswith("sep-2640-"):
        from client_skills import use_skills

        await use_skills(scenario, url)
        return
    protected = scenario.startswith("auth/")
    act = call_all if protected else SCENARIOS[scenario]
    revision = os.environ["MCP_CONFORMANCE_PROTOCOL_VERSION"]
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    reach = HTTPOptions()
    if protected:
        from client_auth import authorization

        reach = HTTPOptions(auth=authorization(scenario, url, context))
    # Servers with the login of 2025-03-26 may have been updated in all else: nothing tells the client what to expect.
    revisions = "all" if scenario.startswith("auth/2025-03-26") else [revision]
    async with Fixture.http(url, http=reach, revisions=revisions) as client:
        await act(client, context)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[-1]))
