"""The quickstart in each language: its client uses its server, and those of the other languages, in each version."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from black import FileMode, format_str
from click.testing import CliRunner
from support.peers import node_peer
from support.project import ROOT

from mcp_codegen.cli.main import main
from mcp_codegen.render.quickstart import read_data, render
from mcp_generated import REVISIONS, connect

DATA = read_data()
LANGUAGES = [*DATA["languages"]]
LIMIT = 300  # Seconds, for a build.


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    """The web service, with the answers of the data."""

    class Recorded(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = DATA["service"].get(self.path, "{}").replace("{base}", base)
            self.send_response(200 if self.path in DATA["service"] else 404)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Recorded) as server:
        base = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield base
        server.shutdown()


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("quickstarts")


def built(language: str, revision: str, folders: Path) -> Path:
    """Return the folder of a quickstart whose programs can run. Skips the test where its tools are missing."""
    folder = folders / f"{language}-{revision}"
    if folder.exists():
        return folder
    for path, text in render(DATA, language, revision, stateless=revision == [*REVISIONS][-1]).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    if language == "typescript":
        modules = folder / "node_modules"
        (modules / "@modelcontextprotocol").mkdir(parents=True)
        for name in ("server", "client"):
            installed = node_peer(f"@modelcontextprotocol/{name}@2.4.0") / "node_modules"
            (modules / "@modelcontextprotocol" / name).symlink_to(installed / "@modelcontextprotocol" / name)
            if (installed / "zod").exists() and not (modules / "zod").exists():
                (modules / "zod").symlink_to(installed / "zod")
    if language == "go":
        if shutil.which("go") is None:
            pytest.skip("go is not on the PATH")
        tidy = subprocess.run(["go", "mod", "tidy"], cwd=folder, capture_output=True, text=True, timeout=LIMIT)
        if tidy.returncode:
            pytest.skip(f"the modules of Go cannot be had: {tidy.stderr.strip().splitlines()[-1]}")
        command = ["go", "build", "-o", "bin/", "./server", "./client"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LIMIT)
        assert done.returncode == 0, done.stderr
    return folder


def words(command: str, folder: Path) -> list[str]:
    """Return the words of a command of the page, with this Python and files of this folder."""
    return [
        sys.executable if word == "python" else str(folder / word) if (folder / word).is_file() else word
        for word in command.split()
    ]


@pytest.mark.long
@pytest.mark.parametrize("server", LANGUAGES)
@pytest.mark.parametrize("client", LANGUAGES)
def test_a_client_uses_a_server(client: str, server: str, revision: str, folders: Path, service: str) -> None:
    of_client, of_server = built(client, revision, folders), built(server, revision, folders)
    row = DATA["languages"][client]
    command = words(row["client"].removesuffix(row["server"]), of_client)
    command += words(DATA["languages"][server]["server"], of_server)
    environment = {**os.environ, DATA["server"]["variable"]: service}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
    assert done.stdout.splitlines() == DATA["printed"]["lines"], done.stderr
    assert done.returncode == 0


@pytest.mark.long
@pytest.mark.parametrize("server", LANGUAGES)
async def test_a_server_has_the_tools_of_the_data(server: str, folders: Path, service: str) -> None:
    revision = [*REVISIONS][-1]
    command = words(DATA["languages"][server]["server"], built(server, revision, folders))
    async with connect(command, env={DATA["server"]["variable"]: service}) as session:
        tools = {tool.name: tool for tool in await session.list_tools()}
        assert [*tools] == [tool["name"] for tool in DATA["tools"]]
        for tool in DATA["tools"]:
            offered = tools[tool["name"]]
            assert (offered.title, offered.description) == (tool["title"], tool["description"])
            for parameter in tool["parameters"]:
                schema = offered.input_schema.model_dump(by_alias=True)["properties"][parameter["name"]]
                expected = {key: value for key, value in parameter.items() if key != "name"}
                assert {key: schema.get(key) for key in expected} == expected
        for call in DATA["calls"]:
            result = await session.call_tool(call["tool"], call["arguments"], raise_on_error=False)
            assert bool(result.is_error) == call.get("error", False)
            assert "text" not in call or result.text == call["text"]


@pytest.mark.parametrize("spoken", [None, *REVISIONS])
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_file_is_written_and_names_the_revision(language: str, spoken: str | None, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    options = [] if spoken is None else ["--revision", spoken]
    result = CliRunner().invoke(main, ["quickstart", language, *options, "--output", str(folder)])
    assert result.exit_code == 0, result.output
    written = {str(path.relative_to(folder)): path.read_text("utf-8") for path in folder.rglob("*") if path.is_file()}
    assert {*written} == {*DATA["languages"][language]["files"], "README.md"}
    client = next(text for path, text in written.items() if path.startswith("client"))
    assert spoken is None or (spoken in client and spoken in written["README.md"])
    assert not any("{{" in text or "{%" in text for path, text in written.items() if not path.endswith(".go"))
    again = CliRunner().invoke(main, ["quickstart", language, "--output", str(folder)])
    assert again.exit_code == 2 and "exists already" in again.output


def test_python_is_formatted_and_another_language_is_refused(tmp_path: Path) -> None:
    for path, text in render(DATA, "python", None, stateless=False).items():
        assert not path.endswith(".py") or format_str(text, mode=FileMode(line_length=120)) == text
    result = CliRunner().invoke(main, ["quickstart", "cobol", "--output", str(tmp_path / "x")])
    assert result.exit_code == 2 and "'cobol' has no quickstart; choose python, typescript, go" in result.output
    assert not (tmp_path / "x").exists()


@pytest.mark.long
def test_go_is_formatted(tmp_path: Path) -> None:
    if shutil.which("gofmt") is None:
        pytest.skip("gofmt is not on the PATH")
    for path, text in render(DATA, "go", None, stateless=False).items():
        (tmp_path / path.replace("/", "-")).write_text(text, encoding="utf-8")
    done = subprocess.run(["gofmt", "-l", str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("", 0), done.stderr


def test_the_data_say_what_the_programs_print() -> None:
    """The expected lines of the client follow from what the web service answers."""
    periods = json.loads(DATA["service"]["/forecast"])["properties"]["periods"]
    forecast = "\n".join("{name}: {temperature} {temperatureUnit}, {shortForecast}".format(**row) for row in periods)
    assert "\n".join(DATA["printed"]["lines"]).endswith(DATA["client"]["answer"] + forecast)
    assert (ROOT / "templates" / "quickstart" / "weather.toml").is_file()
