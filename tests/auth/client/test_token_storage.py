"""Where credentials are kept between processes: who can read them there, and what happens when two write at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keyring
import keyring.backend
import keyring.errors
import pytest
from keyring.backends.fail import Keyring as Missing
from support.auth.client_servers import World, served, statuses

from mcp_products.auth.client.grants import ClientCredentials
from mcp_products.auth.client.storage import (
    FileTokenStorage,
    InMemoryTokenStorage,
    KeyringTokenStorage,
    OAuthClientInformation,
    OAuthToken,
    StoredCredentials,
    TokenStorage,
)
from mcp_runtime.errors import LocalError, MCPError

SERVER = "https://mcp.example/mcp"
CREDENTIALS = StoredCredentials(
    "https://as.example",
    OAuthClientInformation("id", "s3cret"),
    OAuthToken("t0ken", "Bearer", ("a", "b"), 1.5, "r3fresh"),
)
posix = pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")


class Drawer(keyring.backend.KeyringBackend):
    """A keyring in memory."""

    priority = 1.0  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.entries: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.entries.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        if len(password) > 5000:
            raise keyring.errors.PasswordSetError(password)
        self.entries[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        del self.entries[service, username]


@pytest.fixture
def drawer() -> Iterator[Drawer]:
    before, drawer = keyring.get_keyring(), Drawer()
    keyring.set_keyring(drawer)
    yield drawer
    keyring.set_keyring(before)


@pytest.fixture
def world() -> Iterator[World]:
    with served(World()) as running:
        yield running


@pytest.mark.parametrize("kind", ["memory", "file", "keyring"])
async def test_what_was_kept_comes_back_and_can_be_forgotten(kind: str, tmp_path: Path, drawer: Drawer) -> None:
    path = tmp_path / "new" / "tokens.json"
    stores: dict[str, Any] = {
        "memory": InMemoryTokenStorage(),
        "file": FileTokenStorage(path),
        "keyring": KeyringTokenStorage("test", tmp_path),
    }
    store: TokenStorage = stores[kind]
    assert await store.load(SERVER) is None
    await store.save(SERVER, None)
    await store.save(SERVER, CREDENTIALS)
    await store.save(f"{SERVER}/other", StoredCredentials("https://other.example", OAuthClientInformation("other")))
    async with store.lock(SERVER):
        assert await store.load(SERVER) == CREDENTIALS
    await store.save(SERVER, None)
    assert await store.load(SERVER) is None and await store.load(f"{SERVER}/other") is not None


@posix
async def test_a_file_that_others_could_read_or_wrote_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    await FileTokenStorage(path).save(SERVER, CREDENTIALS)
    for mode in (0o640, 0o604, 0o620, 0o666):
        path.chmod(mode)
        with pytest.raises(LocalError, match="chmod 600"):
            await FileTokenStorage(path).load(SERVER)
        with pytest.raises(LocalError, match="chmod 600"):
            await FileTokenStorage(path).save(SERVER, CREDENTIALS)
    path.chmod(0o600)
    assert await FileTokenStorage(path).load(SERVER) == CREDENTIALS
    assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o600}


@posix
@pytest.mark.skipif(os.name == "posix" and os.geteuid() != 0, reason="only root gives files away")
async def test_a_file_of_another_user_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    await FileTokenStorage(path).save(SERVER, CREDENTIALS)
    os.chown(path, 65534, 65534)
    with pytest.raises(LocalError, match="another user"):
        await FileTokenStorage(path).load(SERVER)


@posix
async def test_a_link_a_pipe_or_a_folder_in_the_place_of_the_file_is_neither_read_nor_written_through(
    tmp_path: Path,
) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("{}")
    target.chmod(0o600)
    link.symlink_to(target)
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "folder").mkdir(0o700)
    for name in ("link", "pipe", "folder"):
        with pytest.raises(LocalError):
            await FileTokenStorage(tmp_path / name).load(SERVER)
        with pytest.raises(LocalError):
            await FileTokenStorage(tmp_path / name).save(SERVER, CREDENTIALS)
    assert target.read_text() == "{}"


@pytest.mark.parametrize("text", ["", "[]", "{", '{"SERVER": 1}', '{"SERVER": {"issuer": "s3cret"}}', "[" * 100_000])
async def test_a_damaged_file_is_told_and_left_as_it_is(text: str, tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    path.write_text(text.replace("SERVER", SERVER))
    path.chmod(0o600)
    with pytest.raises(LocalError, match="remove it to log in again") as caught:
        await FileTokenStorage(path).load(SERVER)
    assert "s3cret" not in str(caught.value) and path.read_text() == text.replace("SERVER", SERVER)


async def test_a_keyring_that_is_missing_or_fails_is_told_without_what_was_to_be_kept(
    tmp_path: Path, drawer: Drawer
) -> None:
    long = StoredCredentials("https://as.example", OAuthClientInformation("id"), OAuthToken("t0ken" * 2000))
    with pytest.raises(LocalError, match="PasswordSetError") as caught:
        await KeyringTokenStorage(locks=tmp_path).save(SERVER, long)
    assert "t0ken" not in str(caught.value)
    drawer.entries["mcp-codegen", SERVER] = "what is this"
    with pytest.raises(LocalError, match="remove it"):
        await KeyringTokenStorage(locks=tmp_path).load(SERVER)
    keyring.set_keyring(Missing())
    with pytest.raises(LocalError, match="NoKeyringError"):
        await KeyringTokenStorage(locks=tmp_path).load(SERVER)


WRITES = """
import asyncio, sys
from mcp_products.auth.client.storage import FileTokenStorage
from mcp_products.auth.client.storage import OAuthClientInformation, StoredCredentials
async def write():
    credentials = StoredCredentials("i", OAuthClientInformation("c"))
    for number in range(30):
        await FileTokenStorage(sys.argv[1]).save(f"https://{sys.argv[2]}.example/{number}", credentials)
