"""A vendor's manifest and schema: `extension import` makes an extension of them, `extension verify` sees changes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from support.peers import node_peer

from mcp_codegen.cli.main import main
from mcp_codegen.paths import data_path

NEWEST = "2026-07-28"
MANIFEST = f"""\
identifier = "com.acme/paint"
base = "{NEWEST}"
source = "https://acme.example/paint"

[roles]
ClientRequest = ["PaintRequest"]
"""
SCHEMA = """\
import type { JSONRPCRequest, Result } from "./core.js";

export type PaintRequest = JSONRPCRequest & { method: "acme/paint"; params: { colour: "red" | "blue" } };
export type PaintResult = Result & { area: number };
"""
PUBLISHED = Path(os.environ.get("MCP_EXTENSIONS", "absent"))
EXT_APPS = "@modelcontextprotocol/ext-apps"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)))


@pytest.fixture
def schemas(tmp_path: Path) -> Path:
    """A folder of schemas with the manifest of a vendor in it, and the vendor's schema beside it."""
    folder = tmp_path / "schema"
    shutil.copytree(data_path("schema"), folder, ignore=shutil.ignore_patterns("extensions"))
    (folder / "extensions" / "paint").mkdir(parents=True)
    (folder / "extensions" / "paint" / "manifest.toml").write_text(MANIFEST)
    (tmp_path / "schema.ts").write_text(SCHEMA)
    return folder


@pytest.mark.long
def test_a_vendors_schema_is_imported_generated_and_verified(schemas: Path, tmp_path: Path) -> None:
    options = ("--from", tmp_path, "--schema", schemas)
    result = run("extension", "import", "paint", *options, "--commit", "1.0")
    assert result.exit_code == 0, result.output
    assert (
        "paint: 2 definitions, 2 of the core by name; on 2026-07-28, 1 message between Client and Server"
        in result.output
    )
    assert 'commit = "1.0"' in (schemas / "extensions" / "paint" / "pins.toml").read_text()
    assert run("extension", "verify", "paint", *options).exit_code == 0
    generated = run("--revision", NEWEST, "--schema", schemas, "--output", tmp_path / "made")
    assert generated.exit_code == 0, generated.output
    written = (tmp_path / "made" / "extensions" / "paint" / "client.py").read_text()
    assert 'async def paint( self, colour: Literal["red", "blue"],' in " ".join(written.split())


def test_a_schema_that_has_moved_is_told_with_the_place(schemas: Path, tmp_path: Path) -> None:
    options = ("--from", tmp_path, "--schema", schemas)
    run("extension", "import", "paint", *options, "--commit", "1.0")
    (tmp_path / "schema.ts").write_text(SCHEMA.replace('| "blue"', '| "green"'))
    result = run("extension", "verify", "paint", *options)
    assert result.exit_code == 1
    assert (
        "paint: changed" in result.output
        and "PaintRequest.allOf.1.properties.params.properties.colour.enum.1" in result.output
    )
    assert 'the normalized schema has "blue", the official schema has "green"' in result.output
    (tmp_path / "schema.ts").write_text(SCHEMA + "// nothing\n")
    assert "the bytes differ from the pinned sha256" in run("extension", "verify", "paint", *options).output


@pytest.mark.parametrize(
    ("name", "manifest", "schema", "reason"),
    [
        ("absent", MANIFEST, SCHEMA, "write the manifest first"),
        ("paint", MANIFEST.replace(NEWEST, "2031-01-01"), SCHEMA, "unknown revision '2031-01-01'"),
        ("paint", 'closed = "ajar"\n' + MANIFEST, SCHEMA, "closed = 'ajar' is unknown"),
        ("paint", "colour = 1\n" + MANIFEST, SCHEMA, "cannot be read as the manifest"),
        ("paint", "roles = 1\n" + MANIFEST.split("[roles]")[0], SCHEMA, "has a form that mcp-codegen cannot read"),
        (
            "paint",
            MANIFEST.replace("PaintRequest", "SingRequest"),
            SCHEMA,
            "the message 'SingRequest', which is not defined",
        ),
        ("paint", MANIFEST, SCHEMA.replace("acme/paint", "tools/list"), "is in 2026-07-28 already"),
        ("paint", MANIFEST, "export type = 1;", "schema.ts"),
    ],
)
def test_what_cannot_be_imported_is_told_in_one_line_and_nothing_is_written(
    name: str, manifest: str, schema: str, reason: str, schemas: Path, tmp_path: Path
) -> None:
    (schemas / "extensions" / "paint" / "manifest.toml").write_text(manifest)
    (tmp_path / "schema.ts").write_text(schema)
    result = run("extension", "import", name, "--from", tmp_path, "--schema", schemas, "--commit", "1.0")
    assert result.exit_code == 2
    assert reason in result.output
    assert len(result.output.splitlines()) == 1
    assert [path.name for path in (schemas / "extensions" / "paint").iterdir()] == ["manifest.toml"]


def test_the_extensions_there_are_are_listed() -> None:
    result = run("extension", "list")
    assert result.exit_code == 0
    assert "apps (io.modelcontextprotocol/ui): 39 definitions" in result.output
    assert "36 messages between App and Host" in result.output
    assert "server_card (io.modelcontextprotocol/server-card): 7 definitions" in result.output


@pytest.mark.parametrize("name", ["tasks", "server_card"])
def test_the_published_schemas_still_give_our_editions(name: str) -> None:
    if not (PUBLISHED / name).is_dir():
        pytest.skip(f"MCP_EXTENSIONS names no folder with a checkout of {name} in it")
    result = run("extension", "verify", name, "--from", PUBLISHED / name)
    assert result.exit_code == 0, result.output


@pytest.mark.long
def test_the_published_package_of_apps_still_gives_our_edition() -> None:
    package = node_peer(f"{EXT_APPS}@2.0.4") / "node_modules" / EXT_APPS
    result = run("extension", "verify", "apps", "--from", package)
    assert result.exit_code == 0, result.output
