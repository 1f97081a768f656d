"""`listen` of the official SDK's sessions, which raises what its callers fall back on."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypedDict, Unpack


class ListenKeywords(TypedDict, total=False):
    """The changes that a program listens to."""

    tools_list_changed: bool
    prompts_list_changed: bool
    resources_list_changed: bool
    resource_subscriptions: Sequence[str]


class ListenNotSupportedError(RuntimeError):
    """A session that does not read the stream of subscriptions."""

    def __init__(self, negotiated_version: str | None) -> None:
        """Create the error for the protocol version of a session."""
        super().__init__(
            f"listen: a session of compat does not read subscriptions ({negotiated_version}); changes of older versions"
            " reach `message_handler`, and `mcp_generated.Client.listen` reads them in each version"
        )
        self.negotiated_version = negotiated_version


class SubscriptionLost(RuntimeError):  # noqa: N818 - the name of the official SDK
    """A stream that ended before its server has closed it."""


@asynccontextmanager
async def listen(session: Any, on_event: Any = None, **kinds: Unpack[ListenKeywords]) -> AsyncGenerator[Any]:
    """Raise ListenNotSupportedError when the context is entered, as for a server of an older version."""
    yield await _refuse(session)


async def _refuse(session: Any) -> Any:
    raise ListenNotSupportedError(session.protocol_version)
