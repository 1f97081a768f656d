"""Messages go in, each a POST to the one endpoint of a server; what it answers, and says by itself, comes out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing
from typing import Final

import httpx2

from ...aio.pause import PauseGate
from ...errors import (
    ConnectionClosedError,
    HTTPStatusError,
    InvalidResponseError,
    MCPError,
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
from ...http.headers import SESSION_ID
from ...protocol import jsonrpc
from ...protocol.jsonrpc import (
    ErrorMessage,
    MalformedMessage,
    Message,
    RequestMessage,
    ResultMessage,
)
from ...protocol.models import is_object
from ...protocol.revision import Handshake, Revision
from .connection import HTTPConnection
from .event_stream import ResumableEventStream
from .tool_headers import ToolHeaderCache

_log: Final = logging.getLogger(__name__)

Receive = Callable[[Message | list[Message]], None]

_AFTER: Final = 1.0  # Seconds that a stream gets to end once its answer is there, so that its connection can be kept.


class LegacyServerError(Exception):
    """The opening request was refused as a server of the older pair of endpoints does."""

    def __init__(self, error: MCPError) -> None:
        super().__init__(str(error))
        self.error = error


class StreamableHTTPClient:
    """The conversation with one endpoint: in a session, if the server has them."""

    def __init__(self, http: HTTPConnection, revision: Revision, receive: Receive, gate: PauseGate) -> None:
        self.revision = revision
        self.session: str | None = None
        self._http = http
        self._receive = receive
        self._gate = gate
        self._tools = ToolHeaderCache()
        self._initialize_request: RequestMessage | None = None
        self._reopening = asyncio.Lock()
        self._reopened_session = 0

    def _headers(self) -> dict[str, str]:
        return get_headers(self.revision, self.session)

    # ---- requests -----------------------------------------------------------------------------------------------------

    async def send_request(self, request: RequestMessage, data: bytes) -> None:
        """Send a request, and hand over its answer and all that comes with it. Raises MCPError where there is none."""
        opens = is_initialize(request, self.revision)
        if opens:
            self._initialize_request, self.session = request, None
        response = await self._post(request, data, opens=opens)
        if response.status_code >= 300:
            fault = await self._error_of(response, request)
            mismatch = self.revision.constants.get("HEADER_MISMATCH")
            if (
                not isinstance(fault, RemoteJSONRPCError)
                or fault.code != mismatch
                or not await self._refresh_tool_headers(request)
            ):
                raise fault
            response = await self._post(request, data)
            if response.status_code >= 300:
                raise await self._error_of(response, request)
        await self._read_response(response, request, self._receive, opens)

    async def _post(
        self, message: Outgoing, data: bytes, *, opens: bool = False, wait_for_response: bool = True
    ) -> httpx2.Response:
        """Send a POST and return the response; `opens` is True for a request that opens a session.

        If the server no longer knows the session, the message is sent again in a new one: the server has not handled it.
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
        raise ConnectionClosedError(f"{self._http.describe(response)}: the session ended as soon as it was open")

    async def _error_of(self, response: httpx2.Response, request: Outgoing) -> MCPError:
        """What a status of an error, and the JSON-RPC error with it, if there is one, mean."""
        status = response.status_code
        said = jsonrpc.decode(await self._http.read_error(response))
        fault: MCPError = self._http.status_error(response)
        if isinstance(said, ErrorMessage):
            fault = RemoteJSONRPCError(said.code, said.message, said.data, status)
        if is_initialize(request, self.revision) and may_be_legacy_sse(status, self.revision):
            raise LegacyServerError(fault)
        return fault

    async def _read_response(
        self, response: httpx2.Response, request: RequestMessage, receive: Receive, opens: bool
    ) -> None:
        """Hand over the response to a request, and all messages that come with it."""
        try:
            if opens:
                self._note_session(response, request)
            kind = response.headers.get("content-type", "")
            match classify_response(response.status_code, kind, True, False):
                case ResponseKind.JSON:
                    message = jsonrpc.decode(await self._http.read(response))
                    await self._gate.wait()
                    if isinstance(message, ErrorMessage) and message.id is None:
                        raise RemoteJSONRPCError(message.code, message.message, message.data)
                    if not self._handle_message(message, request, receive):
                        raise InvalidResponseError(f"{request.method!r}: the answer is not one to this request")
                case ResponseKind.EVENTS:
                    await self._follow(response, request, receive)
                case _:
                    what = f"status {response.status_code} and the content type {kind[:100]!r}"
                    raise InvalidResponseError(f"{request.method!r}: answered with {what}: no message and no stream")
        finally:
            await response.aclose()

    async def _follow(self, response: httpx2.Response, request: RequestMessage, receive: Receive) -> None:
        """Hand over what a stream says until its answer is there, and a moment longer."""
        stream = ResumableEventStream(self._http, self._headers, reconnect_without_ids=False)
        stream.ended = not isinstance(self.revision.lifecycle, Handshake)
        answered = False
        try:
            async with asyncio.timeout(None) as patience, aclosing(stream.events(response)) as events:
                async for event in events:
                    if not event.data or event.kind != "message":
                        continue
                    await self._gate.wait()
                    if self._handle_message(jsonrpc.decode(event.data), request, receive) and not answered:
                        answered = stream.ended = True
                        patience.reschedule(asyncio.get_running_loop().time() + _AFTER)
        except TimeoutError:
            pass  # The server keeps the stream open for nothing.
        except MCPError as fault:
            if not answered:
                raise ConnectionClosedError(
                    f"{request.method!r}: the stream ended before the answer came: {fault}"
                ) from fault
        if not answered:
            raise ConnectionClosedError(f"{request.method!r}: the stream ended before the answer came")

    def _handle_message(self, received: Message | list[Message], request: RequestMessage, receive: Receive) -> bool:
        """Hand over what came in the exchange of a request. Whether its answer was among it; answers to others are
        not taken from here."""
        ours = False
        kept: list[Message] = []
        for message in received if isinstance(received, list) else [received]:
            if isinstance(message, MalformedMessage) and (message.is_response and message.id == request.id):
                ours = True
            elif isinstance(message, (ResultMessage, ErrorMessage, MalformedMessage)):
                if not is_response_to(message, request.id):
                    _log.warning("%r: what is no answer to this request came instead of one", request.method)
                    continue
                ours = True
                self._tools.read(request, message, self.revision)
            kept.append(message)
        if kept:
            receive(kept if isinstance(received, list) and self.revision.batches else kept[0])
        return ours

    async def _refresh_tool_headers(self, request: RequestMessage) -> bool:
        """Read the lists of tools again, because a call was refused for its headers. Whether there was one."""
        row = self.revision.http.tool_schemas
        if row is None:
            return False
        meta = {key: value for key, value in request.params.get("_meta", {}).items() if key != "progressToken"}
        cursor: str | None = None
        for page in range(100):
            params = {"_meta": meta} if cursor is None else {"_meta": meta, "cursor": cursor}
            listing = RequestMessage(f"{request.id}-list-{page}", row.method, params)
            result = await self._request_internally(listing)
            further = result.get("nextCursor")
            if not isinstance(further, str) or further == cursor:
                break
            cursor = further
        return True

    async def _request_internally(self, request: RequestMessage, opens: bool = False) -> dict[str, object]:
        """The result of a request of the transport's own, of which the session knows nothing."""
        heard: list[Message] = []

        def keep(message: Message | list[Message]) -> None:
            heard.extend(message if isinstance(message, list) else [message])

        encoded = jsonrpc.request(request.id, request.method, request.params)
        response = await self._post(request, encoded, opens=opens)
        if response.status_code >= 300:
            raise await self._error_of(response, request)
        await self._read_response(response, request, keep, opens)
        for message in heard:
            if isinstance(message, ResultMessage) and is_response_to(message, request.id) and is_object(message.result):
                return message.result
        raise ConnectionClosedError(f"{request.method!r}: refused")

    # ---- all the rest -------------------------------------------------------------------------------------------------

    async def send_message(self, message: Outgoing, data: bytes) -> None:
        """Send what is not answered. Raises MCPError where it is not accepted."""
        async with asyncio.timeout(self._http.options.timeout):
            response = await self._post(message, data, wait_for_response=False)
            if response.status_code >= 300:
                raise await self._error_of(response, message)
            await response.aclose()

    async def listen(self) -> None:
        """Hand over what the server says by itself, as long as it offers a stream for that."""
        while True:
            session = self.session
            stream = ResumableEventStream(self._http, self._headers, reconnect_without_ids=True)
            try:
                async with aclosing(stream.events()) as events:
                    async for event in events:
                        await self._gate.wait()
                        self._receive_unsolicited(event.data)
            except HTTPStatusError as refused:
                if refused.status == 404 and session is not None:
                    await self._try_to_reopen(session)
                if self.session == session:
                    _log.debug("no stream for what the server says by itself: %s", refused)
                    return
            except MCPError as fault:
                _log.warning("no stream for what the server says by itself: %s", fault)
                return

    async def _try_to_reopen(self, lost_session: str) -> None:
        try:
            await self.reopen(lost_session)
        except MCPError as fault:
            _log.warning("%s", fault)

    def _receive_unsolicited(self, data: bytes) -> None:
        message = jsonrpc.decode(data) if data else []
        said = [each for each in (message if isinstance(message, list) else [message]) if not _is_response(each)]
        if said:
            self._receive(said if isinstance(message, list) and self.revision.batches else said[0])

    # ---- the session --------------------------------------------------------------------------------------------------

    def _note_session(self, response: httpx2.Response, request: RequestMessage) -> None:
        """Keep the id of the session that was opened. Raises InvalidResponseError for one that cannot be sent."""
        id = response.headers.get(SESSION_ID)
        if id is not None and not is_session_id(id):
            raise InvalidResponseError(f"{request.method!r}: the id of the session is too long, or not visible ASCII")
        self.session = id

    async def reopen(self, lost_session: str) -> None:
        """Open a new session as the lost one was opened, once for all who miss it. Raises ConnectionClosedError."""
        async with self._reopening:
            opening, lifecycle = self._initialize_request, self.revision.lifecycle
            if self.session != lost_session:
                return
            if opening is None or not isinstance(lifecycle, Handshake):
                raise ConnectionClosedError("the session is gone")
            _log.warning("the server has ended the session; a new one is opened")
            self._reopened_session += 1
            request = RequestMessage(f"reopen-{self._reopened_session}", opening.method, opening.params)
            try:
                result = await self._request_internally(request, opens=True)
            except (MCPError, LegacyServerError) as fault:
                raise ConnectionClosedError(f"the session is gone, and no new one could be opened: {fault}") from None
            if result.get("protocolVersion") != self.revision.id:
                raise ConnectionClosedError(
                    f"the session is gone, and the server does not speak {self.revision.id} any more"
                )
            opened = jsonrpc.NotificationMessage(lifecycle.initialized.method)
            headers = post_headers(opened, self.revision, self.session, {})
            data = jsonrpc.notification(opened.method, None)
            response = await self._http.send("POST", headers, data, wait_for_response=False)
            await response.aclose()

    async def end_session(self) -> None:
        """Tell the server that the session is not needed any more; a server may not want to know."""
        if self.session is not None:
            headers, self.session = self._headers(), None
            response = await self._http.send("DELETE", headers, wait_for_response=False)
            await response.aclose()


def _is_response(message: Message) -> bool:
    return isinstance(message, (ResultMessage, ErrorMessage)) or (
        isinstance(message, MalformedMessage) and message.is_response
    )
