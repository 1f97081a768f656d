"""The page of consent in Chromium: what a person sees and does there, and what others cannot do with it."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx2
import pytest
from support.auth import protected_example as example
from support.auth.authorization_server import VERIFIER, challenge_of, serving
from support.browsers import DEADLINE, Browser, chromium

from mcp_products.auth.authorization_server.app import AuthorizationServer
from mcp_products.auth.authorization_server.http import HTTPRequest
from mcp_products.auth.authorization_server.models import OAuthClient
from mcp_products.auth.authorization_server.upstream import UpstreamProvider
from mcp_products.auth.client.storage import OAuthClientInformation, OAuthToken
from mcp_products.auth.http import URLPolicy

RESOURCE = "http://127.0.0.1:8000/mcp"
HOSTILE = "<img src=x onerror=\"document.title='stolen'\">"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    """The example's authorization server, as a process of its own."""
    with example.running("authorization.py", "0", RESOURCE) as url:
        yield url


class Site(ThreadingHTTPServer):
    """The client's own site, which keeps what browsers ask it for, and has a page that frames another."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.origin = f"http://127.0.0.1:{self.server_port}"
        self.callback = f"{self.origin}/callback"
        self.came: list[dict[str, str]] = []
        self.framed = ""
        self.on_to = ""


class Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        site: Any = self.server
        at = urlsplit(self.path)
        if at.path == "/callback":
            site.came.append(dict(parse_qsl(at.query)))
        if at.path == "/callback" and site.on_to:
            self.send_response(302)
            self.send_header("location", site.on_to)
            self.end_headers()
            return
        page = f"<!doctype html><title>Arrived</title>{site.framed}".encode()
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def site() -> Iterator[Site]:
    server = Site()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def registered(issuer: str, site: Site, name: str) -> str:
    """A client of this name, and the URL at which a person is asked about it."""
    metadata = {"client_name": name, "redirect_uris": [site.callback], "token_endpoint_auth_method": "none"}
    client = httpx2.post(f"{issuer}/register", json=metadata).json()["client_id"]
    params = {
        "response_type": "code",
        "client_id": client,
        "redirect_uri": site.callback,
        "code_challenge": challenge_of(VERIFIER),
        "code_challenge_method": "S256",
        "state": "a state & more",
        "scope": "notes:read",
    }
    return f"{issuer}/authorize?{urlencode(params)}"


def sign_in(browser: Browser, url: str, password: str = example.PASSWORD) -> None:
    """Go to where a person is asked, by way of the page on which they sign in."""
    browser.delete_all_cookies()
    browser.get(url)
    assert browser.title == "Sign in"
    browser.find_element("name", "name").send_keys("ada")
    browser.find_element("name", "password").send_keys(password)
    press(browser, "#signin")


def press(browser: Browser, selector: str) -> None:
    """Press a button, and wait until the page is left."""
    from selenium.webdriver.support.expected_conditions import staleness_of

    button = browser.find_element("css selector", selector)
    button.click()
    wait(browser, staleness_of(button))


def arrives(browser: Browser, selector: str, title: str) -> None:
    """Press a button, and wait for the page of this title that it leads to by others."""
    from selenium.webdriver.support.expected_conditions import title_is

    press(browser, selector)
    wait(browser, title_is(title))


def wait(browser: Browser, condition: Any) -> None:
    """Wait for something; the driver itself may stumble while one page gives way to another."""
    from selenium.common.exceptions import WebDriverException
    from selenium.webdriver.support.wait import WebDriverWait

    WebDriverWait(browser, DEADLINE, ignored_exceptions=[WebDriverException]).until(condition)


def text(browser: Browser) -> str:
    return str(browser.find_element("css selector", "body").text)


def console_errors(browser: Browser) -> list[Any]:
    return [entry["message"] for entry in browser.get_log("browser") if "favicon" not in entry["message"]]


@pytest.mark.long
def test_a_person_signs_in_sees_who_asks_for_what_and_allows_it(browser: Browser, issuer: str, site: Site) -> None:
    console_errors(browser)
    url = registered(issuer, site, "A program")
    sign_in(browser, url, "byron")
    assert "The name or the password is wrong." in text(browser)
    sign_in(browser, url)
    for phrase in (
        "Allow A program to act for you?",
        "a program on this computer (127.0.0.1)",
        RESOURCE,
        "notes:read",
        "ada",
    ):
        assert phrase in text(browser)
    assert "nobody has checked it" in text(browser)
    arrives(browser, "#allow", "Arrived")
    assert browser.current_url.startswith(site.callback)
    [came] = site.came
    assert came["state"] == "a state & more" and came["iss"] == issuer
    client = dict(parse_qsl(urlsplit(url).query))["client_id"]
    form = {"grant_type": "authorization_code", "code": came["code"], "code_verifier": VERIFIER, "client_id": client}
    got = httpx2.post(f"{issuer}/token", data=form).json()
    introspection = {"client_id": "notes-server", "client_secret": example.SECRET, "token": got["access_token"]}
    assert httpx2.post(f"{issuer}/introspect", data=introspection).json()["sub"] == "ada"
    assert [error for error in console_errors(browser) if "403" not in error] == []


@pytest.mark.long
def test_a_client_logs_in_by_way_of_the_browser_and_calls_a_tool(
    browser: Browser, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: queue.Queue[str] = queue.Queue()
    with example.both() as (_, url):
        run = example.client().main(url, str(tmp_path / "tokens.json"), open_url=opened.put)
        client = threading.Thread(target=lambda: asyncio.run(asyncio.wait_for(run, DEADLINE)))
        client.start()
        try:
            sign_in(browser, opened.get(timeout=DEADLINE))
            assert "Allow Notes on the command line to act for you?" in text(browser)
            assert "notes:read, notes:write" in text(browser) and url in text(browser)
            arrives(browser, "#allow", "Done")
            assert "You may close this window" in text(browser)
        finally:
            client.join()
    assert capsys.readouterr().out.splitlines() == ["ada has 1 notes", "buy milk"]


@pytest.mark.long
def test_a_person_who_says_no_is_taken_back_without_a_code(browser: Browser, issuer: str, site: Site) -> None:
    sign_in(browser, registered(issuer, site, "A program"))
    arrives(browser, "button[value=deny]", "Arrived")
    [came] = site.came
    assert came["error"] == "access_denied" and "code" not in came


@pytest.mark.long
def test_a_program_of_a_hostile_name_shows_it_as_text(browser: Browser, issuer: str, site: Site) -> None:
    sign_in(browser, registered(issuer, site, HOSTILE))
    assert HOSTILE in text(browser) and browser.title == "Allow access?"
    assert browser.execute_script("return document.images.length + document.scripts.length") == 0


@pytest.mark.long
def test_a_page_that_frames_the_page_of_consent_gets_nothing_of_it(browser: Browser, issuer: str, site: Site) -> None:
    url = registered(issuer, site, "A program")
    sign_in(browser, url)
    assert browser.find_element("id", "allow").is_displayed()
    console_errors(browser)
    site.framed = f'<iframe src="{escape(url)}"></iframe>'
    browser.get(f"{site.origin}/frames")
    browser.switch_to.frame(0)
    assert browser.find_elements("id", "allow") == []
    browser.switch_to.default_content()
    assert any("frame" in error.lower() for error in console_errors(browser))
    assert site.came == []


@pytest.mark.long
def test_another_site_cannot_press_the_button(browser: Browser, issuer: str, site: Site) -> None:
    sign_in(browser, registered(issuer, site, "A program"))
    ticket = browser.find_element("name", "ticket").get_attribute("value")
    # Even with a ticket that was seen over the person's shoulder.
    site.framed = (
        f'<form method="post" action="{issuer}/consent"><input name="ticket" value="{ticket}">'
        '<button id="go" name="decision" value="allow">Win</button></form>'
    )
    browser.get(site.origin.replace("127.0.0.1", "localhost"))
    press(browser, "#go")
    assert "was not sent from a page of this server" in text(browser)
    assert site.came == []


class Somebody:
    """A sign-in of one person, who is always there."""

    async def current_user(self, request: HTTPRequest) -> str | None:
        return "ada"

    def login_url(self, return_to: str) -> str:
        return return_to


@asynccontextmanager
async def proxied() -> AsyncIterator[str]:
    """A server whose people sign in with a third party, which to browsers is another site."""
    servers: list[AuthorizationServer] = []

    async def who(token: OAuthToken) -> str:
        introspection = await servers[0].introspect(token.access_token)
        assert introspection is not None
        return introspection.grant.user

    def third(origin: str) -> AuthorizationServer:
        proxy = OAuthClient.static("proxy", ("http://127.0.0.1/callback",), secret="the secret of the proxy")
        at = origin.replace("127.0.0.1", "localhost")
        servers.append(AuthorizationServer(at, resources=["https://api.example"], login=Somebody(), clients=[proxy]))
        return servers[0]

    def ours(origin: str) -> AuthorizationServer:
        information = OAuthClientInformation("proxy", "the secret of the proxy")
        policy = URLPolicy(local=True)
        party = UpstreamProvider(
            issuer=servers[0].issuer, client=information, identify=who, name="Third & Co", policy=policy
        )
        return AuthorizationServer(origin, resources=[RESOURCE], scopes=("notes:read",), upstream=party)

    async with serving(third), serving(ours) as origin:
        yield origin


@pytest.fixture
def proxy() -> Iterator[str]:
    """The issuer that asks a third party, served by a thread."""
    origins: queue.Queue[str] = queue.Queue()
    loop, done = asyncio.new_event_loop(), asyncio.Event()

    async def serve() -> None:
        async with proxied() as origin:
            origins.put(origin)
            await done.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    yield origins.get(timeout=DEADLINE)
    loop.call_soon_threadsafe(done.set)
    thread.join()
    loop.close()


@pytest.mark.exhaustive
def test_a_person_signs_in_with_a_third_party_on_another_site_and_comes_back(
    browser: Browser, proxy: str, site: Site
) -> None:
    console_errors(browser)
    # The client's callback sends the browser on to yet another site, as those of the web do.
    site.on_to = f"{site.origin.replace('127.0.0.1', 'localhost')}/done"
    browser.get(registered(proxy, site, "A program"))
    assert "You sign in with" in text(browser) and "Third & Co" in text(browser)
    arrives(browser, "#allow", "Allow access?")
    assert browser.current_url.startswith("http://localhost:") and "proxy" in text(browser)
    arrives(browser, "#allow", "Arrived")
    assert browser.current_url == site.on_to
    [came] = site.came
    assert came["iss"] == proxy and came["state"] == "a state & more" and came["code"]
    assert console_errors(browser) == []
