"""The own methods of an app become an extension for the generator: a manifest and a schema."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mcp_codegen.cli.main import main
from mcp_codegen.errors import CodegenError
from mcp_codegen.extensions.manifest import written_extension
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


@pytest.mark.parametrize("name", ["../up", "my-ext", "class", "1a", ""])
def test_a_name_that_is_no_package_is_refused_before_anything_is_written(tmp_path: Path, name: str) -> None:
    server, place = tmp_path / "server.py", tmp_path / "place"
    server.write_text(APP)
    result = run("extension", "from-app", name, server, "--to", place)
    assert result.exit_code == 2 and f"{name!r} is not a valid package name" in result.output
    assert list(tmp_path.iterdir()) == [server]
    assert f"{name!r} is not a valid package name" in run("extension", "import", name, "--from", tmp_path).output


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        (("acme/find-it", "acme/findIt"), "acme/find-it and acme/findIt would both be AcmeFindIt; rename one"),
        (("acme/text",), "acme/text: returns no object; return a dict, a model or None"),
    ],
)
def test_methods_that_no_extension_can_have_are_named(methods: tuple[str, ...], message: str) -> None:
    kind = "string" if "acme/text" in methods else "object"
    rows = [{"method": method, "params": {"type": "object"}, "result": {"type": kind}} for method in methods]
    with pytest.raises(CodegenError, match=message):
        written_extension({"methods": rows, "revision": "2026-07-28"}, "com.acme/find")
