"""`get_resource(name, variables)`: a resource or a template by its name; variables stay in their part of the URI."""

from __future__ import annotations

from typing import Any

import pytest
from support.clients import connect
from support.endpoints import Rev
from support.http.observed_clients import CELLS, observed_client

from mcp_generated import App, LocalError, MultiClient
from mcp_generated.v2026_07_28 import SyncClient
from mcp_products.host.resources import expand


def text_of(result: Any) -> str:
    return str(result.contents[0].text)


@CELLS
async def test_a_resource_and_a_template_are_read_by_name(transport: str, rev: Rev) -> None:
    async with observed_client(transport, rev) as client:
        for name in ("motto", "notes://motto", *(["The motto"] if rev.id >= "2025-06-18" else [])):
            assert text_of(await client.get_resource(name)) == "Read.", name
        variables = {"user": "Ada & Bob ü", "path": "a b/c.txt", "page": 2}
        result = await client.get_resource("note", variables, timeout=5)
        assert text_of(result) == "Ada & Bob ü|a b/c.txt|2"
        assert result.contents[0].uri == "notes://Ada%20%26%20Bob%20%C3%BC/a%20b/c.txt?page=2"
        assert text_of(await client.get_resource("note", {"user": "x", "path": "y"})) == "x|y|"


def library() -> App:
    app = App("library")
    for uri, name in (("a://one", "twin"), ("a://two", "twin"), ("a://plain", "plain")):
        app.add_resource(uri, lambda: "text", name=name)

    @app.resource("b://{row_id}/{+path}", name="book")
    def book(row_id: str, path: str) -> str:
        return f"{row_id}: {path}"

    return app


WRONG: list[tuple[str, dict[str, Any] | None, str]] = [
    ("bok", None, "the server has no resource 'bok'; did you mean 'book'?"),
    ("twin", None, "'twin' is the name of a://one, a://two: write read_resource(uri)"),
    ("plain", {"x": "1"}, "'plain' is a resource without variables: leave out x"),
    ("book", None, "needs the variable 'row_id'"),
    ("book", {"row_id": "1"}, "needs the variable 'path'"),
    ("book", {"row": "1", "path": "x"}, "has no variable 'row'; did you mean 'row_id'?"),
    ("book", {"row_id": "..", "path": "x"}, "'row_id' of 'b://{row_id}/{+path}' leaves its directory"),
    ("book", {"row_id": "1", "path": "../x"}, "leaves its directory"),
    ("book", {"row_id": "1", "path": "a/%2e%2e/x"}, "leaves its directory"),
    ("book", {"row_id": "1", "path": "a\\..\\x"}, "leaves its directory"),
    ("book", {"row_id": "1", "path": "/etc/passwd"}, "is a relative path"),
    ("book", {"row_id": "1", "path": "C:\\x"}, "is a relative path"),
    ("book", {"row_id": "1", "path": "x?admin=1"}, "is a relative path"),
    ("book", {"row_id": "1", "path": "x#y"}, "is a relative path"),
    ("book", {"row_id": "1\r\nx", "path": "x"}, "has a control character"),
    ("book", {"row_id": "a\x00b", "path": "x"}, "has a control character"),
    ("book", {"row_id": object(), "path": "x"}, "is text, a number, or a list or dict of these"),
]


@pytest.mark.parametrize(("name", "variables", "message"), WRONG)
async def test_wrong_names_and_variables_are_refused_in_one_line(
    name: str, variables: dict[str, Any] | None, message: str
) -> None:
    async with connect(library()) as client:
        with pytest.raises(LocalError) as caught:
            await client.get_resource(name, variables)
    assert message in str(caught.value) and len(str(caught.value).splitlines()) == 1


async def test_a_server_without_resources_has_none() -> None:
    async with connect(App("empty")) as client:
        with pytest.raises(LocalError, match="the server has no resource 'x'; it has none"):
            await client.get_resource("x")


async def test_the_other_clients_have_it_as_well() -> None:
    with SyncClient.connect(library()) as client:
        assert text_of(client.get_resource("book", {"row_id": 1, "path": "a"})) == "1: a"
    async with MultiClient({"lib": library()}) as servers:
        assert text_of(await servers.get_resource("lib_book", {"row_id": 1, "path": "a/b"})) == "1: a/b"


# RFC 6570, section 3.2: the variables and expansions of its examples.
VALUES: dict[str, Any] = {
    "count": ["one", "two", "three"],
    "dom": ["example", "com"],
    "dub": "me/too",
    "hello": "Hello World!",
    "half": "50%",
    "var": "value",
    "who": "fred",
    "base": "http://example.com/home/",
    "path": "foo/bar",
    "list": ["red", "green", "blue"],
    "keys": {"semi": ";", "dot": ".", "comma": ","},
    "v": "6",
    "x": "1024",
    "y": "768",
    "empty": "",
}
RFC_6570 = {
    "{count}": "one,two,three",
    "{/count*}": "/one/two/three",
    "{;count}": ";count=one,two,three",
    "{;count*}": ";count=one;count=two;count=three",
    "{?count*}": "?count=one&count=two&count=three",
    "{&count*}": "&count=one&count=two&count=three",
    "{hello}": "Hello%20World%21",
    "{half}": "50%25",
    "O{empty}X": "OX",
    "{x,y}": "1024,768",
    "{x,hello,y}": "1024,Hello%20World%21,768",
    "?{x,empty}": "?1024,",
    "{var:3}": "val",
    "{var:30}": "value",
    "{list*}": "red,green,blue",
    "{+hello}": "Hello%20World!",
    "here?ref={+path}": "here?ref=foo/bar",
    "{#path,x}here": "#foo/bar,1024here",
    "{#hello}": "#Hello%20World!",
    "X{.var}": "X.value",
    "www{.dom*}": "www.example.com",
    "{/var,x}/here": "/value/1024/here",
    "{;x,y,empty}": ";x=1024;y=768;empty",
    "{;hello:5}": ";hello=Hello",
    "{;list}": ";list=red,green,blue",
    "{?x,y,empty}": "?x=1024&y=768&empty=",
    "{?keys*}": "?semi=%3B&dot=.&comma=%2C",
    "{?keys}": "?keys=semi,%3B,dot,.,comma,%2C",
    "?fixed=yes{&x}": "?fixed=yes&x=1024",
    "{&var:3}": "&var=val",
}


@pytest.mark.parametrize("template", RFC_6570)
def test_templates_expand_as_in_rfc_6570(template: str) -> None:
    used = {name: value for name, value in VALUES.items() if name in template}
    names = {name: value for name, value in used.items() if _is_variable(name, template)}
    assert expand(template, names) == RFC_6570[template]


def _is_variable(name: str, template: str) -> bool:
    inner = template.partition("{")[2].partition("}")[0].lstrip("+#./;?&")
    return name in [part.partition(":")[0].rstrip("*") for part in inner.split(",")]


@pytest.mark.parametrize("template", ["{", "{a", "{!a}", "{a b}", "{a:0}", "{}"])
def test_an_expression_that_rfc_6570_lacks_is_never_sent_expanded(template: str) -> None:
    try:
        assert expand(f"x://{template}", {}) == f"x://{template}"
    except LocalError as error:
        assert "which RFC 6570 lacks" in str(error)