asyncio.run(write())
"""
CLIENT_SCRIPT = """
import asyncio, sys, httpx2
from mcp_products.auth.client.grants import AuthorizationCode
from mcp_products.auth.client.storage import FileTokenStorage
from mcp_products.auth.client.provider import OAuthClientProvider
async def visit(url): raise SystemExit("a login")
async def send():
    grant = AuthorizationCode(visit, "http://127.0.0.1:7/callback")
    auth = OAuthClientProvider(sys.argv[2], grant, storage=FileTokenStorage(sys.argv[1]))
    async with httpx2.AsyncClient(auth=auth, verify=False) as client:
        for _ in range(8):
            assert (await client.get(sys.argv[2])).status_code in (200, 401)
asyncio.run(send())
"""


def run_both(script: str, *arguments: tuple[str, ...]) -> None:
    started = [subprocess.Popen([sys.executable, "-c", script, *argv], stderr=subprocess.PIPE) for argv in arguments]
    try:
        for process in started:
            _, errors = process.communicate(timeout=100)
            assert process.returncode == 0, errors.decode()
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_two_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    run_both(WRITES, (str(path), "one"), (str(path), "other"))
    assert len(json.loads(path.read_text())) == 60


@pytest.mark.long
def test_two_processes_never_use_the_same_refresh_token(world: World, tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    world.lasts = 0.000_001  # So every request needs a new token.
    assert statuses(world, storage=FileTokenStorage(path)) == [200]
    run_both(CLIENT_SCRIPT, (str(path), world.url), (str(path), world.url))
    used = [
        request["refresh_token"] for request in world.params_of("/token") if request["grant_type"] == "refresh_token"
    ]
    assert len(used) >= 8 and len(set(used)) == len(used)
    assert len(world.params_of("/authorize")) == 1


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_requests_that_wait_for_a_token_share_one_login(kind: str, world: World, tmp_path: Path) -> None:
    storage = InMemoryTokenStorage() if kind == "memory" else FileTokenStorage(tmp_path / "tokens.json")
    assert statuses(world, times=5, storage=storage) == [200] * 5
    assert (
        len(world.params_of("/register")) == len(world.params_of("/authorize")) == len(world.params_of("/token")) == 1
    )


def test_what_a_program_knows_by_itself_is_not_written_beside_its_tokens(world: World, tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    world.replies["/token"] = (200, {}, {"access_token": "t0ken", "token_type": "bearer"})
    world.valid = "t0ken"
    assert statuses(
        world, grant=ClientCredentials(OAuthClientInformation("id", "s3cret")), storage=FileTokenStorage(path)
    ) == [200]
    assert "t0ken" in path.read_text() and "s3cret" not in path.read_text()


def test_a_login_that_fails_leaves_the_file_free_for_the_next(world: World, tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    world.replies["/token"] = (400, {}, {"error": "invalid_grant"})
    for _ in range(2):
        with pytest.raises(MCPError, match="invalid_grant"):
            statuses(world, storage=FileTokenStorage(path))
    del world.replies["/token"]
    assert statuses(world, storage=FileTokenStorage(path)) == [200]


@pytest.mark.parametrize(
    "wrong", [{"issuer": 5}, {"client": {"client_id": 7}}, {"token": {"access_token": "t", "expires_at": "soon"}}]
)
async def test_values_of_wrong_types_are_told_when_they_are_read(wrong: dict[str, Any], tmp_path: Path) -> None:
    storage, path = FileTokenStorage(tmp_path / "tokens.json"), tmp_path / "tokens.json"
    await storage.save(SERVER, CREDENTIALS)
    path.write_text(json.dumps({SERVER: {**json.loads(path.read_text())[SERVER], **wrong}}))
    with pytest.raises(LocalError, match="tokens.json: has no stored credentials in it; remove it to log in again"):
        await storage.load(SERVER)


async def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """Both showed FileExistsError and NotADirectoryError."""
    (tmp_path / "file").write_text("")
    storage = FileTokenStorage(tmp_path / "file" / "tokens.json")
    with pytest.raises(LocalError, match="tokens.json.*: cannot be written: .*choose a folder"):
        async with storage.lock(SERVER):
            pass
    with pytest.raises(LocalError, match="tokens.json: cannot be written: .*choose a folder"):
        await storage.save(SERVER, CREDENTIALS)
