"""Packages with drafts beside the releases: generated into a folder, and imported by a name of their own."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from support.project import ROOT
from support.schemas.drafts import NEWEST

from mcp_codegen.catalog import SchemaCatalog
from mcp_codegen.generate import generate
from mcp_codegen.paths import data_path

Types = dict[str, Any]
Change = Callable[[Types], object]


def draft_schemas(folder: Path, drafts: Mapping[str, Sequence[Change]], rows: str = "", facts: str = "") -> Path:
    """A copy of the schemas with these drafts, each a changed copy of the one before it, and with further rows of
    conversions.toml and of overlay.toml."""
    root = folder / "schema"
    shutil.copytree(ROOT / "schema", root)
    schema = json.loads(json.dumps(SchemaCatalog(root).normalized(NEWEST)[0]))
    follows = NEWEST
    for name, changes in drafts.items():
        for change in changes:
            change(schema["$defs"])
        place = root / name
        place.mkdir()
        (place / "schema.json").write_text(json.dumps(schema))
        sums = '"schema.ts" = "0"\n"schema.json" = "0"'
        pins = f'revision = "{name}"\nfollows = "{follows}"\nsource = "test"\ncommit = "0"\n\n[sha256]\n{sums}\n'
        (place / "pins.toml").write_text(pins)
        follows = name
    for name, more in (("conversions.toml", rows), ("overlay.toml", facts)):
        with (root / name).open("a") as file:
            file.write(more)
    return root


def draft_package(
    folder: Path, name: str, drafts: Mapping[str, Sequence[Change]], rows: str = "", facts: str = ""
) -> ModuleType:
    """The package `name` in a folder, which has the releases and these drafts."""
    write_package(folder, name, drafts, rows, facts)
    return import_package(folder, name)


def write_package(
    folder: Path, name: str, drafts: Mapping[str, Sequence[Change]], rows: str = "", facts: str = ""
) -> None:
    """Write the package `name` into a folder, which takes several seconds."""
    schemas = SchemaCatalog(draft_schemas(folder, drafts, rows, facts))
    for path, text in generate(schemas, (data_path("templates"),), folder / name, list(schemas.pins)).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def import_package(folder: Path, name: str) -> ModuleType:
    """Import the package `name` of a folder."""
    sys.path.insert(0, str(folder))
    try:
        return import_module(name)
    finally:
        sys.path.remove(str(folder))
