"""Use servers/composition.py, and the context of servers/context.py, with FastMCP's client; print what it received.

Arguments: the calls as JSON, and a server's command or its URL. It runs in an environment with FastMCP.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import anyio
from fastmcp import Client
from fastmcp.client.transports import StdioTransport


async def elicit(message: str, response_type: Any, params: Any, context: Any) -> Any:
    """Fill all properties of a form in."""
    properties = params.requested_schema["properties"] if hasattr(params, "requested_schema") else {}
    values = {"integer": 3, "boolean": True}
    return {name: values.get(schema.get("type", "string"), "text") for name, schema in properties.items()}


async def sample(messages: Any, params: Any, context: Any) -> str:
    """Repeat the last text in capital letters."""
    return str(messages[-1].content.text).upper()


async def outcome(client: Any, name: str, arguments: dict[str, Any]) -> Any:
    """Return the result of a call as JSON, or its error."""
    try:
        result = await client.call_tool_mcp(name, arguments)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)


async def main(calls: dict[str, Any], server: list[str]) -> None:
    """Print the results of the calls, and the lists before and after them."""
    command, *arguments = server
    target: Any = StdioTransport(command, arguments) if arguments else command
    roots = ["file:///work"]
    with anyio.fail_after(60):
        async with Client(target, elicitation_handler=elicit, sampling_handler=sample, roots=roots) as client:
            tools = [tool.name for tool in await client.list_tools()]
            seen: dict[str, Any] = {"before": tools}
            listed = {*tools, "delete_all", "secret"}
            seen["calls"] = {
                name: await outcome(client, name, values) for name, values in calls.items() if name in listed
            }
            seen["after"] = [tool.name for tool in await client.list_tools()]
            seen["resources"] = [str(resource.uri) for resource in await client.list_resources()]
            if "price" in tools:
                seen["resource"] = (await client.read_resource("note://text"))[0].text
                prompt = await client.get_prompt("question", {"thing": "tea"})
                seen["prompt"] = prompt.messages[0].content.text
    print(json.dumps(seen))


if __name__ == "__main__":
    logging.disable()
    anyio.run(main, json.loads(sys.argv[1]), sys.argv[2:])
