"""What our client expands is what our server reads: the same values, with every operator, whatever stands between."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.clients import connect

from mcp_generated import App, Gateway, LocalError
from mcp_products.app.components.uris import URITemplate
from mcp_products.host.resources import expand, variables_of
from mcp_runtime.errors import JSONRPCError

# Between two variables of a path stands a character that their values do not have unencoded.
PATHS = ["a://{x}", "a://{x}/info", "a://h/{x,y}", "a://h/{+x}", "a://h/{+x}/end", "a://h/{+x}/{y}", "a://h/{y}/{+x}",
         "a://h{/x}", "a://h{/x,y}", "a://h{/x,y}/end", "a://h/{x*}", "a://h{/x*}", "a://h/X{.x}", "a:{x}/{y}",
         "urn:é:{x}:{y}", "a://été/{x}", "a://h/{x}{/y}", "a://h/({x})"]  # fmt: skip
NAMED = ["a://h{;x}", "a://h{;x,y}/end", "a://h{?x}", "a://h{?x,y}", "a://h?fixed=yes{&x,y}", "a://h?ref={x}{&y}",
         "a://h?ref={x}&y={y}", "a://h{#x}", "a://h#{x}", "a://h{?x}{#y}", "a://h{;x}{?y}", "a://h/{z}{;x}{?y}",
         "a://{z}/v{?x,y}", "A://Host/{z}{/w}{?x,y}"]  # fmt: skip
LISTS = ["a://h/{x*}", "a://h/{x}", "a://h{/x*}", "a://h{/x}", "a://h{;x*}", "a://h{;x}", "a://h{?x*}", "a://h{?x}",
         "a://h?y=1{&x*}", "a://h?y=1{&x}", "a://h/{z}{?x*,y}"]  # fmt: skip
ANY = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8)
TEXTS = ["feature/x", "a b", "50%", "%2F", "%41", "a,b", "a;b=c", "a&b=c", "a#b", "a?b", "é€😀", "a\\b", "c:x", "{x}",
         "a+b", "a//b", "=", "&", ";", ",", "+", "~", "'\"", "http://h/p?q#f", "/abs", "../up", "a/../b", "..",
         ".hidden", "a:b", "[1]", "true", "NaN"]  # fmt: skip
VALUE = st.one_of(st.sampled_from(TEXTS), ANY)
MANY = settings(max_examples=300, deadline=None, derandomize=True, database=None)


def expanded(template: str, values: dict[str, Any]) -> str | None:
    """Return the URI of a template; None if our client refuses the values."""
    try:
        return expand(template, values)
    except LocalError:
        return None


def reader(text: str, lists: tuple[str, ...] = ()) -> URITemplate:
    template = URITemplate(text)
    template.read_as(lists=lists, paths=())
    return template


@pytest.mark.long
@MANY
@given(st.sampled_from(PATHS + NAMED), st.fixed_dictionaries(dict.fromkeys("xyzw", VALUE)))
def test_every_operator_is_read_back(text: str, values: dict[str, str]) -> None:
    template = reader(text)
    variables = {name: values[name] for name in variables_of(text)}
    uri = expanded(text, variables)
    if uri is not None:
        assert template.match(uri) == variables, uri


def test_only_values_that_leave_their_directory_are_refused_by_the_client() -> None:
    leaving = {"..", "../up", "a/../b", "/abs"}
    for value in ["feature/x", "a//b", "a%2Fb", "a\\b", "c:x", "http://h/p?q#f", "a;b=c", ".hidden", *leaving]:
        assert (expanded("data://{x}/info", {"x": value}) is None) is (value in leaving), value
        assert expanded("data://h{?x}", {"x": value}) is not None, value


@pytest.mark.long
@MANY
@given(st.sampled_from(LISTS), st.lists(VALUE, min_size=1, max_size=4), VALUE)
def test_lists_are_read_back(text: str, items: list[str], other: str) -> None:
    template = reader(text, ("x",))
    values: dict[str, Any] = {name: items if name == "x" else other for name in variables_of(text)}
    uri = expanded(text, values)
    if uri is not None:
        assert template.match(uri) == values, uri


@pytest.mark.long
@MANY
@given(st.sampled_from(NAMED), st.sets(st.sampled_from("xyzw")), VALUE)
def test_what_may_be_absent_is_absent(text: str, absent: set[str], value: str) -> None:
    template = reader(text)
    variables = {name: value for name in template.names if not (name in absent and name in template.optional)}
    uri = expanded(text, variables)
    if uri is not None:
        assert template.match(uri) == variables, uri


@pytest.mark.parametrize("value", ["../x", "/etc/passwd", "a/../../b", "%2e%2e/x", "c:\\x"])
def test_a_query_value_that_is_the_path_of_a_file_stays_in_its_directory(value: str) -> None:
    for uri in ("file:///h{?x}", "FILE:///h{#x}"):
        with pytest.raises(JSONRPCError, match="path traversal"):
            reader(uri).match(expand(uri, {"x": value}))


# ---- through apps, mounts, proxies and the gateway -------------------------------------------------------------------

SERVED: list[tuple[str, dict[str, Any]]] = [
    ("data://{path}/info", {"path": "feature/x"}),
    ("plus://h/{+path}/end", {"path": "a/b c/é"}),
    ("spans://h/{path*}", {"path": "a/b,c"}),
    ("two://h/{x,y}", {"x": "1,2", "y": "a/b"}),
    ("slash://h{/x,y}", {"x": "a/b", "y": "a%2Fb"}),
    ("dot://h/v{.x}", {"x": "a"}),
    ("semi://h{;x,y}/z", {"x": "a;b=c", "y": "d/e"}),
    ("query://h{?x,y}", {"x": "/api?a=b&c#d", "y": "../50%"}),
    ("more://h?v=1{&x}", {"x": "+ +"}),
    ("hash://h{#x}", {"x": "a/b?c"}),
    ("note://été/{x}", {"x": "ß/x"}),
    ("list://h{?x*}", {"x": ["a,b", "c&d"]}),
    ("items://h{/x*}", {"x": ["a", "b/c"]}),
]


def library() -> App:
    app = App("library")

    def add(uri: str, names: list[str]) -> None:
        def read(**values: Any) -> str:
            return json.dumps({key: value for key, value in values.items() if value is not None})

        kind, hint = inspect.Parameter.KEYWORD_ONLY, list[str] if uri.startswith(("list", "items")) else str
        default = None if set("?&;#") & set(uri) else inspect.Parameter.empty
        parameters = [inspect.Parameter(name, kind, annotation=hint | None, default=default) for name in names]
        read.__signature__ = inspect.Signature(parameters, return_annotation=str)  # type: ignore[attr-defined]
        read.__annotations__ = dict.fromkeys(names, hint | None) | {"return": str}
        app.add_resource(uri, read, name=uri.partition(":")[0])

    for uri, values in SERVED:
        add(uri, list(values))
    return app


PROGRAM = "import test_expanded_uris\ntest_expanded_uris.library().run()\n"


async def ways(way: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    """Yield a client of the library behind each kind of what can stand between."""
    app = library()
    if way.startswith("mounted"):
        outer = App("outer")
        outer.mount(app, "pre" if way == "mounted" else "Été")
        app = outer
    elif way == "proxied":
        app = App.proxy(app)
    elif way == "mounted proxy":
        outer = App("outer")
        outer.mount(App.proxy(app), "pre")
        app = outer
    elif way.startswith("gateway"):
        paths = [*sys.path, str(Path(__file__).parent)]
        monkeypatch.setenv("PYTHONPATH", ":".join(path for path in paths if path))
        env = {"PYTHONPATH": "${PYTHONPATH}"}
        upstream = {"command": sys.executable, "args": ["-c", PROGRAM], "env": env}
        more = {"prefix": ""} if way == "gateway without prefix" else {}
        app = Gateway({"upstreams": {"lib": {**upstream, **more}}}).app
    async with connect(app) as client:
        yield client


WAYS = ["direct", "mounted", "mounted é", "proxied", "mounted proxy", "gateway", "gateway without prefix"]


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
async def test_values_arrive_through_everything_that_stands_between(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read: dict[str, Any] = {}
    async for client in ways(way, monkeypatch):
        templates = {item.uri_template: item async for item in client.iter_resource_templates()}
        assert len(templates) == len(SERVED)
        for (uri, values), listed in zip(SERVED, templates, strict=True):
            result = await client.read_resource(expand(listed, values))
            read[uri] = json.loads(result.contents[0].text)
    assert read == dict(SERVED)
