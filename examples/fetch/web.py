"""Fetch the text at a URL, but never from a private address."""

from __future__ import annotations

import ipaddress
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from html.parser import HTMLParser
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Final
from urllib.parse import SplitResult, urljoin, urlsplit

MAX_BYTES: Final = 1 << 20  # Of one page.
SECONDS: Final = 15.0  # The time limit of one request; each redirect is a further request.
MAX_REDIRECTS: Final = 5
# Origins that may be fetched although they are not public, such as `http://127.0.0.1:8080`: for tests, at home.
ALLOWED: Final = frozenset(os.environ.get("FETCH_ALLOW", "").split())
_PORTS: Final = {"http": 80, "https": 443}
_MOVED: Final = frozenset({301, 302, 303, 307, 308})
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")


class FetchError(Exception):
    """The page cannot be fetched. The message gives the reason, for people and models."""


def fetch(url: str) -> tuple[str, str]:
    """Return the text at a URL and its media type. Every redirect is checked like the URL."""
    for _ in range(MAX_REDIRECTS + 1):
        with _get(url) as response:
            if response.status in _MOVED and (location := response.getheader("Location")):
                url = urljoin(url, location)
                continue
            if response.status != 200:
                raise FetchError(f"The server answered {response.status}.")
            kind = response.headers.get_content_type()
            if not (kind.startswith("text/") or kind.endswith(("json", "xml"))):
                raise FetchError(f"The content is not text but {kind}.")
            content = response.read(MAX_BYTES + 1)
            if len(content) > MAX_BYTES:
                raise FetchError(f"The content is longer than {MAX_BYTES} bytes.")
            try:
                text = content.decode(response.headers.get_content_charset("utf-8"), errors="replace")
            except LookupError:
                raise FetchError("The content has an unknown encoding.") from None
            return (_words(text), kind) if kind == "text/html" else (text, kind)
    raise FetchError(f"There are more than {MAX_REDIRECTS} redirects.")


@contextmanager
def _get(url: str) -> Iterator[HTTPResponse]:
    """Send a GET request over a connection to the checked address: the name may resolve to another one later."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        raise FetchError("This is not a URL.") from None
    if not host or not port or parts.username is not None:
        raise FetchError("Only http and https URLs without user names are fetched.")
    timed_out = threading.Event()
    connection = HTTPConnection(host, port, timeout=SECONDS)
    try:
        plain = socket.create_connection((_address(parts, host, port), port), timeout=SECONDS)
        connection.sock = plain
        if parts.scheme == "https":
            connection.sock = ssl.create_default_context().wrap_socket(plain, server_hostname=host)
        timer = threading.Timer(SECONDS, _cut, (connection.sock, timed_out))
        timer.daemon = True
        timer.start()
        try:
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            # The `Host` of the URL, for virtual hosts; the default port is omitted.
            connection.putrequest("GET", path, skip_host=True, skip_accept_encoding=True)
            for name, value in (("Host", parts.netloc), ("User-Agent", "mcp-codegen-fetch-example/1.0")):
                connection.putheader(name, value)
            connection.endheaders()
            yield connection.getresponse()
        finally:
            timer.cancel()
    except (OSError, HTTPException, ValueError) as error:
        slow = timed_out.is_set() or isinstance(error, TimeoutError)
        raise FetchError(f"No response within {SECONDS:g} s." if slow else f"Fetching failed: {error}.") from None
    finally:
        connection.close()


def _cut(connected: socket.socket, timed_out: threading.Event) -> None:
    """Close a connection after its time limit, also one with a slow response."""
    timed_out.set()
    with suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)


def _address(parts: SplitResult, host: str, port: int) -> str:
    """Return an address of a host. Raises FetchError if any address of the host is not public."""
    addresses = [str(info[4][0]) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    if f"{parts.scheme}://{parts.netloc}" not in ALLOWED and not all(map(_public, addresses)):
        raise FetchError("This host has a private address and is not fetched.")
    return addresses[0]


def _public(address: str) -> bool:
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        # These addresses contain an IPv4 address, to which a gateway may forward.
        if ip in _NAT64 or ip.sixtofour is not None or ip.teredo is not None:
            return False
        ip = ip.ipv4_mapped or ip
    return ip.is_global and not ip.is_multicast and not ip.is_reserved


class _Text(HTMLParser):
    """A parser that collects the visible text of a page."""

    hidden: Final = frozenset({"script", "style", "template", "noscript", "head"})

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self._hidden_tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in self.hidden:
            self._hidden_tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._hidden_tags and tag == self._hidden_tags[-1]:
            self._hidden_tags.pop()

    def handle_data(self, data: str) -> None:
        if not self._hidden_tags and data.strip():
            self.words.append(" ".join(data.split()))


def _words(page: str) -> str:
    reader = _Text()
    reader.feed(page)
    reader.close()
    return "\n".join(reader.words)
