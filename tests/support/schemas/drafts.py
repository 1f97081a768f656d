"""Drafts: a copy of a release, with a change of its definitions."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from support.project import ROOT

from mcp_codegen.catalog import Candidate, SchemaCatalog
from mcp_codegen.paths import Pins

REF = "#/$defs/"
TEXT = {"type": "string"}
NEWEST = next(reversed(SchemaCatalog(ROOT / "schema").pins))
Types = dict[str, Any]


def draft(
    change: Callable[[Types], object], base: str = NEWEST, follows: str = NEWEST, root: Path = ROOT / "schema"
) -> SchemaCatalog:
    """The catalog with a draft after a revision."""
    normalized = json.loads(_text(base))
    change(normalized["$defs"])
    return SchemaCatalog(root, Candidate(Pins("draft", follows, "test", "0", {}), json.dumps(normalized)))


@cache
def _text(base: str) -> str:
    return json.dumps(SchemaCatalog(ROOT / "schema").normalized(base)[0])


def require(types: Types, name: str, **properties: Any) -> None:
    """Add required properties to a definition."""
    types[name]["properties"] |= properties
    types[name].setdefault("required", []).extend(properties)


def ref(name: str) -> Types:
    """A reference to a definition."""
    return {"$ref": f"{REF}{name}"}


def record(*required: str, **properties: Any) -> Types:
    """The schema of an object."""
    return {"type": "object", "properties": properties, "required": list(required)}


def message(types: Types, name: str, method: str, union: str = "", params: Any = None) -> None:
    """Define a message, with params of the core protocol unless others are given, as a member of a union."""
    of_kind = "NotificationParams" if name.endswith("Notification") else "RequestParams"
    method_type = TEXT | {"const": method}
    types[name] = record("method", "params", method=method_type, params=ref(of_kind) if params is None else params)
    if union:
        arms = types[union].get("anyOf") or [types[union]]
        types[union] = {"anyOf": [*arms, ref(name)]}
