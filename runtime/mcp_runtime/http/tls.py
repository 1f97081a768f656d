"""The TLS settings of clients that have none of their own: read once for many clients."""

from __future__ import annotations

import os
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import ssl

_VARIABLES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE")
_SECONDS: Final = 600  # Certificates that were replaced are read after this time at the latest.


def default_tls() -> ssl.SSLContext:
    """Return the settings of httpx2. To read the certificates takes tens of milliseconds, in which nothing else runs:
    a gateway opens a client for each session."""
    return _read(tuple(os.environ.get(name) for name in _VARIABLES), int(time.monotonic() // _SECONDS))


@lru_cache(maxsize=1)
def _read(variables: tuple[str | None, ...], period: int) -> ssl.SSLContext:
    import httpx2

    return httpx2.create_ssl_context()
