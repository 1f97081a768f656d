"""The own methods of an app become an extension for the generator: a manifest and a schema."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mcp_codegen.cli.main import main
from mcp_codegen.paths import data_path

APP = """
from pydantic import BaseModel

from mcp_generated import App


class Place(BaseModel):
    name: str


class Search(BaseModel):
    near: Place
    limit: int = 3


class Found(BaseModel):
    places: list[Place]


app = App("acme")


@app.method("acme/search")
def search(params: Search) -> Found:
    return Found(places=[])


@app.method("acme/seen", notification=True)
def seen(name: str) -> None: ...


if __name__ == "__main__":
    app.run()
"""


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)))


def test_the_methods_of_an_app_are_written_and_imported_as_an_extension(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(APP)
    result = run(
        "extension", "from-app", "acme", tmp_path / "server.py", "--identifier", "com.acme/s", "--to", tmp_path
    )
    assert result.exit_code == 0, result.output
    assert "acme: 2 methods; written to" in result.output
    manifest = tomllib.loads((tmp_path / "acme" / "manifest.toml").read_text())
    assert manifest == {
        "identifier": "com.acme/s",
        "base": "2026-07-28",
        "schema": "schema.json",
        "prefix": "Acme",
        "roles": {"ClientRequest": ["AcmeSearchRequest"], "ClientNotification": ["AcmeSeenNotification"]},
    }

    schemas = tmp_path / "schema"
    shutil.copytree(data_path("schema"), schemas, ignore=shutil.ignore_patterns("extensions"))
    (schemas / "extensions" / "acme").mkdir(parents=True)
    shutil.copy(tmp_path / "acme" / "manifest.toml", schemas / "extensions" / "acme")
    options = ("--from", tmp_path / "acme", "--schema", schemas)
    imported = run("extension", "import", "acme", *options, "--commit", "1.0")
    assert imported.exit_code == 0, imported.output
    assert "2 messages between Client and Server" in imported.output


@pytest.mark.long
def test_an_app_without_methods_is_refused_with_the_line_to_write(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text('from mcp_generated import App\n\napp = App("none")\n')
    result = run("extension", "from-app", "acme", tmp_path / "server.py", "--to", tmp_path)
    assert result.exit_code != 0
    assert 'write @app.method("acme/search")' in result.output
    (tmp_path / "server.py").write_text("x = 1\n")
    assert run("extension", "from-app", "acme", tmp_path / "server.py", "--to", tmp_path).exit_code != 0
