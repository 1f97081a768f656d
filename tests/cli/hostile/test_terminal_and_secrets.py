"""What a server says cannot steer the terminal, and what is secret stands in no file, no argument and no message."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mcp_codegen.cli.main import main
from mcp_codegen.errors import CodegenError
from mcp_codegen.importer.importer import import_revision
from mcp_codegen.output import has_secrets, write_files
from mcp_codegen.servers.probe import ServerTarget, target_from_config
from mcp_codegen.testkit.programs import record
from mcp_generated import HTTPOptions, LocalError, RemoteJSONRPCError
from mcp_runtime.errors import InvalidResponseError, MCPError, ToolError

STEERING = {
    "colour": "\x1b[31mred",
    "clear": "\x1b[2J\x1b[H",
    "title": "\x1b]0;owned\x07",
    "link": "\x1b]8;;https://evil.example\x1b\\good\x1b]8;;\x1b\\",
    "C1": "\x9b2J\x9d0;x\x9c\x85",
    "C0": "\x00\x07\x08\x0b\x0c\x0e\x7f",
    "carriage return": "good\rerror: none",
    "right to left": "\u202egnp.exe\u202c \u2066x\u2069 \u200f\u061c",
    "separators": "a\u2028b\u2029c",
    "tags": "\U000e0041\ufeff\u2063",
}
RUN = subprocess.run
STYLE = re.compile(r"\x1b\[[0-9;]*m")  # Of the command itself.
EVIL = "".join(STEERING.values())


def document(evil: str) -> dict[str, Any]:
    """Return what a hostile server lists, and its answer to a call."""
    schema = {"type": "object", "properties": {evil: {"type": "string", "description": evil}}, "required": [evil]}
    item = {"name": evil, "description": evil, "uri": evil, "uriTemplate": "a://{x}", "arguments": [{"name": evil}]}
    blocks = [{"type": "text", "text": evil}, {"type": evil, "data": evil}]
    return {
        "revision": "2025-11-25",
        "server": {
            "serverInfo": {"name": evil, "version": evil}, "instructions": evil, "capabilities": {evil: {evil: evil}},
        },
        "tools": [{**item, "inputSchema": schema}],
        "resources": [item], "prompts": [item], "resource_templates": [item],
        "called": {
            "content": blocks, "messages": [{"role": evil, "content": blocks[0]}], "structuredContent": {"a": evil},
        },
        "notifications": [{"log": {"data": evil}}],
    }  # fmt: skip


class Child:
    """Stands for the process that talks to the server; `commands` has the arguments of all that were started."""

    def __init__(self, stdout: Any = None, stderr: str = "") -> None:
        self.commands: list[list[str]] = []
        self._stdout = json.dumps(stdout).encode()
        self._stderr = stderr.encode()

    def run(self, command: list[str], input: bytes = b"", **options: Any) -> subprocess.CompletedProcess[Any]:
        if "ruff" in command:  # Formats what is written.
            return RUN(command, **options)
        self.commands.append(command)
        self.private = json.loads(input)
        return subprocess.CompletedProcess(command, 1 if self._stderr else 0, self._stdout, self._stderr)


def run(*words: str, child: Child, monkeypatch: pytest.MonkeyPatch) -> Result:
    monkeypatch.setattr("mcp_codegen.servers.probe.subprocess.run", child.run)
    return CliRunner().invoke(main, words, color=True)


URL = "https://server.example/mcp"
COMMANDS = {
    "call": ("call", URL, "tool", "a=1"),
    "call with JSON": ("call", "--json", URL, "tool"),
    "inspect": ("inspect", URL),
    "inspect a call": ("inspect", "--tool", "tool", URL),
    "inspect with JSON": ("inspect", "--json", URL),
    "tools": ("tools", "--from", URL),
    "check": ("check", "--from", URL),
}


@pytest.mark.parametrize("kind", list(STEERING))
@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ("tools", "check")])
def test_what_a_server_says_is_printable(name: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done = run(*COMMANDS[name], child=Child(document(STEERING[kind])), monkeypatch=monkeypatch)
    assert done.exit_code == 0, done.output
    shown = STYLE.sub("", done.stdout) + STYLE.sub("", done.stderr)
    assert shown and [char for char in shown if not char.isprintable() and char != "\n"] == []
    assert "\x1b[31mred" not in done.output


@pytest.mark.parametrize("name", list(COMMANDS))
def test_what_a_server_says_in_an_error_is_printable(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for child in (Child(stderr=EVIL), Child(stderr="x" * 100_000 + EVIL), Child([EVIL]), Child({"tools": [{EVIL: 1}]})):
        done = run(*COMMANDS[name], child=child, monkeypatch=monkeypatch)
        shown = STYLE.sub("", done.output)
        assert [char for char in shown if not char.isprintable() and char != "\n"] == []
        assert len(done.stderr) < 3000
        assert done.exception is None or isinstance(done.exception, SystemExit)


@pytest.mark.parametrize("kind", list(STEERING))
def test_errors_about_a_peer_are_printable(kind: str) -> None:
    evil = STEERING[kind]
    for error in (RemoteJSONRPCError(1, evil), InvalidResponseError(evil), LocalError(evil)):
        assert all(char.isprintable() or char == "\n" for char in str(error)), str(error)
    assert RemoteJSONRPCError(1, evil).message == evil and str(ToolError(evil)) == evil


# ---- secrets ---------------------------------------------------------------------------------------------------------

SECRET = "s3cr3t"
URLS = {
    "a password": f"https://user:{SECRET}@server.example/mcp",
    "a user": f"https://{SECRET}@server.example/mcp",
    "a password with signs": f"https://user:{SECRET}@x:@server.example/mcp",
    "a key": f"https://server.example/mcp?api_key={SECRET}",
    "a key after others": f"https://server.example/mcp?a=1&X-Signature={SECRET}&b=2",
    "a fragment": f"https://server.example/mcp#access_token={SECRET}",
}


@pytest.mark.parametrize("kind", list(URLS))
def test_the_secrets_of_a_url_stand_nowhere(kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    url = URLS[kind]
    listed = document("plain")
    for words in (
        ("tools", "--from", url, "--output", "tools.py"),
        ("tools", "--from", f"npx bridge {url}", "--output", "command.py"),
        ("lock", "--from", url, "--output", "lock.json"),
        ("generate-cli", "--from", url, "--output", "program.py"),
        ("generate-cli", "--from", f"npx bridge {url}", "--output", "bridge.py"),
        ("call", url, "tool", f"token={SECRET}"),
        ("inspect", url),
    ):
        for child in (Child(listed), Child(stderr=f"GET {url}: ConnectError")):
            done = run(*words, child=child, monkeypatch=monkeypatch)
            assert SECRET not in done.output
            if "npx" not in str(words):  # The arguments of the server's own command are the user's choice.
                assert SECRET not in str(child.commands)
                assert not child.commands or child.private["url"] == url
    files = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert {"tools.py", "command.py", "lock.json"} == set(files) and SECRET not in str(files)
    assert SECRET not in f"{ServerTarget(url=url)} {ServerTarget(url=url)!r}"


def test_a_program_may_have_a_url_without_secrets() -> None:
    assert not has_secrets("npx bridge https://server.example/mcp?toolset=all user@host 'a?b=token'")
    assert not has_secrets("https://server.example/mcp?version=2#top")


def test_variables_and_headers_are_in_no_repr(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"servers": {
        "local": {"command": "x", "env": {"KEY": SECRET}},
        "remote": {"url": "https://a.example", "headers": {"Authorization": SECRET}},
    }}))  # fmt: skip
    assert SECRET not in repr([target_from_config(file, name) for name in ("local", "remote")])
    options = HTTPOptions(headers={"Authorization": SECRET}, proxy=f"http://user:{SECRET}@proxy.example")
    assert SECRET not in repr(options) + str(options)


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\0", "\n x", "\r\nx-admin: 1"])
@pytest.mark.parametrize("place", ["value", "name"])
def test_headers_with_line_ends_are_refused_and_not_shown(end: str, place: str) -> None:
    headers = {"authorization": f"{SECRET}{end}"} if place == "value" else {f"x-{SECRET}{end}": "1"}
    with pytest.raises(MCPError, match=r"HTTPOptions\(\): headers must be .* without line ends") as caught:
        HTTPOptions(headers=headers)
    assert SECRET not in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [5, [("a", SECRET)], {"a": SECRET.encode()}, {SECRET: 1}])
def test_headers_that_are_none_are_not_shown(value: Any) -> None:
    for name in ("headers", "proxy"):
        with pytest.raises(LocalError) as caught:
            HTTPOptions(**{name: value})
        assert SECRET not in str(caught.value)


# ---- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_a_recording_is_for_its_owner_and_follows_no_link(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "pass", f"https://u:{SECRET}@server.example?key={SECRET}"]
    code = "import sys; from mcp_codegen.testkit.programs import record; from pathlib import Path\n"
    code += "record(Path(sys.argv[1]), sys.argv[2:])"
    new, old, link, target = (tmp_path / name for name in ("new", "old", "link", "target"))
    old.write_text("public")
    old.chmod(0o644)
    link.symlink_to(target)
    for path in (new, old):
        subprocess.run([sys.executable, "-c", code, path, *command], stdin=subprocess.DEVNULL, check=True, timeout=60)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600 and SECRET not in path.read_text()
        assert "server.example" in path.read_text()
    with pytest.raises(CodegenError, match="cannot be written"):
        record(link, command)
    assert not target.exists()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no named pipes in folders")
def test_an_import_reads_regular_files_of_a_stated_size(tmp_path: Path) -> None:
    def imports() -> str:
        with pytest.raises(CodegenError) as caught:
            import_revision(tmp_path, "2030-01-01", "", "")
        return str(caught.value)

    os.mkfifo(tmp_path / "schema.ts")
    assert "not a regular file" in imports()
    (tmp_path / "schema.ts").unlink()
    (tmp_path / "schema.ts").symlink_to("/dev/zero")
    assert "not a regular file" in imports()
    (tmp_path / "schema.ts").unlink()
    with (tmp_path / "schema.ts").open("wb") as file:
        file.truncate(1 << 40)
    assert "more than" in imports()


@pytest.mark.skipif(os.name == "nt", reason="links need a privilege")
def test_the_names_of_temporary_files_cannot_be_guessed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[str] = []
    replace = Path.replace

    def observed(self: Path, target: Path) -> Path:
        used.append(self.name)
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", observed)
    victim = tmp_path / "victim"
    (tmp_path / f".new.txt.{os.getpid()}.tmp").symlink_to(victim)
    for text in ("one", "two"):
        write_files({tmp_path / "new.txt": text})
    assert not victim.exists() and (tmp_path / "new.txt").read_text() == "two"
    assert len(set(used)) == 2 and all(re.fullmatch(r"\.new\.txt\.[0-9a-f]{16}\.tmp", name) for name in used)
