"""Messages go in, each a POST to the one endpoint of a server; what it answers, and says by itself, comes out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Final

import httpx2

from ... import jsonrpc
from ...errors import ErrorResponse, InvalidResponse, McpError, NotConnected, Rejected
from ...exchange import log
from ...http.asking import Answer, answers, headers_for, is_older, is_opening, is_session, judge
from ...http.headers import SESSION
from ...jsonrpc import ErrorMessage, Malformed, Message, RequestMessage, ResultMessage
from ...spec import Handshake, Revision
from ...wire import is_object
from .channel import Channel
from .flow import Flow
from .stream import Stream
from .tools import Annotations

Take = Callable[[Message | list[Message]], None]

_AFTER: Final = 1.0  # Seconds that a stream gets to end once its answer is there, so that its connection can be kept.


class OlderServer(Exception):
    """The opening request was refused as a server of the older pair of endpoints does."""

    def __init__(self, fault: McpError) -> None:
        super().__init__(str(fault))
        self.fault = fault


class Streamable:
    """The conversation with one endpoint: in a session, if the server has them."""

    def __init__(self, channel: Channel, revision: Revision, take: Take, flow: Flow) -> None:
        self.revision = revision
        self.session: str | None = None
        self._channel = channel
        self._take = take
        self._flow = flow
        self._tools = Annotations()
        self._opening: RequestMessage | None = None
        self._reopening = asyncio.Lock()
        self._reopened = 0

    def _headers(self) -> dict[str, str]:
        return headers_for(None, self.revision, self.session, {})

    # ---- requests -----------------------------------------------------------------------------------------------------

    async def ask(self, request: RequestMessage, data: bytes) -> None:
        """Send a request, and hand over its answer and all that comes with it. Raises McpError where there is none."""
        if is_opening(request, self.revision):
            self._opening, self.session = request, None
        response = await self._post(request, data)
        if response.status_code >= 300:
            fault = await self._refusal(response, request)
            mismatch = self.revision.constants.get("HEADER_MISMATCH")
            if not isinstance(fault, ErrorResponse) or fault.code != mismatch or not await self._list_again(request):
                raise fault
            response = await self._post(request, data)
            if response.status_code >= 300:
                raise await self._refusal(response, request)
        await self._answered(response, request, self._take)

    async def _post(self, message: Message | list[Message], data: bytes, patient: bool = True) -> httpx2.Response:
        """The answer to a POST; where the session is gone, that to a second one in a new session: the first was not
        looked at by anybody."""
        for attempt in (1, 2):
            session = None if is_opening(message, self.revision) else self.session
            headers = headers_for(message, self.revision, session, self._tools.of(message, self.revision))
            response = await self._channel.send("POST", headers, data, patient=patient)
            if judge(response.status_code, "", False, SESSION in headers) is not Answer.LOST or session is None:
                return response
            await response.aclose()
            if attempt == 1:
                await self.reopen(session)
        raise NotConnected(f"{self._channel.name(response)}: the session ended as soon as it was open")

    async def _refusal(self, response: httpx2.Response, request: Message | list[Message]) -> McpError:
        """What a status of an error, and the JSON-RPC error with it, if there is one, mean."""
        status = response.status_code
        said = jsonrpc.decode(await self._channel.read_error(response))
        fault: McpError = self._channel.rejected(response)
        if isinstance(said, ErrorMessage):
            fault = ErrorResponse(said.code, said.message, said.data, status)
        if is_opening(request, self.revision) and is_older(status, self.revision):
            raise OlderServer(fault)
        return fault

    async def _answered(self, response: httpx2.Response, request: RequestMessage, take: Take) -> None:
        """Hand over the answer to a request, and all that comes with it."""
        try:
            self._note_session(response, request)
            kind = response.headers.get("content-type", "")
            match judge(response.status_code, kind, True, False):
                case Answer.JSON:
                    message = jsonrpc.decode(await self._channel.read(response))
                    await self._flow.wait()
                    if isinstance(message, ErrorMessage) and message.id is None:
                        raise ErrorResponse(message.code, message.message, message.data)
                    if not self._heard(message, request, take):
                        raise InvalidResponse(f"{request.method!r}: the answer is not one to this request")
                case Answer.EVENTS:
                    await self._follow(response, request, take)
                case _:
                    what = f"status {response.status_code} and the content type {kind[:100]!r}"
                    raise InvalidResponse(f"{request.method!r}: answered with {what}: no message and no stream")
        finally:
            await response.aclose()

    async def _follow(self, response: httpx2.Response, request: RequestMessage, take: Take) -> None:
        """Hand over what a stream says until its answer is there, and a moment longer."""
        stream = Stream(self._channel, self._headers, lasting=False)
        stream.over = not isinstance(self.revision.lifecycle, Handshake)
        answered = False
        try:
            async with asyncio.timeout(None) as patience, aclosing(stream.events(response)) as events:
                async for event in events:
                    if not event.data or event.kind != "message":
                        continue
                    await self._flow.wait()
                    if self._heard(jsonrpc.decode(event.data), request, take) and not answered:
                        answered = stream.over = True
                        patience.reschedule(asyncio.get_running_loop().time() + _AFTER)
        except TimeoutError:
            pass  # The server keeps the stream open for nothing.
        except McpError as fault:
            if not answered:
                raise NotConnected(f"{request.method!r}: the stream ended before the answer came: {fault}") from fault
        if not answered:
            raise NotConnected(f"{request.method!r}: the stream ended before the answer came")

    def _heard(self, said: Message | list[Message], request: RequestMessage, take: Take) -> bool:
        """Hand over what came in the exchange of a request. Whether its answer was among it; answers to others are
        not taken from here."""
        ours = False
        kept: list[Message] = []
        for message in said if isinstance(said, list) else [said]:
            if isinstance(message, Malformed) and (message.is_answer and message.id == request.id):
                ours = True
            elif isinstance(message, (ResultMessage, ErrorMessage, Malformed)):
                if not answers(message, request.id):
                    log.warning("%r: what is no answer to this request came instead of one", request.method)
                    continue
                ours = True
                self._tools.read(request, message, self.revision)
            kept.append(message)
        if kept:
            take(kept if isinstance(said, list) and self.revision.batches else kept[0])
        return ours

    async def _list_again(self, request: RequestMessage) -> bool:
        """Read the lists of tools again, because a call was refused for its headers. Whether there was one."""
        row = self.revision.http.schemas
        if row is None:
            return False
        meta = {key: value for key, value in request.params.get("_meta", {}).items() if key != "progressToken"}
        cursor: str | None = None
        for page in range(100):
            params = {"_meta": meta} if cursor is None else {"_meta": meta, "cursor": cursor}
            listing = RequestMessage(f"{request.id}-list-{page}", row.method, params)
            result = await self._ask_aside(listing)
            further = result.get("nextCursor")
            if not isinstance(further, str) or further == cursor:
                break
            cursor = further
        return True

    async def _ask_aside(self, request: RequestMessage) -> dict[str, object]:
        """The result of a request of the transport's own, of which the session knows nothing."""
        heard: list[Message] = []

        def keep(message: Message | list[Message]) -> None:
            heard.extend(message if isinstance(message, list) else [message])

        response = await self._post(request, jsonrpc.request(request.id, request.method, request.params))
        if response.status_code >= 300:
            raise await self._refusal(response, request)
        await self._answered(response, request, keep)
        for message in heard:
            if isinstance(message, ResultMessage) and answers(message, request.id) and is_object(message.result):
                return message.result
        raise NotConnected(f"{request.method!r}: refused")

    # ---- all the rest -------------------------------------------------------------------------------------------------

    async def tell(self, message: Message | list[Message], data: bytes) -> None:
        """Send what is not answered. Raises McpError where it is not accepted."""
        async with asyncio.timeout(self._channel.reach.timeout):
            response = await self._post(message, data, patient=False)
            if response.status_code >= 300:
                raise await self._refusal(response, message)
            await response.aclose()

    async def listen(self) -> None:
        """Hand over what the server says by itself, as long as it offers a stream for that."""
        while True:
            session = self.session
            stream = Stream(self._channel, self._headers, lasting=True)
            try:
                async with aclosing(stream.events()) as events:
                    async for event in events:
                        await self._flow.wait()
                        self._told(event.data)
            except Rejected as refused:
                if refused.status == 404 and session is not None:
                    await self._try_to_reopen(session)
                if self.session == session:
                    log.debug("no stream for what the server says by itself: %s", refused)
                    return
            except McpError as fault:
                log.warning("no stream for what the server says by itself: %s", fault)
                return

    async def _try_to_reopen(self, lost: str) -> None:
        try:
            await self.reopen(lost)
        except McpError as fault:
            log.warning("%s", fault)

    def _told(self, data: bytes) -> None:
        message = jsonrpc.decode(data) if data else []
        said = [each for each in (message if isinstance(message, list) else [message]) if not _is_answer(each)]
        if said:
            self._take(said if isinstance(message, list) and self.revision.batches else said[0])

    # ---- the session --------------------------------------------------------------------------------------------------

    def _note_session(self, response: httpx2.Response, request: RequestMessage) -> None:
        """Keep the id of the session that was opened. Raises InvalidResponse for one that cannot be sent."""
        if not is_opening(request, self.revision):
            return
        id = response.headers.get(SESSION)
        if id is not None and not is_session(id):
            raise InvalidResponse(f"{request.method!r}: the id of the session is too long, or not visible ASCII")
        self.session = id

    async def reopen(self, lost: str) -> None:
        """Open a new session as the lost one was opened, once for all who miss it. Raises NotConnected."""
        async with self._reopening:
            opening, lifecycle = self._opening, self.revision.lifecycle
            if self.session != lost:
                return
            if opening is None or not isinstance(lifecycle, Handshake):
                raise NotConnected("the session is gone")
            log.warning("the server has ended the session; a new one is opened")
            self._reopened += 1
            request = RequestMessage(f"reopen-{self._reopened}", opening.method, opening.params)
            try:
                result = await self._ask_aside(request)
            except (McpError, OlderServer) as fault:
                raise NotConnected(f"the session is gone, and no new one could be opened: {fault}") from None
            if result.get("protocolVersion") != self.revision.id:
                raise NotConnected(f"the session is gone, and the server does not speak {self.revision.id} any more")
            opened = jsonrpc.NotificationMessage(lifecycle.opened.method)
            headers = headers_for(opened, self.revision, self.session, {})
            data = jsonrpc.notification(opened.method, None)
            response = await self._channel.send("POST", headers, data, patient=False)
            await response.aclose()

    async def leave(self) -> None:
        """Tell the server that the session is not needed any more; a server may not want to know."""
        if self.session is not None:
            headers, self.session = self._headers(), None
            response = await self._channel.send("DELETE", headers, patient=False)
            await response.aclose()


def _is_answer(message: Message) -> bool:
    return isinstance(message, (ResultMessage, ErrorMessage)) or (isinstance(message, Malformed) and message.is_answer)
