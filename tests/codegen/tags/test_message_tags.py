"""Tags of messages in schema.ts say what else a row of the overlay says, or what nothing does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.schemas.invented import folder, message, no_capability, record, skeleton

from mcp_codegen.errors import CodegenError
from mcp_codegen.importer.normalize import normalize
from mcp_codegen.importer.typescript import parse
from mcp_codegen.model.ir import Method


def rows(tmp_path: Path, overlay: str = "", **definitions: Any) -> dict[str, Method]:
    schema = skeleton(**definitions)
    return {row.method: row for row in folder(tmp_path, schema, overlay).revision("1").methods}


def test_tags_are_read_from_schema_ts() -> None:
    text = """/** Look. @direction is what follows.
     * @direction server_to_client
     * @capability `client.roots` */
    export interface LookRequest { method: "look"; }
    /** @result Page */
    export interface ReadRequest { method: "read"; }"""
    defined = normalize(parse(text, "schema.ts"), "1")["$defs"]
    assert {key: value for key, value in defined["LookRequest"].items() if key.startswith("x-")} == {
        "x-doc": "Look. @direction is what follows. (Text of the specification.)",
        "x-direction": "server_to_client",
        "x-capability": "client.roots",
    }
    assert defined["ReadRequest"]["x-result"] == "Page"


def test_a_capability_needs_no_row_and_a_row_for_it_is_left_over(tmp_path: Path) -> None:
    for number, (tag, expected) in enumerate((("none", ""), ("server.tools.listChanged", "server.tools.listChanged"))):
        tagged = message("fetch") | {"x-capability": tag}
        assert rows(tmp_path / str(number), FetchRequest=tagged)["fetch"].capability == expected
    schemas = folder(
        tmp_path / "row", skeleton(FetchRequest=message("fetch") | {"x-capability": "none"}), no_capability("fetch")
    )
    with pytest.raises(CodegenError, match=r"\[\[capability\]\] method = 'fetch' is not used"):
        schemas.check_overlay()


def test_a_direction_needs_no_union_and_does_not_contradict_one(tmp_path: Path) -> None:
    schema = skeleton(AskRequest=message("ask") | {"x-direction": "server_to_client", "x-capability": "none"})
    schema["$defs"]["ClientRequest"]["anyOf"] = [
        arm for arm in schema["$defs"]["ClientRequest"]["anyOf"] if not arm["$ref"].endswith("AskRequest")
    ]
    tags = {"x-direction": "client_to_server", "x-capability": "none"}
    schema["$defs"]["WentNotification"] = message("notifications/went") | tags
    schemas = folder(tmp_path / "1", schema)
    methods = {row.method: row for row in schemas.revision("1").methods}
    assert (methods["ask"].direction, methods["ask"].kind) == ("server_to_client", "request")
    assert (methods["notifications/went"].direction, methods["notifications/went"].kind) == (
        "client_to_server",
        "notification",
    )
    in_a_union = rows(tmp_path / "2", FetchRequest=message("fetch") | {**tags, "x-direction": "client_to_server"})
    assert in_a_union["fetch"].direction == "client_to_server"


def test_a_result_has_any_name(tmp_path: Path) -> None:
    tagged = message("fetch") | {"x-result": "Page", "x-capability": "none"}
    assert rows(tmp_path, FetchRequest=tagged, Page=record({}))["fetch"].result == "Page"


@pytest.mark.parametrize(
    ("tag", "value", "text"),
    [
        (
            "direction",
            "sideways",
            "FetchRequest has @direction sideways, which it cannot have; write client_to_server or",
        ),
        ("direction", "server_to_client", "FetchRequest has @direction server_to_client, but"),
        ("result", "Nothing", "FetchRequest has @result Nothing, which it cannot have; name a type"),
        ("capability", "", "FetchRequest has @capability , which it cannot have; name one, side first, or write none"),
        ("capability", "server.magic", "'fetch' needs 'server.magic', which no capabilities type has; correct its tag"),
    ],
)
def test_a_wrong_tag_is_refused_with_what_to_write(tmp_path: Path, tag: str, value: str, text: str) -> None:
    with pytest.raises(CodegenError, match=text):
        rows(tmp_path, no_capability("fetch"), FetchRequest=message("fetch") | {f"x-{tag}": value})
