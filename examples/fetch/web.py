"""A URL goes in, the text that is there comes out, unless it is on a machine that is not public."""

from __future__ import annotations

import ipaddress
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Final
from urllib.parse import SplitResult, urljoin, urlsplit

LONGEST: Final = 1 << 20  # Bytes of one page.
SECONDS: Final = 15.0  # For a whole page; for all its redirects together, so many times as much.
HOPS: Final = 5
# Origins that may be fetched although they are not public, such as `http://127.0.0.1:8080`; for tests and for networks at home.
ALLOWED: Final = frozenset(os.environ.get("FETCH_ALLOW", "").split())
_PORTS: Final = {"http": 80, "https": 443}
_MOVED: Final = frozenset({301, 302, 303, 307, 308})
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")


class Unfetched(Exception):
    """There is no text to give; the message says why, for people and models to read."""


def fetch(url: str) -> tuple[str, str]:
    """The text at a URL and its type; every redirect is judged as the URL was."""
    for _ in range(HOPS + 1):
        with _asked(url) as answer:
            if answer.status in _MOVED and (elsewhere := answer.getheader("Location")):
                url = urljoin(url, elsewhere)
                continue
            if answer.status != 200:
                raise Unfetched(f"The server answered {answer.status}.")
            kind = answer.headers.get_content_type()
            if not (kind.startswith("text/") or kind.endswith(("json", "xml"))):
                raise Unfetched(f"What is there is no text but {kind}.")
            content = answer.read(LONGEST + 1)
            if len(content) > LONGEST:
                raise Unfetched(f"What is there is longer than {LONGEST} bytes.")
            try:
                text = content.decode(answer.headers.get_content_charset("utf-8"), errors="replace")
            except LookupError:
                raise Unfetched("What is there has an unknown encoding.") from None
            return (_words(text), kind) if kind == "text/html" else (text, kind)
    raise Unfetched(f"There are more than {HOPS} redirects.")


@contextmanager
def _asked(url: str) -> Iterator[HTTPResponse]:
    """The answer to a GET, over a connection to the very address that was judged: a name may mean another a moment later."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        raise Unfetched("This is not a URL.") from None
    if not host or not port or parts.username is not None:
        raise Unfetched("Only http and https URLs without user names are fetched.")
    late = threading.Event()
    connection = HTTPConnection(host, port, timeout=SECONDS)
    try:
        plain = socket.create_connection((_address(parts, host, port), port), timeout=SECONDS)
        connection.sock = plain
        if parts.scheme == "https":
            connection.sock = ssl.create_default_context().wrap_socket(plain, server_hostname=host)
        watch = threading.Timer(SECONDS, _cut, (connection.sock, late))
        watch.daemon = True
        watch.start()
        try:
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            # The name as it was given, for servers of several names; the usual port is not said.
            connection.putrequest("GET", path, skip_host=True, skip_accept_encoding=True)
            for name, value in (("Host", parts.netloc), ("User-Agent", "mcp-codegen-fetch-example/1.0")):
                connection.putheader(name, value)
            connection.endheaders()
            yield connection.getresponse()
        finally:
            watch.cancel()
    except (OSError, HTTPException, ValueError) as fault:
        slow = late.is_set() or isinstance(fault, TimeoutError)
        raise Unfetched(f"No answer within {SECONDS:g} s." if slow else f"Fetching failed: {fault}.") from None
    finally:
        connection.close()


def _cut(opened: socket.socket, late: threading.Event) -> None:
    """End a connection whose time is up, also one whose answer comes drop by drop."""
    late.set()
    try:
        opened.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


def _address(parts: SplitResult, host: str, port: int) -> str:
    """The address of a host. Raises Unfetched where any that its name has is not public."""
    found = [str(each[4][0]) for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    if f"{parts.scheme}://{parts.netloc}" not in ALLOWED and not all(map(_public, found)):
        raise Unfetched("This is not on a public machine, and is not fetched.")
    return found[0]


def _public(address: str) -> bool:
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        # Each of these is another way to write an IPv4 address, which a gateway may lead to.
        if ip in _NAT64 or ip.sixtofour is not None or ip.teredo is not None:
            return False
        ip = ip.ipv4_mapped or ip
    return ip.is_global and not ip.is_multicast and not ip.is_reserved


class _Text(HTMLParser):
    """Collects what a reader of a page sees."""

    hidden: Final = frozenset({"script", "style", "template", "noscript", "head"})

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self._inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in self.hidden:
            self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._inside and tag == self._inside[-1]:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        if not self._inside and data.strip():
            self.words.append(" ".join(data.split()))


def _words(page: str) -> str:
    reader = _Text()
    reader.feed(page)
    reader.close()
    return "\n".join(reader.words)
