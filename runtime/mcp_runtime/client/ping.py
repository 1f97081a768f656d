"""Ping a server regularly, and close the connection if it does not answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from ..errors import MCPError
from ..session.options import RequestOptions
from ..session.session import Session

_log: Final = logging.getLogger(__name__)


async def ping_regularly(
    session: Session, send_ping: Callable[[RequestOptions], Awaitable[Any]], interval: float
) -> None:
    """Send a ping every `interval` seconds; close the session if there is no response within as many seconds.

    See https://modelcontextprotocol.io/specification/draft/basic/utilities/ping

    Args:
        session: The session to close.
        send_ping: A function that sends the request with these options.
        interval: The seconds between two pings, and the timeout of each.
    """
    while True:
        await asyncio.sleep(interval)
        try:
            await send_ping(RequestOptions(timeout=interval))
        except MCPError as error:
            _log.warning("the server does not answer pings, and the connection is closed: %s", error)
            await session.close()
            return
