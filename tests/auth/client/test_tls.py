"""Authorization servers over TLS: the certificate has to be of the name, whichever address was connected to."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from mcp_products.auth.http import AuthHTTPClient, URLPolicy
from mcp_runtime.errors import AuthorizationError, AuthorizationServerUnavailableError

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}"


@asynccontextmanager
async def certified(name: str, folder: Path) -> AsyncIterator[tuple[int, ssl.SSLContext, list[str]]]:
    """The port of a server with a certificate of this name, who trusts it, and the Host headers it was sent."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    (folder / "both.pem").write_bytes(
        certificate.public_bytes(pem) + key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    )
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(folder / "both.pem")
    hosts: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        hosts.append(head.partition("\r\nhost: ")[2].partition("\r\n")[0])
        writer.write(ANSWER)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=serving) as server:
        trust = ssl.create_default_context(cadata=certificate.public_bytes(pem).decode())
        yield server.sockets[0].getsockname()[1], trust, hosts


@pytest.mark.clause("2025-03-26/authorization/29", "draft/authorization/34")
async def test_a_server_is_asked_by_its_name_over_tls(tmp_path: Path) -> None:
    async with certified("localhost", tmp_path) as (port, trust, hosts):
        origin = f"https://localhost:{port}"
        policy = URLPolicy(private=frozenset({origin}))
        assert (await AuthHTTPClient(policy, trust).get(f"{origin}/metadata")).body == {}
        assert hosts == [f"localhost:{port}"]
        with pytest.raises(AuthorizationError, match="URLs on this machine are not allowed"):
            await AuthHTTPClient(URLPolicy(), trust).get(f"{origin}/metadata")


async def test_a_certificate_of_another_name_or_authority_is_refused(tmp_path: Path) -> None:
    async with certified("other.example", tmp_path) as (port, trust, hosts):
        origin = f"https://localhost:{port}"
        policy = URLPolicy(private=frozenset({origin}))
        for tls in (trust, None):
            with pytest.raises(AuthorizationServerUnavailableError, match="ConnectError"):
                await AuthHTTPClient(policy, tls).post_form(f"{origin}/token", {"code": "s3cret"}, {})
        assert hosts == []


@pytest.mark.parametrize(
    ("named", "host"),
    [
        ("xn--fa-hia.de", "xn--fa-hia.de"),
        ("XN--FA-HIA.DE", "xn--fa-hia.de"),
        ("xn--mnchen-3ya.de", "xn--mnchen-3ya.de"),
        ("xn--wgv71a.xn--fa-hia.example", "xn--wgv71a.xn--fa-hia.example"),
        ("xn--.example", "xn--.example"),
    ],
)
async def test_the_host_that_is_named_is_looked_up_and_certified(
    named: str, host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up: list[str] = []
    async with certified("localhost" if host == "xn--.example" else host, tmp_path) as (
        port,
        trust,
        hosts,
    ):
        loop = asyncio.get_running_loop()
        real = loop.getaddrinfo

        async def getaddrinfo(name: str, *rest: Any, **more: Any) -> Any:
            if name != "127.0.0.1":
                looked_up.append(name.encode("idna").decode())  # As the system's resolver gets it.
            return await real("127.0.0.1", *rest, **more)

        monkeypatch.setattr(loop, "getaddrinfo", getaddrinfo)
        origin = f"https://{named}:{port}"
        client = AuthHTTPClient(URLPolicy(private=frozenset({origin.lower()})), trust)
        if host == "xn--.example":
            with pytest.raises(AuthorizationError):
                await client.get(f"{origin}/metadata")
        else:
            assert (await client.get(f"{origin}/metadata")).body == {}
            assert hosts == [f"{host}:{port}"]
    assert looked_up in ([host], [])
