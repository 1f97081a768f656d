"""A document of many operations costs one conversion for each component, and one compilation for each schema."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest

from mcp_generated import App
from mcp_products.app.signatures import argument_models
from mcp_products.openapi import schemas as component_schemas
from mcp_products.openapi.document import OpenAPIDocument

OPERATIONS = 40


def document(names: list[str]) -> dict[str, Any]:
    """Return a document whose operations send and return components that refer to others."""
    schemas: dict[str, Any] = {
        name: {"type": "object", "properties": {"next": {"$ref": f"#/components/schemas/{after}"}}}
        for name, after in zip(names, [*names[1:], names[0]], strict=True)
    }
    reference = {"$ref": f"#/components/schemas/{names[0]}"}
    content = {"content": {"application/json": {"schema": {"type": "object", "properties": {"item": reference}}}}}
    operation = {"requestBody": content, "responses": {"200": content}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "x", "version": "1"},
        "paths": {f"/{number}": {"post": {**operation, "operationId": f"n{number}"}} for number in range(OPERATIONS)},
        "components": {"schemas": schemas},
    }


def converted(source: dict[str, Any]) -> App:
    """Return the app of a document."""
    return App.from_openapi(source, httpx2.AsyncClient(base_url="https://api.test"))


def test_a_component_is_converted_once_for_arguments_and_once_for_results(monkeypatch: pytest.MonkeyPatch) -> None:
    targets: list[str] = []
    models: list[str] = []
    target, create = OpenAPIDocument.target, argument_models.create_model

    def counted_target(self: OpenAPIDocument, reference: str) -> Any:
        targets.append(reference)
        return target(self, reference)

    def counted_model(name: str, **fields: Any) -> Any:
        models.append(name)
        return create(name, **fields)

    monkeypatch.setattr(component_schemas.OpenAPIDocument, "target", counted_target)
    monkeypatch.setattr(argument_models, "create_model", counted_model)
    names = [f"c{number}" for number in range(10)]
    app = converted(document(names))
    assert len(asyncio.run(app.list_tools())) == OPERATIONS
    assert len(targets) == 2 * len(names)  # Arguments leave out readOnly properties, results writeOnly ones.
    assert models == []  # The schemas of the document validate the arguments.


def test_components_of_the_same_last_name_stay_apart() -> None:
    source = document(["a", "b"])
    source["components"]["parts"] = {"a": {"type": "integer"}}
    for number, (first, second) in enumerate([("schemas", "parts"), ("parts", "schemas")]):
        properties = {"x": {"$ref": f"#/components/{first}/a"}, "y": {"$ref": f"#/components/{second}/a"}}
        content = {"application/json": {"schema": {"type": "object", "properties": properties}}}
        source["paths"][f"/both{number}"] = {
            "post": {"operationId": f"both{number}", "requestBody": {"content": content}}
        }
    tools = {tool.name: tool.input_schema.model_dump() for tool in asyncio.run(converted(source).list_tools())}
    for name, (object_key, integer_key) in {"both0": ("x", "y"), "both1": ("y", "x")}.items():
        schema = tools[name]
        definitions = schema["$defs"]

        def of(key: str, schema: Any = schema, definitions: Any = definitions) -> Any:
            return definitions[schema["properties"][key]["$ref"].rpartition("/")[2]]

        assert of(integer_key) == {"type": "integer"}
        assert of(object_key)["type"] == "object"
        inner = of(object_key)["properties"]["next"]["$ref"].rpartition("/")[2]
        assert definitions[inner]["properties"]["next"]["$ref"].rpartition("/")[2] != inner
