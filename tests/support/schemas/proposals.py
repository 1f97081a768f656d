"""Proposals for the revision after the newest one, each a small change of its schema, and the rows that it needs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.project import ROOT
from support.schemas.drafts import NEWEST, TEXT, Types, record, ref

from mcp_codegen.catalog import SchemaCatalog

Schema = dict[str, Any]
DRAFT = "draft"


@dataclass(frozen=True)
class Proposal:
    """A change of a normalized schema; `rows` are what conversions.toml needs for it, and `statuses` are those of new
    errors. Without them the update stops with a sentence that has `sentence` in it; a proposal without any needs none.
    """

    change: Callable[[Schema], None]
    rows: str = ""
    statuses: str = ""
    sentence: str = ""

    @property
    def change_of_types(self) -> Callable[[Types], None]:
        """The change of the definitions alone."""
        return lambda types: self.change({"$defs": types, "x-constants": {}})


def _row(table: str, **values: str) -> str:
    lines = [f"{name} = {json.dumps(value)}\n" for name, value in {**values, "reason": "The draft says so."}.items()]
    return f"\n[[{table}]]\n" + "".join(lines)


def _is_a(types: Types, name: str, base: str) -> bool:
    return name == base or any(_is_a(types, above, base) for above in types.get(name, {}).get("x-extends", ()))


def rename_property(schema: Schema, holder: str, old: str, new: str) -> None:
    """Give a property another name, in a type and in those that extend it."""
    types = schema["$defs"]
    for name in [name for name in types if _is_a(types, name, holder)]:
        defined = types[name]
        defined["properties"] = {new if key == old else key: at for key, at in defined["properties"].items()}
        defined["required"] = [new if key == old else key for key in defined.get("required", ())]


def rename_method(schema: Schema, old: str, new: str) -> None:
    """Give a method another name."""
    for defined in schema["$defs"].values():
        method = defined.get("properties", {}).get("method", {})
        if method.get("const") == old:
            method["const"] = new


def new_request(schema: Schema) -> None:
    """Search in the tools."""
    types = schema["$defs"]
    params = record("_meta", "query", _meta=ref("RequestMetaObject"), query=TEXT)
    types["SearchToolsRequest"] = json.loads(json.dumps(types["ListToolsRequest"]))
    types["SearchToolsRequest"]["x-extends"] = ["JSONRPCRequest"]
    types["SearchToolsRequest"]["properties"] |= {"method": TEXT | {"const": "tools/search"}, "params": params}
    types["SearchToolsResult"] = json.loads(json.dumps(types["ListToolsResult"]))
    types["ClientRequest"]["anyOf"].append(ref("SearchToolsRequest"))
    types["ServerResult"]["anyOf"].append(ref("SearchToolsResult"))


def new_notification(schema: Schema) -> None:
    """Say that a tool is gone."""
    types = schema["$defs"]
    types["ToolRetiredNotification"] = json.loads(json.dumps(types["ToolListChangedNotification"]))
    params = record("name", name=TEXT, _meta=ref("NotificationMetaObject"))
    types["ToolRetiredNotification"]["properties"] |= {
        "method": TEXT | {"const": "notifications/tools/retired"},
        "params": params,
    }
    types["ToolRetiredNotification"]["required"] = ["jsonrpc", "method", "params"]
    types["ServerNotification"]["anyOf"].append(ref("ToolRetiredNotification"))


def new_content(schema: Schema) -> None:
    """A block that refers to a note."""
    types = schema["$defs"]
    types["NoteContent"] = record("type", "title", type=TEXT | {"const": "note"}, title=TEXT)
    types["ContentBlock"]["anyOf"].append(ref("NoteContent"))


def new_required_property(schema: Schema) -> None:
    """Each tool says how dangerous it is."""
    tool = schema["$defs"]["Tool"]
    tool["properties"]["risk"] = TEXT | {"enum": ["low", "high"]}
    tool["required"].append("risk")


def new_error(schema: Schema) -> None:
    """A tool has too much to do."""
    schema["x-constants"]["TOOL_BUSY"] = -32030
    types = schema["$defs"]
    code = {"type": "integer", "const": -32030, "x-constant": "TOOL_BUSY"}
    own = {"type": "object", "properties": {"code": code}, "required": ["code"]}
    types["ToolBusyError"] = json.loads(json.dumps(types["HeaderMismatchError"]))
    types["ToolBusyError"]["properties"]["error"] = {"allOf": [ref("Error"), own]}


def removed_method(schema: Schema) -> None:
    """No list of prompts any more."""
    types = schema["$defs"]
    for union, name in (("ClientRequest", "ListPromptsRequest"), ("ServerResult", "ListPromptsResult")):
        types[union]["anyOf"].remove(ref(name))
        del types[name]
    types.pop("ListPromptsResultResponse", None)


PROPOSALS = {
    "a new request": Proposal(new_request),
    "a new notification": Proposal(new_notification),
    "a new content type": Proposal(new_content),
    "a renamed property": Proposal(
        lambda schema: rename_property(schema, "Tool", "inputSchema", "parameters"),
        _row("rename", at="Tool.inputSchema", use="parameters"),
        sentence="write a row of [[rename]]",
    ),
    "a renamed method": Proposal(
        lambda schema: rename_method(schema, "tools/call", "tools/invoke"),
        _row("rename", method="tools/call", use="tools/invoke"),
        sentence="write a row of [[rename]]",
    ),
    "a new required property": Proposal(
        new_required_property,
        _row("default", at="Tool.risk", use="high"),
        sentence="write a row of [[rename]] or [[default]] for Tool.risk in schema/conversions.toml",
    ),
    "a new error with an HTTP status": Proposal(
        new_error,
        statuses="TOOL_BUSY = 429",
        sentence="write it into `use.statuses` of the [[http]] row of 'stateless' in schema/overlay.toml",
    ),
    "a removed method": Proposal(
        removed_method,
        _row("method", method="prompts/list", answer="refuse"),
        sentence="write a row of [[rename]] or [[method]] with method = 'prompts/list' in schema/conversions.toml",
    ),
}


def with_statuses(overlay: str, *statuses: str) -> str:
    """overlay.toml with further statuses of errors."""
    before = "UNSUPPORTED_PROTOCOL_VERSION = 400 }"
    assert before in overlay
    return overlay.replace(before, ", ".join([before.removesuffix(" }"), *filter(None, statuses)]) + " }")


def schemas_with(folder: Path, *proposals: Proposal, rows: bool = True, schema: Schema | None = None) -> SchemaCatalog:
    """The schemas with a draft that has these proposals."""
    root = folder / "schema"
    shutil.copytree(ROOT / "schema", root)
    normalized: Schema = schema or json.loads(json.dumps(SchemaCatalog(root).normalized(NEWEST)[0]))
    for proposal in proposals:
        proposal.change(normalized)
    place = root / DRAFT
    place.mkdir()
    (place / "schema.json").write_text(json.dumps(normalized))
    sums = '"schema.ts" = "0"\n"schema.json" = "0"'
    pins = f'revision = "{DRAFT}"\nfollows = "{NEWEST}"\nsource = "test"\ncommit = "0"\n\n[sha256]\n{sums}\n'
    (place / "pins.toml").write_text(pins)
    if rows:
        write_rows(root, proposals)
    return SchemaCatalog(root)


def write_rows(root: Path, proposals: Sequence[Proposal]) -> None:
    """Write what the proposals need into the two files of rows."""
    with (root / "conversions.toml").open("a") as file:
        file.write("".join(proposal.rows for proposal in proposals))
    overlay = root / "overlay.toml"
    overlay.write_text(with_statuses(overlay.read_text(), *(proposal.statuses for proposal in proposals)))
