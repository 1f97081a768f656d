"""Ask a server all that it lists, with the official client, and print the answers as JSON.

Arguments: the modes of the client, one after the other, a JSON file of requests or `-`, and a URL or the words of a
command. The requests are those that an earlier run has printed; `-` makes them from the lists.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, MCPError, StdioServerParameters, types

LIMIT = 20.0


def value_of(schema: dict[str, Any], root: dict[str, Any]) -> Any:
    """Return a value that a schema allows."""
    if "$ref" in schema:
        schema = root.get("$defs", {}).get(schema["$ref"].rpartition("/")[2], {})
    if "default" in schema:
        return schema["default"]
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    for key in ("anyOf", "oneOf"):
        if schema.get(key):
            return value_of(schema[key][0], root)
    match schema.get("type"):
        case "object":
            names = schema.get("required", [])
            return {name: value_of(schema.get("properties", {}).get(name, {}), root) for name in names}
        case "array":
            return [value_of(schema.get("items", {}), root)]
        case "integer" | "number":
            return max(schema.get("minimum", 2), 2)
        case "boolean":
            return True
        case "string" if schema.get("format") in ("uri", "url"):
            return "http://127.0.0.1:1/"
        case "string" if schema.get("format") == "date":
            return "2026-01-02"
        case "null":
            return None
        case _:
            return "text"


async def on_sampling(context: Any, params: Any) -> Any:
    """Answer a request to sample."""
    content = types.TextContent(type="text", text="sampled")
    return types.CreateMessageResult(role="assistant", content=content, model="model", stop_reason="endTurn")


async def on_elicitation(context: Any, params: Any) -> Any:
    """Accept, with values that fit the requested schema."""
    schema = getattr(params, "requested_schema", None)
    if schema is None:
        return types.ElicitResult(action="accept")
    plain = schema if isinstance(schema, dict) else schema.model_dump(by_alias=True, exclude_none=True)
    fields = plain.get("properties", {})
    return types.ElicitResult(action="accept", content={name: value_of(fields[name], plain) for name in fields})


async def on_roots(context: Any) -> Any:
    """Return one root."""
    return types.ListRootsResult(roots=[types.Root(uri="file:///tmp", name="tmp")])


def plain(model: Any) -> Any:
    """Return what is compared of a result."""
    fields = model.model_dump(mode="json", by_alias=True, exclude_none=True)
    for name in ("_meta", "resultType", "ttlMs", "cacheScope"):
        fields.pop(name, None)
    return fields


async def answer(call: Any) -> Any:
    """Return the answer to one request, or that it failed."""
    try:
        with anyio.fail_after(LIMIT):
            return plain(await call)
    except MCPError:
        return {"error": True}
    except TimeoutError:
        return {"error": "timeout"}
    except Exception as error:  # What the official client refuses about an answer.
        return {"error": f"{type(error).__name__}: {error}"[:300]}


async def listed(call: Any, name: str) -> list[dict[str, Any]]:
    """Return the items of a list, none where the server has no such list."""
    return (await answer(call)).get(name, [])


async def requests_of(client: Client) -> list[list[Any]]:
    """Make the requests from what the server lists."""
    requests: list[list[Any]] = []
    for tool in await listed(client.list_tools(), "tools"):
        schema = tool["inputSchema"]
        requests.append(["tool", tool["name"], value_of({**schema, "type": "object"}, schema)])
        requests.append(["tool", tool["name"], {"no such argument": [1]} if schema.get("required") else {}])
    requests += [["resource", item["uri"], None] for item in await listed(client.list_resources(), "resources")]
    for item in await listed(client.list_resource_templates(), "resourceTemplates"):
        uri = item["uriTemplate"]
        while "{" in uri:
            uri = uri[: uri.index("{")] + "abc" + uri[uri.index("}") + 1 :]
        requests.append(["resource", uri, None])
    for prompt in await listed(client.list_prompts(), "prompts"):
        names = [argument["name"] for argument in prompt.get("arguments", [])]
        requests.append(["prompt", prompt["name"], dict.fromkeys(names, "abc")])
    return requests


async def answers_of(client: Client, requests: list[list[Any]]) -> list[Any]:
    """Return the three lists of names, and the answer to each request."""
    answers: list[Any] = [
        sorted(item["name"] for item in await listed(client.list_tools(), "tools")),
        sorted(item["uri"] for item in await listed(client.list_resources(), "resources")),
        sorted(item["name"] for item in await listed(client.list_prompts(), "prompts")),
    ]
    for kind, name, arguments in requests:
        match kind:
            case "tool":
                answers.append(await answer(client.call_tool(name, arguments)))
            case "resource":
                answers.append(await answer(client.read_resource(name)))
            case _:
                answers.append(await answer(client.get_prompt(name, arguments)))
    return answers


async def main(modes: str, file: str, *target: str) -> None:
    """Print `{"requests": […], "answers": [those of each mode]}`."""
    server: Any = target[0]
    if not server.startswith("http"):
        server = StdioServerParameters(command=target[0], args=[*target[1:]])
    callbacks: Any = {"sampling_callback": on_sampling, "elicitation_callback": on_elicitation}
    requests = None if file == "-" else json.loads(Path(file).read_text(encoding="utf-8"))
    answers: list[Any] = []
    for mode in modes.split(","):
        async with Client(server, mode=mode, list_roots_callback=on_roots, **callbacks) as client:
            requests = requests or await requests_of(client)
            answers.append(await answers_of(client, requests))
    print(json.dumps({"requests": requests, "answers": answers}))


if __name__ == "__main__":
    logging.disable()
    anyio.run(main, *sys.argv[1:])
