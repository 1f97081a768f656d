"""Which properties of the protocol hand-written code names, and why it may: an app is written in one release, and what
serves every revision takes its names from tables, or stops an import that renames them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.project import ROOT
from support.source_tree import python_files, relative, syntax_tree

from mcp_codegen.catalog import SchemaCatalog
from mcp_codegen.model.ir import Object, Revision
from mcp_codegen.model.lifecycle import BY_HAND, FROM_TABLES

PRODUCTS = ROOT / "products" / "mcp_products"
# What serves connections of every revision. All else is above it, and written in the release of the app.
OF_EVERY_REVISION = (
    *("common", "fast", "host", "hosting", "json_schema", "large", "legacy_sse", "lenient", "models", "platforms"),
    *("telemetry", "testing", "versions", "workers"),
)
CATALOG = SchemaCatalog(ROOT / "schema")
CHECKS, TYPES = "a check that has nothing to check without it", "a method of the types that have this attribute"
HELPERS = "helps programs with the client of `connect`, which is in the release of the app"
KEYWORDS = {"anyOf", "oneOf", "enumNames", *(f"{end}{what}" for end in ("min", "max") for what in ("Length", "Items"))}
REASONS = {
    "destructiveHint": TYPES,
    "idempotentHint": TYPES,
    "isError": "a failed call in logs and spans; a result without it has not failed",
    "listChanged": "a part of the path of a capability, which tables have",
    "maxTokens": HELPERS,
    "mimeType": CHECKS,
    "modelPreferences": HELPERS,
    "openWorldHint": TYPES,
    "outputSchema": HELPERS,
    "pollInterval": "an argument of the runtime's own, with the same name",
    "readOnlyHint": TYPES,
    "requestedSchema": CHECKS,
    "resourceTemplates": HELPERS,
    "requiredCapabilities": "the data of an error, which a program may read",
    "resultType": "a property with a default, which a result gets from its type",
    "stopReason": HELPERS,
    "stopSequences": HELPERS,
    "structuredContent": HELPERS,
    "systemPrompt": HELPERS,
    "toolChoice": HELPERS,
    "toolUseId": HELPERS,
    "uriTemplate": CHECKS,
    "websiteUrl": "what a server says of itself, left out where its type has no such property",
}


def snake(wire: str) -> str:
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", wire).lower()


def short(wire: str) -> str:
    """The name of a property without its namespace."""
    return wire.rpartition("/")[2]


def properties(*revisions: Revision) -> set[str]:
    """The properties whose names are of the protocol alone: of several words, or in its namespace."""
    objects = [at for revision in revisions for at in revision.types.values() if isinstance(at, Object)]
    return {short(field.wire) for at in objects for field in at.fields if re.search(r"[a-z][A-Z]|/", field.wire)}


ALL = properties(*map(CATALOG.revision, CATALOG.pins))
BY_TEXT = {name: name for name in ALL} | {snake(name): name for name in ALL}


def named(path: Path) -> Iterator[str]:
    """The properties that a module names, in a text or as an attribute."""
    tree = syntax_tree(path)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docs = {id(node.body[0]) for node in ast.walk(tree) if isinstance(node, documented) and node.body}
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and id(node) in docs}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            if node.value in BY_TEXT:
                yield BY_TEXT[node.value]
        elif isinstance(node, ast.Attribute) and node.attr in BY_TEXT and "_" in node.attr:
            yield BY_TEXT[node.attr]


def test_what_serves_every_revision_names_properties_of_the_two_lists_or_with_a_reason() -> None:
    products = [path for path in PRODUCTS.rglob("*.py") if path.relative_to(PRODUCTS).parts[0] in OF_EVERY_REVISION]
    found = {name for path in [*python_files("runtime"), *products] for name in named(path)}
    listed = {short(wire) for wires, _ in BY_HAND.values() for wire in wires}
    listed |= {place.partition(".")[2] for place in FROM_TABLES}
    assert found - listed - KEYWORDS == REASONS.keys()


@pytest.mark.parametrize("name", [*BY_HAND, *(place.partition(".")[0] for place in FROM_TABLES)])
def test_a_type_of_the_lists_has_the_properties_in_the_release_of_the_app(name: str) -> None:
    defined = CATALOG.revision(CATALOG.app_form).types[name]
    wires = {
        *BY_HAND.get(name, ((), ""))[0],
        *(at.partition(".")[2] for at in FROM_TABLES if at.startswith(f"{name}.")),
    }
    assert isinstance(defined, Object) and wires <= {field.wire for field in defined.fields}


def test_an_app_names_no_property_that_only_another_revision_has() -> None:
    own = properties(CATALOG.revision(CATALOG.app_form))
    # What the app does for clients of older releases, a method of a context, and the ids of an extension.
    others = {"elicitationId", "taskSupport", "execution", "createMessage", "taskId"}
    found = {relative(path): {*named(path)} - own - others for path in (PRODUCTS / "app").rglob("*.py")}
    assert len(found) > 50 and {path: names for path, names in found.items() if names} == {}
