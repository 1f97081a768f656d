"""Tests of what `help()` shows: every parameter of the public entry points is documented where users look."""

from __future__ import annotations

import inspect
import pydoc
import re
from collections.abc import Callable
from typing import Any

import pytest
from house.calls.public_list import public_members, public_names

import mcp_generated
from mcp_generated.v2026_07_28 import Client, Server, SyncClient
from mcp_runtime.bindings import arguments as settings
from mcp_runtime.client.core import ClientContext
from mcp_runtime.endpoint.context import Context
from mcp_runtime.server.context import ServerContext

CONNECTION_METHODS = ("stdio", "http", "memory")
SERVER_METHODS = ("run", "asgi", "serve")

ENTRY_POINTS: list[Callable[..., Any]] = [
    mcp_generated.connect,
    mcp_generated.App.__init__,
    Client.__init__,
    SyncClient.__init__,
    Server.__init__,
    Server.context.__init__,
    *(getattr(client, name) for client in (Client, SyncClient) for name in CONNECTION_METHODS),
    *(getattr(Server, name) for name in SERVER_METHODS),
]
CONTEXT_METHODS = [
    method
    for name, method in inspect.getmembers(Server.context, inspect.isfunction)
    if not name.startswith("_") and method.__module__.startswith(("mcp_runtime", "mcp_products"))
]


def parameters_of(function: Callable[..., Any]) -> set[str]:
    """Return the parameters of a function; the keywords of `**settings` unless these are documented together."""
    names = set(inspect.signature(function).parameters) - {"self", "cls"}
    annotation = re.fullmatch(r"Unpack\[(\w+)\]", str(function.__annotations__.get("settings")))
    if annotation is not None and "settings" not in documented(inspect.getdoc(function) or ""):
        names = names - {"settings"} | set(vars(settings)[annotation.group(1)].__annotations__)
    return names


def documented(docstring: str) -> set[str]:
    """Return the names in the `Args:` section of a docstring."""
    section = re.search(r"^Args:\n((?:[ ]{4}.*\n?)*)", docstring, re.MULTILINE)
    return set() if section is None else set(re.findall(r"^    (\w+): ", section.group(1), re.MULTILINE))


@pytest.mark.parametrize("function", [*ENTRY_POINTS, *CONTEXT_METHODS], ids=lambda function: function.__qualname__)
def test_help_documents_every_parameter(function: Callable[..., Any]) -> None:
    docstring = inspect.getdoc(function) or ""
    parameters = parameters_of(function)
    assert parameters - documented(docstring) == set()
    text = pydoc.plain(pydoc.render_doc(function))
    assert all(f"{name}: " in text for name in parameters)


@pytest.mark.parametrize(
    "public_class", [mcp_generated.App, mcp_generated.Context, Client, SyncClient, Server], ids=lambda cls: cls.__name__
)
def test_help_of_a_class_shows_its_constructor(public_class: type[Any]) -> None:
    text = pydoc.plain(pydoc.render_doc(public_class))
    for name in set(inspect.signature(public_class.__init__).parameters) - {"self"}:
        assert re.search(rf"^ \|\s+{name}: ", text, re.MULTILINE), name


@pytest.mark.parametrize("context", [Context, ClientContext, ServerContext], ids=lambda cls: cls.__name__)
def test_help_of_a_context_lists_its_attributes(context: type[Any]) -> None:
    properties = {
        name
        for name, _ in inspect.getmembers(context, lambda member: isinstance(member, property))
        if not name.startswith("_")
    }
    docstring = inspect.getdoc(context) or ""
    assert {name for name in properties | {"state"} if f"    {name}: " not in docstring} == set()


def test_every_public_name_has_a_hover_text() -> None:
    texts = {name: value.__doc__ for name, value in public_names().items()}
    for name, value in public_names().items():
        if inspect.isclass(value):
            members = public_members(value)
            texts |= {f"{name}.{member}": inspect.getdoc(getattr(value, member)) for member in members}
    missing = [key for key, text in texts.items() if not text or not re.match(r"[A-Z`]", text.strip())]
    assert missing == []


def test_enough_names_are_public() -> None:
    assert len(public_names()) > 300
