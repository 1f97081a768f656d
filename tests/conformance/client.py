"""A client for the official conformance suite, which starts it with the URL of a server as its last argument.

The environment says what to do: MCP_CONFORMANCE_SCENARIO, MCP_CONFORMANCE_PROTOCOL_VERSION, and, where a scenario has
one, MCP_CONFORMANCE_CONTEXT as JSON. One client, written for the newest revision, speaks all of them.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from client_auth import authorization

from mcp_generated.extensions.skills import Client as SkillsClient
from mcp_generated.extensions.skills.types import Skill
from mcp_generated.v2026_07_28 import Client
from mcp_generated.v2026_07_28 import types as t
from mcp_products.skills.client import VerifiedSkill
from mcp_runtime.errors import SkillVerificationError
from mcp_runtime.transports.http_client.connection import HTTPOptions

Context = Mapping[str, Any]

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


async def list_skills(client: SkillsClient) -> list[Skill]:
    """List the skills, and read none."""
    return [skill async for skill in client.iter_skills()]


async def read_skills(client: SkillsClient) -> None:
    """Load every skill that is what its entry says, and read all its files."""
    for skill in await list_skills(client):
        try:
            held = VerifiedSkill(client, skill)
            await held.load()
            for path in held.paths:
                await held.read(path)
        except SkillVerificationError as error:
            print(f"not loaded: {error}")


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


SKILLS: Final[Mapping[str, Callable[[SkillsClient], Awaitable[object]]]] = {
    "sep-2640-client-no-prefetch": list_skills,
    "sep-2640-client-verify-digest": read_skills,
    "sep-2640-client-verify-size": read_skills,
    "sep-2640-client-verify-frontmatter": read_skills,
}


async def main(url: str) -> None:
    scenario = os.environ["MCP_CONFORMANCE_SCENARIO"]
    if scenario in SKILLS:
        async with SkillsClient.http(url) as client:
            await SKILLS[scenario](client)
        return
    protected = scenario.startswith("auth/")
    act = call_all if protected else SCENARIOS[scenario]
    revision = os.environ["MCP_CONFORMANCE_PROTOCOL_VERSION"]
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    reach = HTTPOptions(auth=authorization(scenario, url, context)) if protected else HTTPOptions()
    # Servers with the login of 2025-03-26 may have been updated in all else: nothing tells the client what to expect.
    revisions = "all" if scenario.startswith("auth/2025-03-26") else [revision]
    async with Fixture.http(url, http=reach, revisions=revisions) as client:
        await act(client, context)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[-1]))
