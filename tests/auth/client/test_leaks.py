"""What a server says in a 401, and what a login leaves behind in logs, errors and on the command line of a browser."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joserfc.jwk import ECKey
from support.auth.client_servers import REDIRECT, Reply, World, served, statuses

from mcp_products.auth.client.grants import AuthorizationCode, ClientCredentials
from mcp_products.auth.client.provider import OAuthClientProvider
from mcp_products.auth.client.storage import InMemoryTokenStorage, OAuthClientInformation
from mcp_products.auth.client.token_endpoint import parse_challenges
from mcp_products.auth.http import URLPolicy
from mcp_runtime.errors import AuthorizationError


@pytest.fixture
def world() -> Iterator[World]:
    with served(World()) as running:
        yield running


TOKENS = st.text("abcXYZ-_.~!*", min_size=1, max_size=12)
PARAMETERS = st.dictionaries(TOKENS.map(str.lower), st.text(st.characters(codec="latin-1"), max_size=20), min_size=1)


@pytest.mark.long
@given(st.text(max_size=200) | st.binary(max_size=200).map(lambda raw: raw.decode("latin-1")))
@settings(max_examples=80)
def test_any_challenge_at_all_is_read(header: str) -> None:
    for scheme, params in parse_challenges(header).items():
        assert scheme == scheme.lower() and all(name == name.lower() for name in params)


@pytest.mark.long
@given(st.dictionaries(TOKENS.map(str.lower), PARAMETERS, min_size=1, max_size=3))
@settings(max_examples=50)
def test_challenges_come_back_as_they_were_written(challenges: dict[str, dict[str, str]]) -> None:
    def quoted(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    written = (
        f"{s.title()} " + ", ".join(f"{n} = {quoted(v)}" for n, v in params.items()) for s, params in challenges.items()
    )
    header = ", ".join(written)
    if not any(character in header for character in "\n\x85"):
        assert parse_challenges(header) == challenges


@pytest.mark.parametrize(
    "header", ['a="' * 5000, "a" + " " * 16000, 'Bearer a="' + "\\" * 16000, "a=" * 8000, "," * 16000]
)
def test_a_challenge_that_is_made_to_take_long_is_read(header: str) -> None:
    seconds: list[float] = []
    for _ in range(3):  # A garbage collection of the process of the tests may fall into one of them.
        began = time.thread_time()
        challenges = parse_challenges(header * 20)
        seconds.append(time.thread_time() - began)
        assert set(challenges) <= {"a", "bearer"}
    assert min(seconds) < 0.5  # CPU seconds of this thread; linear reading takes some milliseconds.


@pytest.mark.parametrize(
    "challenge",
    [
        'Bearer resource_metadata="http://169.254.169.254/latest"',
        'Bearer resource_metadata="https://[::1/x"',
        'Bearer resource_metadata="' + "x" * 9000 + '"',
        'Bearer resource_metadata=""" """',
        "Bearer resource_metadata=\\",
        "\x80\xff\x00 ===,,,",
    ],
)
def test_a_challenge_of_rubbish_sends_nobody_elsewhere(challenge: str, world: World) -> None:
    world.protects = False
    world.refusal = (401, {"www-authenticate": challenge.replace("\x00", "")}, "")
    with pytest.raises(AuthorizationError):
        statuses(world)
    assert not world.params_of("/authorize")


# ---- secrets ---------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_no_secret_of_a_login_is_in_a_log_a_repr_or_an_error(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    texts: list[str] = []
    key = ECKey.generate_key("P-256").as_pem(private=True).decode()
    storage = InMemoryTokenStorage()

    async def agree(url: str) -> str:  # Without a client of HTTP, which would log what it reads.
        world.respond("GET", url, {}, "")
        return f"{REDIRECT}?code=c0de-s3cret&state={httpx2.URL(url).params['state']}"

    world.replies["/register"] = (201, {}, {"client_id": "registered", "client_secret": "client-s3cret"})
    world.lasts = 0.000_001
    grants: list[Any] = [
        AuthorizationCode(agree, REDIRECT),
        AuthorizationCode(agree, REDIRECT, client_information=OAuthClientInformation("id", "known-s3cret")),
        ClientCredentials(OAuthClientInformation("id", "known-s3cret")),
        ClientCredentials(OAuthClientInformation("id", private_key=key)),
    ]
    answers: list[Reply | None] = [
        None,
        (200, {}, {"access_token": "t0ken-s3cret", "token_type": "bearer", "refresh_token": "r-s3cret"}),
        (200, {}, {"access_token": "t0ken-s3cret with a space", "token_type": "bearer"}),
        (200, {}, {"access_token": "t0ken-s3cret", "token_type": "t0ken-s3cret"}),
        (400, {}, {"error": "t0ken-s3cret", "error_description": "t0ken-s3cret"}),
        (500, {}, "t0ken-s3cret"),
    ]
    for grant in grants:
        for answer in answers:
            world.codes["c0de-s3cret"] = "x"
            world.replies.pop("/token", None)
            if answer is not None:
                world.replies["/token"] = answer
            for _ in range(2 if answer is None else 1):
                try:
                    texts.append(str(statuses(world, grant=grant, storage=storage)))
                except AuthorizationError as error:
                    texts += [repr(error), *traceback.format_exception(error)]
            texts += [repr(grant), repr(asyncio.run(storage.load(world.url)))]
        texts += [repr(OAuthClientProvider(world.url, grant, storage=storage)), repr(vars(storage))]
    text = "\n".join([*texts, *(repr(vars(record)) for record in caplog.records), caplog.text])
    sent = {
        request.params.get(name) for request in world.seen for name in ("code_verifier", "state", "client_assertion")
    }
    body = "".join(key.splitlines()[1:-1])
    for secret in ("s3cret", body[:30], *filter(None, sent)):
        assert secret not in text, secret
    assert "POST" in text and len(sent) > 10


def test_a_url_reaches_the_browser_as_one_argument_and_no_shell(tmp_path: Path) -> None:
    script = tmp_path / "browser.py"
    script.write_text(f"import sys; open({str(tmp_path / 'said')!r}, 'w').write(repr(sys.argv[1:]))")
    url = f"https://as.example/a;touch$IFS{tmp_path}/pwned&calc|x?$(id)&a=b"
    URLPolicy().check(url.replace("|", ""))
    with pytest.raises(AuthorizationError):
        URLPolicy().check(url)
    command = (
        "import sys; from mcp_products.auth.client.browser import LoopbackBrowser; LoopbackBrowser()._open(sys.argv[1])"
    )
    env = {"BROWSER": f"{sys.executable} {script} %s", "PATH": "/usr/bin:/bin"}
    subprocess.run([sys.executable, "-c", command, url.replace("|", "")], check=True, timeout=60, env=env)
    assert (tmp_path / "said").read_text() == repr([url.replace("|", "")]) and not (tmp_path / "pwned").exists()
