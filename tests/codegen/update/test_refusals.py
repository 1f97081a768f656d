"""What `update` says of drafts that are malformed or unusual: a sentence with the place, the rule and what to do, and
never the text of a library."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from support.schemas.histories import History, grown
from support.schemas.invented import folder, message, no_capability, record
from support.schemas.typescript_text import official_files

from mcp_codegen.testkit.messages import MessageFactory

Schema = dict[str, Any]
Files = Mapping[str, str]

# What a refusal says after its last semicolon: what to do.
REMEDY: Final = re.compile(
    r"; (add|adapt|choose|correct|declare|define|give|import|let|make|name|pass|rename|save|write)\b[^;]*$"
)
OF_A_LIBRARY: Final = re.compile(
    r"pydantic|validation errors? for|\[type=|input_value|Traceback|<class |object at 0x|\b\w+Error\b|None\b|/tmp/"
)


def text() -> Schema:
    return {"type": "string"}


def file(**written: str) -> Callable[[], Files]:
    """The official files, with this text as schema.ts or schema.json."""
    return lambda: official_files(grown()) | {f"schema.{name}": content for name, content in written.items()}


def more_typescript(added: str) -> Callable[[], Files]:
    files = official_files(grown())
    return lambda: files | {"schema.ts": files["schema.ts"] + added}


def json_of(change: Callable[[Schema], object]) -> Callable[[], Files]:
    """The official files, with a change of schema.json alone."""

    def files() -> Files:
        whole = official_files(grown())
        changed: Schema = json.loads(whole["schema.json"])
        change(changed["$defs"])
        return whole | {"schema.json": json.dumps(changed)}

    return files


def draft_of(change: Callable[[Schema], object]) -> Callable[[], Files]:
    """The official files of a changed draft."""

    def files() -> Files:
        changed: Schema = json.loads(json.dumps(grown()))
        change(changed["$defs"])
        return official_files(changed)

    return files


def typescript_of(old: str, new: str) -> Callable[[], Files]:
    """The official files, with other text in schema.ts, and in schema.json what it means."""

    def files() -> Files:
        whole = official_files(grown())
        assert old in whole["schema.ts"], whole["schema.ts"]
        return whole | {"schema.ts": whole["schema.ts"].replace(old, new, 1)}

    return files


def add(types: Schema, name: str, wire: str, schema: Schema, *, is_required: bool = True) -> None:
    """Add a property to a definition, or to the params of a message."""
    place = types[name]["properties"].get("params", types[name])
    place["properties"][wire] = schema
    if is_required:
        place["required"] = [*place.get("required", []), wire]


def second_search(types: Schema) -> None:
    types |= {"FindRequest": message("search"), "FindResult": record({})}
    types["ClientRequest"]["anyOf"].append({"$ref": "#/$defs/FindRequest"})


def endless(types: Schema) -> None:
    types["Endless"] = record({"inner": {"$ref": "#/$defs/Endless"}}, "inner")
    add(types, "SearchResult", "endless", {"$ref": "#/$defs/Endless"})


def renamed(types: Schema, name: str, wire: str, other: str) -> None:
    place = types[name]["properties"].get("params", types[name])
    place["properties"] = {other if key == wire else key: value for key, value in place["properties"].items()}
    place["required"] = [other if key == wire else key for key in place["required"]]


MALFORMED: Final[Mapping[str, Callable[[], Files]]] = {
    "schema.json is empty": file(json=""),
    "schema.json ends early": file(json='{"$defs": {'),
    "schema.json is a list": file(json="[]"),
    "schema.json is a text": file(json='"text"'),
    "schema.json is nested without end": file(json='{"a":' * 5000 + "1" + "}" * 5000),
    "schema.json has no definitions": file(json="{}"),
    "schema.json has a list of definitions": file(json='{"$defs": []}'),
    "a definition is null": json_of(lambda types: types.update(SearchResult=None)),
    "a definition is a list": json_of(lambda types: types.update(SearchResult=[])),
    "properties are a list": json_of(lambda types: types["SearchResult"].update(properties=[])),
    "required is a text": json_of(lambda types: types["SearchResult"].update(required="found")),
    "a type is a number": json_of(lambda types: types["SearchResult"]["properties"]["found"].update(type=5)),
    "schema.ts is empty": file(ts=""),
    "schema.ts is not TypeScript": file(ts="hello world"),
    "schema.ts ends early": file(ts="export interface X {"),
    "schema.ts has a null character": more_typescript("\0"),
    "schema.ts has an enum": more_typescript("\nexport enum A { B }\n"),
    "schema.ts has a class": more_typescript("\nexport class A {}\n"),
    "schema.ts has a function": more_typescript("\nexport function a(): void {}\n"),
    "schema.ts is nested without end": more_typescript(f"\nexport type D = {'(' * 3000}string{')' * 3000};\n"),
    "a type is not declared": typescript_of("found: string", "found: Nowhere"),
    "a pattern is not a regular expression": typescript_of("found: string", "/** @pattern ( */ found: string"),
    "a pattern looks ahead": typescript_of("found: string", "/** @pattern ^(?=a)b$ */ found: string"),
    "a length is a text": typescript_of("found: string", "/** @minLength many */ found: string"),
    "a message has no method": draft_of(lambda types: types["SearchRequest"]["properties"].pop("method")),
    "two messages have one method": draft_of(second_search),
    "params are a text": draft_of(lambda types: types["SearchRequest"]["properties"].update(params=text())),
    "a result is a text": draft_of(lambda types: types.update(SearchResult=text())),
    "a message is in no union": draft_of(lambda types: types.update(LostRequest=message("lost"))),
    "a message needs an unknown capability": draft_of(
        lambda types: (
            types.update(FindRequest=message("find"), FindResult=record({})),
            types["ClientRequest"]["anyOf"].append({"$ref": "#/$defs/FindRequest"}),
        )
    ),
    "capabilities are a number": draft_of(lambda types: types.update(ServerCapabilities={"type": "integer"})),
    "an alias refers to itself": more_typescript("\nexport type Loop = Loop;\n"),
}
# They are found by the trial, in a conversation.
UNUSUAL: Final[Mapping[str, Callable[[], Files]]] = {
    "a type always contains itself": draft_of(endless),
    "the opening has a required property": draft_of(lambda types: add(types, "HelloRequest", "vendor", text())),
    "its answer has a required property": draft_of(lambda types: add(types, "HelloResult", "vendor", text())),
    "names of programs have a required property": draft_of(
        lambda types: add(types, "Implementation", "vendor", text())
    ),
    "the version has another name": draft_of(lambda types: renamed(types, "HelloResult", "protocolVersion", "version")),
    "the level has another name": draft_of(lambda types: renamed(types, "LevelRequest", "level", "least")),
}


def refused(history: History, files: Files) -> list[str]:
    """The findings of an update to a draft of these files, of which nothing is written."""
    before = history.contents()
    history.commit(draft=dict(files))
    done = history.update()
    assert (done.exit_code, history.contents()) == (2, before), (done.output, done.exception)
    table = history.report().partition("### What does not work")[2].partition("\n###")[0]
    rows = [line.split(" | ") for line in table.splitlines() if line.startswith("| ") and not line.startswith("| kind")]
    assert rows, done.output
    return [row[-1].removesuffix(" |") for row in rows]


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_draft_is_refused_in_sentences_that_say_what_to_do(history: History, name: str) -> None:
    for sentence in refused(history, MALFORMED[name]()):
        assert not OF_A_LIBRARY.search(sentence) and REMEDY.search(sentence), sentence


@pytest.mark.long
@pytest.mark.parametrize("name", UNUSUAL)
def test_a_draft_that_the_runtime_does_not_serve_is_refused_in_sentences_that_say_what_to_do(
    history: History, name: str
) -> None:
    for sentence in refused(history, UNUSUAL[name]()):
        assert not OF_A_LIBRARY.search(sentence) and REMEDY.search(sentence), sentence


def test_capabilities_that_a_draft_requires_are_declared(tmp_path: Path) -> None:
    schema: Schema = json.loads(json.dumps(grown()))
    limits = record({"n": {"type": "integer"}}, "n")
    schema["$defs"]["ServerCapabilities"]["properties"]["quota"] = record({"limits": limits}, "limits")
    schema["$defs"]["ServerCapabilities"]["required"] = ["tools", "quota"]
    catalog = folder(tmp_path, schema, no_capability("search"))
    factory = MessageFactory(catalog.revision("1"), catalog.normalized("1")[0], seed=1)
    declared = factory.declared_capabilities("server")
    assert declared.keys() == {"tools", "quota"} and isinstance(declared["quota"]["limits"]["n"], int)
