"""An HTTP request as a handler sees it: headers, the client's address, method and path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl


class ClientAddress(NamedTuple):
    """The address of an HTTP client. With a proxy it is that of the proxy, unless the server trusts its headers."""

    host: str
    port: int


class CaseInsensitiveHeaders(Mapping[str, str]):
    """The headers of a request: names in any case; values of the same name are joined with a comma."""

    def __init__(self, raw: list[tuple[bytes, bytes]]) -> None:
        """Create the mapping from the headers of an ASGI scope."""
        self._fields: dict[str, str] = {}
        for key, value in raw:
            name, text = key.decode("latin-1").lower(), value.decode("latin-1")
            self._fields[name] = f"{self._fields[name]}, {text}" if name in self._fields else text

    def __getitem__(self, name: str) -> str:
        return self._fields[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._fields

    def __repr__(self) -> str:
        return f"<headers {', '.join(self._fields)}>"  # Without the values: an access token does not belong into a log.


class RequestURL(NamedTuple):
    """The URL of a request; `str(url)` is its whole text."""

    scheme: str
    netloc: str
    path: str
    query: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.netloc}{self.path}{'?' + self.query if self.query else ''}"


class ReceivedRequest:
    """An HTTP request. Its headers are input of the client: they prove no identity.

    Attributes:
        scope: The ASGI scope of the request.
    """

    def __init__(self, scope: Mapping[str, Any]) -> None:
        """Create the view of an ASGI scope."""
        self.scope = scope

    @property
    def method(self) -> str:
        """The HTTP method, such as POST."""
        return str(self.scope["method"])

    @property
    def headers(self) -> CaseInsensitiveHeaders:
        """The headers, with names in any case."""
        return CaseInsensitiveHeaders(self.scope["headers"])

    @property
    def client(self) -> ClientAddress | None:
        """The address of the client; None if the HTTP server does not have it."""
        address = self.scope.get("client")
        return None if address is None else ClientAddress(*address)

    @property
    def path(self) -> str:
        """The path of the URL."""
        return str(self.scope["path"])

    @property
    def url(self) -> RequestURL:
        """The URL, with the host that the client has sent."""
        query = self.scope.get("query_string", b"").decode("latin-1")
        return RequestURL(self.scope.get("scheme", "http"), self.headers.get("host", ""), self.path, query)

    @property
    def query_params(self) -> dict[str, str]:
        """The values of the query; the last one if a name occurs twice."""
        return dict(parse_qsl(self.scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True))

    @property
    def user(self) -> Any:
        """The user that a middleware has put into the scope; None without one."""
        return self.scope.get("user")

    @property
    def state(self) -> Any:
        """The state that a middleware has put into the scope; None without one."""
        return self.scope.get("state")
