"""The certificates of the system, which clients of a test process share: to read them takes 20 ms of a processor."""

from __future__ import annotations

import os
import ssl
from functools import cache


def share_certificates() -> None:
    """Let each HTTP client that has no TLS options of its own use the context of the first one."""
    try:
        import httpcore2
    except ModuleNotFoundError:  # The base installation.
        return
    read = httpcore2.default_ssl_context

    @cache
    def context_of(trust_env: bool, *variables: str | None) -> ssl.SSLContext:
        return read(_trust_env=trust_env)

    def shared(*, _trust_env: bool = True) -> ssl.SSLContext:
        return context_of(_trust_env, os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))

    httpcore2.default_ssl_context = shared
