"""No class and no module has the name of another one in its package, but where two sides have the same noun."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Mapping

import pytest
from support.source_tree import definitions, modules

# Names of modules that stand twice or more, by package, and why each is the right word in all its folders.
SHARED_MODULES = {
    "mcp_runtime": {
        "app": "App, and the ASGI applications of the HTTP server and of the authorization server",
        "client": "the client's side of bindings, of an extension and of a transport",
        "completion": "MCP's utility, on its two sides",
        "connection": "JSON-RPC's connection, and HTTP's",
        "context": "the context of a handler: what both sides share, and the server's",
        "core": "what a server is and what a client is, without transports",
        "dpop": "RFC 9449: the client proves, the resource server verifies",
        "http": "HTTP of the OAuth client, and of the authorization server",
        "legacy_sse": "HTTP+SSE of 2024-11-05, on its two sides",
        "models": "models of the protocol, and of the authorization server",
        "provider": "the OAuth client's, and the skills extension's (MCP's word and Agent Skills' word)",
        "requests": "requests of JSON-RPC, and of OAuth",
        "roots": "MCP's roots, on the two sides, and what these share",
        "server": "the server's side of bindings, of an extension and of a transport",
        "settings": "settings of App, and of the transports that a server or client is run with",
        "storage": "what an OAuth client stores, and what an authorization server stores",
        "subscriptions": "MCP's subscriptions, on the two sides",
        "tools": "MCP's tools, on the two sides",
    },
    "mcp_codegen": {
        "canonical": "canonical schemas of revisions, and of the tools of live servers",
        "catalog": "the catalog of revisions, and that of extensions",
        "changes": "changes between revisions, and between two states of a live server",
        "clarity": "the report and its command",
        "compare": "compares revisions, and two states of a live server",
        "error_codes": "error codes of a revision, and their conversion",
        "host_config": "the configuration of hosts and its command",
        "importer": "imports revisions, and extensions",
        "ir": "the intermediate representation and its command",
        "report": "the report on changes between revisions, and between states of a live server",
        "types": "types of the model, and their rendering",
        "verify": "verifies what is rendered, and what a live server returns",
    },
}

# Names of classes that stand twice, by package, and why.
SHARED_CLASSES: dict[str, dict[str, str]] = {
    "mcp_runtime": {},
    "mcp_codegen": {},
}

HAND_WRITTEN = ["mcp_runtime", "mcp_codegen"]


def repeated(places: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Return the names that stand in more than one place."""
    return {name: where for name, where in places.items() if len(where) > 1}


@pytest.mark.parametrize("package", HAND_WRITTEN)
def test_no_module_name_stands_twice(package: str) -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for module, path in modules(package).items():
        if not path.stem.startswith("__"):
            places[path.stem].append(module)
    assert {name: where for name, where in repeated(places).items() if name not in SHARED_MODULES[package]} == {}
    assert SHARED_MODULES[package].keys() <= repeated(places).keys(), "the table names modules that stand once"


@pytest.mark.parametrize("package", HAND_WRITTEN)
def test_no_class_name_stands_twice(package: str) -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for module, path in modules(package).items():
        for node in definitions(path):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(module)
    allowed = SHARED_CLASSES[package]
    assert {name: where for name, where in repeated(places).items() if name not in allowed} == {}
    assert SHARED_CLASSES[package].keys() <= repeated(places).keys(), "the table names classes that stand once"
