"""A client registers, a person agrees, tokens are given, renewed and ended: what an authorization server is for."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from authlib.oauth2.rfc8414 import AuthorizationServerMetadata
from support.auth.authorization_server import (
    ISSUER,
    REDIRECT,
    RESOURCE,
    Clock,
    Person,
    Program,
    answer_of,
    error_of,
    house,
    onward,
    tokens,
)

from mcp_products.auth.authorization_server.models import OAuthClient
from mcp_products.auth.authorization_server.storage import SQLiteStorage
from mcp_products.auth.authorization_server.tokens import TokenLifetimes
from mcp_runtime.errors import LocalError

METADATA = "/.well-known/oauth-authorization-server"


async def works(server: Any, token: str) -> bool:
    return await server.introspect(token) is not None


@pytest.mark.clause("2025-03-26/authorization/06", "2025-03-26/authorization/12", "2025-03-26/authorization/16")
@pytest.mark.clause("draft/authorization/08")
def test_metadata_are_at_the_root_of_the_origin_and_sound() -> None:
    async def run() -> None:
        answer = await Program(house()).web.get(METADATA)
        assert answer.status_code == 200 and answer.headers["content-type"] == "application/json"
        metadata = answer.json()
        AuthorizationServerMetadata(metadata).validate()  # As another implementation reads it.
        assert metadata["issuer"] == ISSUER and metadata["code_challenge_methods_supported"] == ["S256"]
        assert metadata["authorization_response_iss_parameter_supported"] is True
        # What a client that finds no metadata would guess, is so.
        for field, path in {"authorization": "authorize", "token": "token", "registration": "register"}.items():
            assert metadata[f"{field}_endpoint"] == f"{ISSUER}/{path}"

    asyncio.run(run())


@pytest.mark.clause("2025-03-26/authorization/05", "2025-03-26/authorization/19", "2025-03-26/authorization/38")
@pytest.mark.clause("2025-03-26/authorization/08", "2025-03-26/authorization/13", "2025-03-26/authorization/04")
@pytest.mark.clause("draft/authorization/05", "draft/authorization/15", "draft/authorization/04")
@pytest.mark.parametrize("method", ["none", "client_secret_basic", "client_secret_post"])
def test_a_client_that_registered_gets_tokens_once_a_person_agreed(method: str) -> None:
    async def run() -> None:
        server = house()
        program = await Program.registered(server, token_endpoint_auth_method=method, client_name="A program")
        assert (program.secret is None) == (method == "none")
        params = await Person(server).allows(**program.authorization_params(scope="read"))
        assert params["state"] == "a state" and params["iss"] == ISSUER
        answer = await program.redeems(params["code"])
        got = answer.json()
        assert answer.headers["cache-control"] == "no-store"
        assert (got["token_type"], got["scope"], got["expires_in"]) == ("Bearer", "read", 900)
        introspection = await server.introspect(got["access_token"])
        assert (
            introspection is not None and introspection.grant.user == "ada" and introspection.grant.resource == RESOURCE
        )
        assert introspection.grant.client_id == program.id and introspection.scopes == ("read",)

    asyncio.run(run())


def test_a_person_who_says_no_is_believed() -> None:
    async def run() -> None:
        server = house()
        program, person = await Program.registered(server), Person(server)
        answer = await person.decides(await person.request_authorization(**program.authorization_params()), "deny")
        params = answer_of(answer)
        assert onward(answer).startswith(f"{REDIRECT}?")
        assert params["error"] == "access_denied" and params["state"] == "a state" and "code" not in params

    asyncio.run(run())


def test_a_person_who_has_not_signed_in_does_so_first_and_comes_back() -> None:
    async def run() -> None:
        server = house()
        program = await Program.registered(server)
        answer = await Person(server, user="").request_authorization(**program.authorization_params())
        assert answer.status_code == 303 and answer.headers["location"].startswith("/login?back=%2Fauthorize%3F")
        assert program.id in answer.headers["location"]

    asyncio.run(run())


@pytest.mark.clause("2025-03-26/authorization/28", "2025-03-26/authorization/37", "draft/authorization/32")
@pytest.mark.clause("draft/authorization/31")
def test_tokens_are_renewed_and_each_refresh_token_is_another() -> None:
    async def run() -> None:
        clock = Clock()
        server = house(clock=clock, lifetimes=TokenLifetimes(access_token=100.0))
        program = await Program.registered(server)
        first = await tokens(server, program)
        clock.now += 101
        assert not await works(server, first["access_token"])
        second = (await program.refreshes(first["refresh_token"])).json()
        assert await works(server, second["access_token"])
        assert second["refresh_token"] != first["refresh_token"]
        narrow = (await program.refreshes(second["refresh_token"], scope="read")).json()
        assert narrow["scope"] == "read"
        wide = (await program.refreshes(narrow["refresh_token"])).json()
        assert wide["scope"] == "read write"

    asyncio.run(run())


def test_nothing_lasts_longer_than_what_the_person_agreed_to() -> None:
    async def run() -> None:
        clock = Clock()
        server = house(clock=clock, lifetimes=TokenLifetimes(access_token=100.0, grant=150.0))
        program = await Program.registered(server)
        first = await tokens(server, program)
        clock.now += 100
        second = (await program.refreshes(first["refresh_token"])).json()
        assert second["expires_in"] == 50
        clock.now += 50
        assert not await works(server, second["access_token"])
        assert error_of(await program.refreshes(second["refresh_token"])) == (400, "invalid_grant")

    asyncio.run(run())


def test_a_program_without_a_person_gets_tokens_for_itself() -> None:
    async def run() -> None:
        client = OAuthClient.static("worker", secret="s" * 40, grant_types=("client_credentials",), scopes=("read",))
        server = house(clients=[client])
        worker = Program(server, "worker", "s" * 40)
        got = (await worker.posts("/token", grant_type="client_credentials")).json()
        introspection = await server.introspect(got["access_token"])
        assert introspection is not None and introspection.scopes == ("read",) and "refresh_token" not in got
        assert error_of(await worker.posts("/token", grant_type="client_credentials", scope="write")) == (
            400,
            "invalid_scope",
        )
        public = await Program.registered(server)
        assert error_of(await public.posts("/token", grant_type="client_credentials")) == (400, "unauthorized_client")

    asyncio.run(run())


def test_a_token_that_is_revoked_ends_with_all_of_its_grant() -> None:
    async def run() -> None:
        server = house()
        program = await Program.registered(server)
        for named in ("access_token", "refresh_token"):
            got, other = await tokens(server, program), await tokens(server, program)
            assert (await program.posts("/revoke", token=got[named])).status_code == 200
            assert not await works(server, got["access_token"])
            assert error_of(await program.refreshes(got["refresh_token"])) == (400, "invalid_grant")
            assert await works(server, other["access_token"])
        assert (await program.posts("/revoke", token="no such token")).status_code == 200

    asyncio.run(run())


def test_a_resource_server_asks_what_a_token_is_worth_and_nobody_else_may() -> None:
    async def run() -> None:
        resource_client = OAuthClient.static("the resource", secret="r" * 40, may_introspect=True)
        server = house(clients=[resource_client])
        program, resource = await Program.registered(server), Program(server, "the resource", "r" * 40)
        got = await tokens(server, program)
        introspection = (await resource.posts("/introspect", token=got["access_token"])).json()
        assert introspection["active"] and (introspection["sub"], introspection["aud"], introspection["client_id"]) == (
            "ada",
            RESOURCE,
            program.id,
        )
        for token in ("unknown", got["refresh_token"]):
            assert (await resource.posts("/introspect", token=token)).json() == {"active": False}
        assert (await program.posts("/introspect", token=got["access_token"])).status_code == 403

    asyncio.run(run())


def test_programs_take_any_port_of_this_machine_that_is_free() -> None:
    async def run() -> None:
        server = house()
        program = await Program.registered(server, "http://127.0.0.1/callback")
        for port in (":49152", ":1", ""):
            redirect = f"http://127.0.0.1{port}/callback"
            params = await Person(server).allows(**program.authorization_params(redirect))
            assert (await program.redeems(params["code"], redirect_uri=redirect)).status_code == 200

    asyncio.run(run())


def test_what_is_kept_in_a_file_is_there_in_the_next_process_for_its_owner_alone_and_has_no_secret(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        path = tmp_path / "house.db"
        storage = SQLiteStorage(path)
        server = house(storage=storage)
        program = await Program.registered(server, token_endpoint_auth_method="client_secret_post")
        got = await tokens(server, program)
        params = await Person(server).allows(**program.authorization_params())
        for file in tmp_path.iterdir():
            assert sys.platform == "win32" or stat.S_IMODE(file.stat().st_mode) == 0o600, file
            data = file.read_bytes()
            for secret in (got["access_token"], got["refresh_token"], params["code"], str(program.secret)):
                assert secret.encode() not in data
        storage.close()
        again = house(storage=SQLiteStorage(path))
        assert await works(again, got["access_token"])
        program.web = Program(again).web
        assert (await program.redeems(params["code"])).status_code == 200

    asyncio.run(run())


@pytest.mark.parametrize("content", ["older", "newer", "text"])
def test_a_file_of_another_format_is_refused_with_its_name_and_the_remedy(tmp_path: Path, content: str) -> None:
    path = tmp_path / "authorization.db"
    if content == "text":
        path.write_text("These are notes, and no tables at all.\n" * 50)
    else:
        with closing(sqlite3.connect(path)) as older:
            older.executescript("CREATE TABLE grants (id TEXT PRIMARY KEY, client TEXT)")
            older.execute(f"PRAGMA user_version = {0 if content == 'older' else 99}")
    before = path.read_bytes()
    with pytest.raises(
        LocalError, match=r"authorization\.db: (has format \d+, .*remove the file|is not a SQLite file)"
    ):
        SQLiteStorage(path)
    assert path.read_bytes() == before


def test_what_expired_and_who_never_came_back_is_forgotten() -> None:
    async def run() -> None:
        clock, storage = Clock(), SQLiteStorage()
        server = house(clock=clock, storage=storage, lifetimes=TokenLifetimes(grant=1000.0, unused_client=500.0))
        used, unused = await Program.registered(server), await Program.registered(server)
        got = await tokens(server, used)
        clock.now += 600
        await used.web.get(METADATA)
        assert await storage.client(used.id) is not None and await storage.client(unused.id) is None
        introspection = await server.introspect(got["access_token"])
        assert introspection is not None
        clock.now += 600
        await used.web.get(METADATA)
        assert await storage.grant(introspection.grant.id) is None

    asyncio.run(run())


def test_of_two_processes_that_share_a_file_one_takes_a_code(tmp_path: Path) -> None:
    async def run() -> None:
        path = tmp_path / "house.db"
        storages = SQLiteStorage(path), SQLiteStorage(path)
        first, second = (house(storage=storage) for storage in storages)
        program = await Program.registered(first)
        for _ in range(5):
            code = (await Person(first).allows(**program.authorization_params()))["code"]
            answers = await asyncio.gather(program.redeems(code), Program(second, program.id).redeems(code))
            assert sorted(answer.status_code for answer in answers) in ([200, 400], [400, 400])
            for answer in answers:
                assert answer.status_code == 400 or not await works(second, answer.json()["access_token"])
        for storage in storages:
            storage.close()

    asyncio.run(run())


def test_an_issuer_may_have_a_path_and_other_applications_beside_it() -> None:
    async def run() -> None:
        issuer = f"{ISSUER}/tenant"

        async def other(scope: Any, receive: Any, send: Any) -> None:
            await send({"type": "http.response.start", "status": 299, "headers": []})
            await send({"type": "http.response.body"})

        server = house(issuer=issuer)
        web = Program(server.wrap(other)).web
        assert (await web.get(f"{METADATA}/tenant")).json()["token_endpoint"] == f"{issuer}/token"
        assert (await web.get("/tenant/authorize")).status_code == 400
        for path in (METADATA, "/token", "/mcp", "/"):
            assert (await web.get(path)).status_code == 299
        assert (await Program(server).web.get("/mcp")).status_code == 404

    asyncio.run(run())
