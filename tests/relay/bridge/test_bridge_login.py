"""`bridge URL --login`: a person logs in with a browser at our authorization server, once for all processes."""

from __future__ import annotations

import json
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.auth.protected_example import running
from support.clients import connect
from support.feature_cells.bridge.bridge_processes import bridge_command

from mcp_generated import RemoteJSONRPCError

pytestmark = pytest.mark.long

BROWSER = """
import sys
sys.path[:0] = {path}
from support.auth.protected_example import agree
open({log!r}, "a").write(sys.argv[1] + "\\n")
agree(sys.argv[1], {decision!r})
"""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Return the endpoint of a server and its authorization server."""
    with running("one_process.py", "0") as url:
        yield url


class Login:
    """A folder with a browser whose person decides, and with the file of tokens."""

    def __init__(self, folder: Path, server: str, decision: str = "allow") -> None:
        self.log = folder / "urls"
        self.tokens = folder / "tokens.json"
        self._server = server
        self._browser = folder / "browser.py"
        path = [item for item in sys.path if item]
        self._browser.write_text(BROWSER.format(path=path, log=str(self.log), decision=decision))

    def command(self, *options: str) -> list[str]:
        """Return the command of a bridge that opens the browser."""
        words = bridge_command(self._server, options=("--login", "--tokens", str(self.tokens), *options))
        return ["env", f"BROWSER={sys.executable} {self._browser} %s", *words]

    @property
    def logins(self) -> int:
        """How often the browser was opened."""
        return len(self.log.read_text().splitlines()) if self.log.exists() else 0


def text(result: Any) -> str:
    """Return the text of a result."""
    value: str = result.content[0].text
    return value


@pytest.mark.deadline(90)
async def test_a_login_is_kept_for_the_next_process(server: str, tmp_path: Path) -> None:
    login = Login(tmp_path, server)
    async with connect(login.command()) as client:
        assert text(await client.call_tool("add_note", {"text": "a"})) == "ada has 1 notes"
        assert text(await client.call_tool("list_notes", {})) == "a"
    assert login.logins == 1, "one login serves all requests"
    assert stat.S_IMODE(login.tokens.stat().st_mode) == 0o600
    (credentials,) = json.loads(login.tokens.read_text()).values()
    assert credentials["token"]["access_token"] and credentials["token"]["refresh_token"]
    async with connect(login.command(), revisions=["2025-06-18"]) as client:
        assert text(await client.call_tool("list_notes", {})) == "a"
    assert login.logins == 1, "the tokens were stored"


@pytest.mark.edges("all")
@pytest.mark.deadline(90)
@pytest.mark.parametrize("revisions", ["all", ["2025-06-18"], ["2026-07-28"]], ids=str)
async def test_a_login_that_is_denied_says_so_and_shows_no_secret(server: str, tmp_path: Path, revisions: Any) -> None:
    login = Login(tmp_path, server, "deny")
    with pytest.raises(RemoteJSONRPCError) as error:
        async with connect(login.command(), revisions=revisions) as client:
            await client.call_tool("list_notes", {})
    origin = server.removesuffix("/mcp")
    assert f"the upstream of the bridge failed: the login was denied at {origin} (access_denied)" in error.value.message
    assert "log in again, and allow the access" in error.value.message
    secrets = [word.partition("=")[2] for word in login.log.read_text().partition("?")[2].split("&")]
    assert login.logins >= 1 and not any(len(word) > 16 and word in error.value.message for word in secrets)
