"""Certificates are read once for many clients: it takes long, and nothing else runs meanwhile."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest
from support.clients import connect
from support.http.sockets import listening

from mcp_generated import App
from mcp_runtime.http.outgoing import default_tls


async def test_many_clients_read_the_certificates_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    read: list[Any] = []
    bundle = tmp_path / "certificates.pem"
    bundle.write_text("")
    original = ssl.SSLContext.load_verify_locations

    def load(self: ssl.SSLContext, *arguments: Any, **keywords: Any) -> None:
        read.append(arguments or keywords)
        if str(bundle) not in map(str, (*arguments, *keywords.values())):
            original(self, *arguments, **keywords)

    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", load)
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    app = App("app")
    async with listening(app.asgi()) as port:
        for _ in range(5):
            async with connect(f"http://127.0.0.1:{port}/mcp") as client:
                assert client.server.name == "app"
    assert len(read) == 1


def test_other_certificates_of_the_environment_are_other_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    usual = default_tls()
    assert usual.verify_mode is ssl.CERT_REQUIRED and usual.check_hostname
    assert default_tls() is usual
    monkeypatch.setenv("SSL_CERT_DIR", "/")
    assert default_tls() is not usual
