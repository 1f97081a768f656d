"""The client side of the Streamable HTTP transport: each message is a POST to the MCP endpoint of the server.

MCP specification: https://modelcontextprotocol.io/specification/draft/basic/transports#streamable-http
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from functools import partial
from itertools import count
from typing import Final

from ...aio.shared_work import SharedWork
from ...aio.tasks import PauseGate
from ...errors import (
    ConnectionClosedError,
    HTTPStatusError,
    InvalidResponseError,
    MCPError,
    RemoteError,
    RemoteJSONRPCError,
)
from ...http.client_rules import (
    Outgoing,
    ResponseKind,
    classify_response,
    get_headers,
    is_initialize,
    is_response_to,
    is_session_id,
    may_be_legacy_sse,
    post_headers,
)
from ...http.headers import SESSION_ID, TOOLS, ArgumentPaths, read_tool_headers
from ...protocol import jsonrpc
from ...protocol.framing import LARGE
from ...protocol.jsonrpc import ErrorMessage, Id, MalformedMessage, Message, RequestMessage, ResultMessage, named_id
from ...protocol.models import is_object
from ...protocol.result_types import FollowedPages
from ...protocol.revision import Handshake, Revision
from .connection import ClientResponse, HTTPConnection, ResumableEventStream

# The tool arguments to repeat in HTTP headers, as the input schemas of the last list of tools declare them.

_NONE: Final[ArgumentPaths] = {}
_log: Final = logging.getLogger(__name__)
Receive = Callable[[Message | list[Message]], None]
ReadLarge = Callable[[bytes, Receive], Awaitable[Message | list[Message]]]
_END_SECONDS: Final = 1.0  # Seconds to wait for the end of a stream after the response, to reuse its connection.
_MAX_PAGES: Final = 100  # Pages of the list of tools.
_REOPEN_SECONDS: Final = 60.0  # Seconds for a server to open another session.


class ToolHeaderCache:
    """The header declarations of the tools of one server."""

    def __init__(self) -> None:
        self._paths: dict[str, ArgumentPaths] = {}

    def paths_for(self, message: Outgoing, revision: Revision) -> ArgumentPaths:
        """Return the paths of the arguments to repeat, by header; empty if the message is not a call of a tool."""
        row = revision.http.tool_call
        if row is None or not isinstance(message, RequestMessage) or message.method != row.method:
            return _NONE
        params: Mapping[str, object] = message.params if is_object(message.params) else {}
        name = params.get(revision.http.name_params.get(message.method, ""))
        return self._paths.get(str(name), _NONE)

    def read(self, request: RequestMessage, response: Message, revision: Revision) -> None:
        """Store the declarations of a list of tools, and remove the tools whose declarations are invalid."""
        row = revision.http.tool_schemas
        if row is None or request.method != row.method or not isinstance(response, ResultMessage):
            return
        name_of_list = revision.name_of(TOOLS)
        if not is_object(response.result) or name_of_list not in response.result:
            return
        tools = read_tool_headers(response.result[name_of_list], revision)
        self._paths.update(tools.paths)
        if tools.rejected:
            response.result[name_of_list] = tools.tools
        for name, reason in tools.rejected.items():
            self._paths.pop(name, None)
            _log.warning("the tool %r is ignored: %s", name[:200], reason)


class LegacyServerError(Exception):
    """The server rejected `initialize` as a server of the HTTP+SSE transport does; `error` is the rejection."""

    def __init__(self, error: MCPError) -> None:
        super().__init__(str(error))
        self.error = error


class StreamableHTTPClient:
    """A connection to one MCP endpoint, in a session if the server has opened one."""

    large = LARGE  # Bytes above which `_decode_large` reads a message.

    def __init__(
        self, http: HTTPConnection, revision: Revision, receive: Receive, read_large: ReadLarge, gate: PauseGate
    ) -> None:
        """Create a connection; `receive` takes its messages, and `read_large` decodes large ones."""
        self.revision = revision
        self._read_large = read_large
        self.session: str | None = None
        self.stream_closed: Callable[[Id], None] | None = None
        self._http = http
        self._receive = receive
        self._gate = gate
        self._tools = ToolHeaderCache()
        self._initialize_request: RequestMessage | None = None
        self._reopening: SharedWork[None] = SharedWork("the opening of another session", _REOPEN_SECONDS)
        self._reopened_session = 0

    def _headers(self) -> dict[str, str]:
        return get_headers(self.revision, self.session)

    # ---- requests ----------------------------------------------------------------------------------------------------

    async def send_request(self, request: RequestMessage, data: bytes) -> None:
        """Send a request, and deliver its response and the messages that come with it. Raises MCPError."""
        opens = is_initialize(request, self.revision)
        if opens:
            self._initialize_request = request
            self.session = None
        response = await self._post(request, data, opens=opens)
        if response.status_code >= 300:
            error = await self._read_error(response, request)
            mismatch = self.revision.constants.get("HEADER_MISMATCH")
            if (
                not isinstance(error, RemoteJSONRPCError)
                or error.code != mismatch
                or not await self._refresh_tool_headers(request)
            ):
                raise error
            response = await self._post(request, data)
            if response.status_code >= 300:
                raise await self._read_error(response, request)
        await self._read_response(response, request, self._receive, opens)

    async def _post(
        self, message: Outgoing, data: bytes, *, opens: bool = False, wait_for_response: bool = True
    ) -> ClientResponse:
        """Send a POST and return the response; `opens` is True for a request that opens a session.

        If the server has ended the session, the message is sent again in a new one: the server has not handled it.
        """
        for attempt in (1, 2):
            session = None if opens else self.session
            headers = post_headers(message, self.revision, session, self._tools.paths_for(message, self.revision))
            response = await self._http.send("POST", headers, data, wait_for_response=wait_for_response)
            if session is None:
                return response
            if classify_response(response.status_code, "", False, True) is not ResponseKind.SESSION_LOST:
                return response
            await response.aclose()
            if attempt == 1:
                await self.reopen(session)
        lost = f"{self._http.describe(response)}: the server ended the new session at once"
        raise ConnectionClosedError(lost) from self._http.status_error(response)

    async def _read_error(self, response: ClientResponse, request: Outgoing) -> MCPError:
        """Return the error of an error response: its JSON-RPC error, or an HTTPStatusError without one.

        Raises LegacyServerError if the server may be one of the HTTP+SSE transport.
        """
        status = response.status_code
        message = jsonrpc.decode(await self._http.read_error(response))
        error: MCPError = self._http.status_error(response)
        if isinstance(message, ErrorMessage):
            error = RemoteJSONRPCError(message.code, message.message, message.data, status)
        if is_initialize(request, self.revision) and may_be_legacy_sse(status, self.revision):
            raise LegacyServerError(error)
        return error

    async def _read_response(
        self, response: ClientResponse, request: RequestMessage, receive: Receive, opens: bool
    ) -> None:
        """Deliver the response to a request, and the messages that come with it."""
        try:
            if opens:
                self._store_session_id(response, request)
            kind = response.headers.get("content-type", "")
            match classify_response(response.status_code, kind, True, False):
                case ResponseKind.JSON:
                    data = await self._http.read(response)
                    is_large = len(data) > self.large
                    message = await self._decode_large(data, request) if is_large else jsonrpc.decode(data)
                    await self._gate.wait()
                    if isinstance(message, ErrorMessage) and message.id is None:
                        raise RemoteJSONRPCError(message.code, message.message, message.data)
                    if isinstance(message, MalformedMessage) and message.id is None:
                        raise InvalidResponseError(f"{request.method!r}: invalid response: {message.message}")
                    if not self._handle_message(message, request, receive):
                        raise InvalidResponseError(f"{request.method!r}: the response has the id of another request")
                case ResponseKind.EVENTS:
                    await self._follow(response, request, receive)
                case _:
                    description = f"status {response.status_code} and the content type {kind[:100]!r}"
                    raise InvalidResponseError(
                        f"{request.method!r}: the response has {description}: neither JSON nor an SSE stream"
                    )
        finally:
            await response.aclose()

    async def _follow(self, response: ClientResponse, request: RequestMessage, receive: Receive) -> None:
        """Deliver the messages of a stream until the response has arrived, and up to _END_SECONDS longer."""
        stream = ResumableEventStream(self._http, self._headers, reconnect_without_ids=False)
        stream.ended = not isinstance(self.revision.lifecycle, Handshake)
        if self.stream_closed is not None:
            stream.on_close = partial(self.stream_closed, request.id)
        answered = False
        try:
            async with asyncio.timeout(None) as timeout, aclosing(stream.events(response)) as events:
                async for event in events:
                    if not event.data or event.kind != "message":
                        continue
                    is_large, data = len(event.data) > self.large, event.data
                    message = await self._decode_large(data, request) if is_large else jsonrpc.decode(data)
                    await self._gate.wait()
                    if self._handle_message(message, request, receive) and not answered:
                        answered = stream.ended = True
                        timeout.reschedule(asyncio.get_running_loop().time() + _END_SECONDS)
        except TimeoutError:
            pass  # The server does not end the stream after the response.
        except MCPError as error:
            if not answered:
                raise ConnectionClosedError(
                    f"{request.method!r}: the stream ended before the response: {error}"
                ) from error
        if not answered:
            raise ConnectionClosedError(f"{request.method!r}: the stream ended before the response")

    def _handle_message(self, received: Message | list[Message], request: RequestMessage, receive: Receive) -> bool:
        """Deliver messages that came with the response to a request; return True if they include the response.

        Responses to other requests are dropped.
        """
        answered = False
        accepted: list[Message] = []
        for message in received if isinstance(received, list) else [received]:
            if isinstance(message, MalformedMessage) and (
                message.is_response is not False and named_id(message.id, (request.id,)) is not None
            ):
                answered = True
            elif isinstance(message, (ResultMessage, ErrorMessage, MalformedMessage)):
                if not is_response_to(message, request.id):
                    _log.warning("%r: a response to another request was dropped", request.method)
                    continue
                answered = True
                self._tools.read(request, message, self.revision)
            accepted.append(message)
        if accepted:
            receive(accepted if isinstance(received, list) and self.revision.batches else accepted[0])
        return answered

    async def _decode_large(self, data: bytes, request: RequestMessage) -> Message | list[Message]:
        def read_tools(message: Message | list[Message]) -> None:
            if not isinstance(message, list):
                self._tools.read(request, message, self.revision)

        return await self._read_large(data, read_tools)

    async def _refresh_tool_headers(self, request: RequestMessage) -> bool:
        """List the tools again after a call failed with HEADER_MISMATCH; return False if the revision has no such
        request."""
        row = self.revision.http.tool_schemas
        if row is None:
            return False
        meta = {key: value for key, value in request.params.get("_meta", {}).items() if key != "progressToken"}
        followed, cursor = FollowedPages(row.method, _MAX_PAGES), None
        for page in count():
            params = {"_meta": meta} if cursor is None else {"_meta": meta, "cursor": cursor}
            listing = RequestMessage(f"{request.id}-list-{page}", row.method, params)
            result = await self._request_internally(listing)
            next_cursor = result.get("nextCursor")
            try:
                cursor = followed.add(0, next_cursor if isinstance(next_cursor, str) else None)
            except RemoteError as error:  # What was read may do for the call.
                _log.warning("the tools are not read further: %s", error)
                break
            if cursor is None:
                break
        return True

    async def _request_internally(self, request: RequestMessage, opens: bool = False) -> dict[str, object]:
        """Return the result of a request of the transport itself, which the session does not see."""
        messages: list[Message] = []

        def collect(message: Message | list[Message]) -> None:
            messages.extend(message if isinstance(message, list) else [message])

        encoded = jsonrpc.request(request.id, request.method, request.params)
        response = await self._post(request, encoded, opens=opens)
        if response.status_code >= 300:
            raise await self._read_error(response, request)
        await self._read_response(response, request, collect, opens)
        for message in messages:
            if isinstance(message, ResultMessage) and is_response_to(message, request.id) and is_object(message.result):
                return message.result
        raise ConnectionClosedError(f"{request.method!r}: the server returned no result")

    # ---- other messages ----------------------------------------------------------------------------------------------

    async def send_message(self, message: Outgoing, data: bytes) -> None:
        """Send a notification or a response. Raises MCPError if the server does not accept it."""
        async with asyncio.timeout(self._http.options.timeout):
            response = await self._post(message, data, wait_for_response=False)
            if response.status_code >= 300:
                raise await self._read_error(response, message)
            await response.aclose()

    async def listen(self, opened: asyncio.Event) -> None:
        """Deliver the messages of the standalone SSE stream, opened by GET, as long as the server supports it; set
        `opened` when the server has answered."""
        while True:
            session = self.session
            stream = ResumableEventStream(self._http, self._headers, reconnect_without_ids=True)
            stream.on_open = opened.set
            try:
                async with aclosing(stream.events()) as events:
                    async for event in events:
                        await self._gate.wait()
                        self._receive_unsolicited(event.data)
            except HTTPStatusError as error:
                if error.status == 404 and session is not None:
                    await self._try_to_reopen(session)
                if self.session == session:
                    _log.debug("there is no standalone SSE stream: %s", error)
                    return
            except MCPError as error:
                _log.warning("there is no standalone SSE stream: %s", error)
                return

    async def _try_to_reopen(self, lost_session: str) -> None:
        try:
            await self.reopen(lost_session)
        except MCPError as error:
            _log.warning("%s", error)

    def _receive_unsolicited(self, data: bytes) -> None:
        message = jsonrpc.decode(data) if data else []
        received = message if isinstance(message, list) else [message]
        accepted = [item for item in received if not _is_response(item)]
        if accepted:
            self._receive(accepted if isinstance(message, list) and self.revision.batches else accepted[0])

    # ---- the session -------------------------------------------------------------------------------------------------

    def _store_session_id(self, response: ClientResponse, request: RequestMessage) -> None:
        """Store the id of the new session. Raises InvalidResponseError if the id is invalid."""
        id = response.headers.get(SESSION_ID)
        if id is not None and not is_session_id(id):
            raise InvalidResponseError(f"{request.method!r}: the session id is too long, or not visible ASCII")
        self.session = id

    async def reopen(self, lost_session: str) -> None:
        """Open a new session instead of a lost one, once for all requests that fail. Raises ConnectionClosedError."""
        if self.session == lost_session or self._reopening.is_running:
            await self._reopening.run(lambda: self._reopen(lost_session))

    async def _reopen(self, lost_session: str) -> None:
        if self.session != lost_session:
            return
        initialize, lifecycle = self._initialize_request, self.revision.lifecycle
        if initialize is None or not isinstance(lifecycle, Handshake):
            raise ConnectionClosedError("the server has ended the session")
        _log.warning("the server has ended the session; opening a new one")
        self._reopened_session += 1
        request = RequestMessage(f"reopen-{self._reopened_session}", initialize.method, initialize.params)
        try:
            result = await self._request_internally(request, opens=True)
        except (MCPError, LegacyServerError) as error:
            raise ConnectionClosedError(
                f"the server has ended the session, and no new one could be opened: {error}"
            ) from None
        if result.get("protocolVersion") != self.revision.id:
            raise ConnectionClosedError(
                f"the server has ended the session, and does not support {self.revision.id} any more"
            )
        initialized = jsonrpc.NotificationMessage(lifecycle.initialized.method)
        headers = post_headers(initialized, self.revision, self.session, {})
        data = jsonrpc.notification(initialized.method, None)
        response = await self._http.send("POST", headers, data, wait_for_response=False)
        await response.aclose()

    async def end_session(self) -> None:
        """Send DELETE to end the session; the server need not support it."""
        await self._reopening.close()
        if self.session is not None:
            headers = self._headers()
            self.session = None
            response = await self._http.send("DELETE", headers, wait_for_response=False)
            await response.aclose()


def _is_response(message: Message) -> bool:
    return isinstance(message, (ResultMessage, ErrorMessage)) or (
        isinstance(message, MalformedMessage) and bool(message.is_response)
    )
