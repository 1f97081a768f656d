"""Registrations as hosts make them: what a server refuses of them is named, and a server without them is left alone."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from mcp_products.lint import Snapshot, lint
from mcp_products.lint.registration import try_registrations

CURSOR = "cursor://anysphere.cursor-mcp/oauth/callback"


@contextmanager
def authorization(
    accepted: tuple[str, ...], *, most: int = 9, registers: bool = True
) -> Iterator[tuple[str, list[Any]]]:
    """A server whose registration accepts addresses that begin so, and at most so many at once."""
    registered: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def answer(self, status: int, document: dict[str, Any]) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(document).encode())

        def do_GET(self) -> None:
            origin = f"http://127.0.0.1:{self.server.server_address[1]}"
            documents: dict[str, dict[str, Any]] = {
                "/.well-known/oauth-protected-resource/mcp": {"authorization_servers": [f"{origin}/tenant"]},
                "/.well-known/oauth-authorization-server/tenant": (
                    {"registration_endpoint": f"{origin}/register"} if registers else {"issuer": origin}
                ),
            }
            document = documents.get(self.path)
            self.answer(200 if document else 404, document or {})

        def do_POST(self) -> None:
            client = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            addresses = client["redirect_uris"]
            registered.append(addresses)
            good = len(addresses) <= most and all(address.startswith(accepted) for address in addresses)
            self.answer(201 if good else 400, {"client_id": "one"} if good else {"error": "invalid_redirect_uri"})

        def log_message(self, *words: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/mcp", registered
        finally:
            server.shutdown()


def refused(url: str) -> set[tuple[str, str]]:
    """Return the hosts whose login fails, and the address that is the reason."""
    snapshot = Snapshot(url=url)
    try_registrations(snapshot, 10.0)
    findings = [finding for finding in lint(snapshot) if finding.rule.name == "oauth-redirect"]
    return {(host, finding.write.removeprefix("accept ")) for finding in findings for host in finding.hosts}


def test_an_address_that_is_refused_is_named_with_its_host() -> None:
    with authorization(("https://", "http://")) as (url, registered):
        assert refused(url) == {("cursor", CURSOR)}
    assert len(registered[0]) == 3  # Cursor registers all at once.


def test_a_server_that_accepts_all_has_no_finding() -> None:
    with authorization(("https://", "http://", "cursor://")) as (url, registered):
        assert refused(url) == set()
    assert len(registered) == 2


def test_addresses_that_are_refused_together_alone_are_all_named() -> None:
    with authorization(("https://", "http://", "cursor://"), most=1) as (url, _):
        assert {host for host, _ in refused(url)} == {"cursor", "vscode-copilot"}


@pytest.mark.parametrize("registers", [True, False])
def test_without_a_registration_nothing_is_said(registers: bool) -> None:
    with authorization((), registers=False) as (url, registered):
        assert refused(url if registers else url.replace("/mcp", "/other")) == set()
    assert registered == []
