"""The module of the app that is generated: what stands in it, stated by hand."""

from __future__ import annotations

import ast

from mcp_codegen.catalog import SchemaCatalog
from mcp_codegen.paths import data_path, template_folders
from mcp_codegen.render.package import render_app, render_multi, supports_apps


def test_the_app_and_the_client_of_several_servers_are_modules_with_their_classes() -> None:
    schemas = SchemaCatalog(data_path("schema"))
    newest = schemas.revision(list(schemas.pins)[-1])
    assert supports_apps(newest)
    for render, name, methods in (
        (render_app, "App", {"call_tool", "list_tools", "get_prompt", "read_resource"}),
        (render_multi, "MultiClient", {"call_tool", "list_tools"}),
    ):
        classes = [
            node for node in ast.parse(render(newest, template_folders())).body if isinstance(node, ast.ClassDef)
        ]
        (own,) = [node for node in classes if node.name == name]
        assert methods <= {node.name for node in own.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
