"""What type checkers see of `mcp_generated.compat` is what runs: the keywords of servers, and the names of classes."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from support.installation.extras import needs

from mcp_generated import App, compat
from mcp_generated.compat import FastMCP, MCPServer
from mcp_products.compat import keywords as official_keywords
from mcp_products.compat.keywords import OfficialMethods

POSITIONAL = ("name", "instructions", "website_url", "icons", "title", "description", "version")


def keywords(name: str) -> set[str]:
    """The keywords of a TypedDict of signatures."""
    fields: dict[str, Any] = getattr(official_keywords, name).__annotations__
    return set(fields)


def refused(call: Callable[..., Any], keywords: set[str]) -> list[str]:
    """The keywords that a callable refuses; None is the default of each of them in the official SDK."""
    messages: list[str] = []
    for keyword in sorted(keywords):
        try:
            call(**{keyword: None})
        except TypeError as error:
            messages.append(str(error))
    return messages


@pytest.mark.parametrize("server_class", [FastMCP, MCPServer])
def test_a_constructor_takes_every_keyword_that_checkers_know(server_class: Any) -> None:
    assert len(keywords("OfficialServerKeywords")) > 40
    assert refused(server_class, keywords("OfficialServerKeywords") | {*POSITIONAL}) == []
    assert len(refused(server_class, {"no_such_keyword"})) == 1


def test_checkers_know_every_keyword_that_an_app_takes() -> None:
    hints = inspect.signature(App).parameters
    own = {name for name, hint in hints.items() if hint.kind in (hint.POSITIONAL_OR_KEYWORD, hint.KEYWORD_ONLY)}
    assert len(own) > 10
    assert own - keywords("OfficialServerKeywords") <= {*POSITIONAL}


@pytest.mark.parametrize("method", ["run", "run_async", "run_http_async", "streamable_http_app", "http_app", "tool"])
def test_a_method_for_checkers_is_one_of_the_server(method: str) -> None:
    declared = getattr(OfficialMethods, method)
    assert declared.__doc__ and callable(getattr(FastMCP("x"), method))


@needs("http")
def test_an_http_application_takes_every_keyword_that_checkers_know() -> None:
    names_of_all = keywords("OfficialRunKeywords") - {"revisions", "uvicorn", "workers"}
    assert len(names_of_all) > 30
    assert refused(FastMCP("x").streamable_http_app, names_of_all) == []
    assert len(refused(FastMCP("x").streamable_http_app, {"no_such_keyword"})) == 1


def imports() -> dict[str, tuple[str, str]]:
    """The module and the name there of each name that type checkers alone find in `compat`."""
    tree = ast.parse(Path(str(compat.__file__)).read_text(encoding="utf-8"))
    return {
        alias.asname.removeprefix("_"): (node.module, alias.name)
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module and not node.level
        for alias in node.names
        if alias.asname
    }


@pytest.mark.parametrize("name", sorted(imports()))
def test_a_name_is_the_same_for_checkers_and_programs(name: str) -> None:
    module, other = imports()[name]
    assert getattr(compat, name) is getattr(import_module(module), other)


def test_checkers_know_the_names_of_the_official_sdk() -> None:
    assert {"AccessToken", "MCPError", "Message", "Progress", "SubscriptionBus", "UriTemplate"} <= imports().keys()
    assert len(imports()) > 150


def test_hints_of_the_keywords_name_what_exists() -> None:
    for name in ("OfficialServerKeywords", "OfficialRunKeywords", "OfficialToolKeywords", "LowLevelHTTPKeywords"):
        assert len(get_type_hints(getattr(official_keywords, name))) > 10, name
