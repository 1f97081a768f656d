"""Read a server as a host does: raw messages over stdio or HTTP, so that what no model would accept can be reported.

Nothing is called unless it is asked for, and then tools alone that say they only read and need no argument.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Any, Final

from mcp_runtime.errors import RemoteError
from mcp_runtime.protocol.result_types import FollowedPages

from .broken import reason_of
from .snapshot import Json, Snapshot, is_list, is_object, text_of
from .table import protocol

_PREFIX: Final = "io.modelcontextprotocol/"
_CLIENT: Final = {"name": "mcp-generated-lint", "version": "1"}
_MAX_ITEMS: Final = 10_000
_MAX_BYTES: Final = 64 << 20
_MAX_NOISE: Final = 20
_MAX_LINES: Final = 100_000  # Of a program that writes lines without end, and no message.
_MAX_CALLS: Final = 20
GRACE: Final = 5.0  # Seconds that a process has to end.
_NO_METHOD: Final = -32601


class RefusedError(Exception):
    """The server has answered with an error."""

    def __init__(self, code: object, message: str) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code


class BrokenError(Exception):
    """The server cannot be started or does not answer."""


class _Connection:
    """One connection: requests one after another."""

    def __init__(self) -> None:
        self._number = 0
        self.stateless = False

    def request(self, method: str, params: Json) -> Json:
        """Return the result. Raises RefusedError and BrokenError."""
        self._number += 1
        if self.stateless:
            params = {**params, "_meta": _stateless_meta()}
        answer = self._exchange({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        error = answer.get("error")
        if is_object(error):
            raise RefusedError(error.get("code"), text_of(error.get("message")))
        result = answer.get("result")
        return result if is_object(result) else {}

    def _exchange(self, message: Json) -> Json:
        raise NotImplementedError

    def notify(self, method: str) -> None:
        raise NotImplementedError


def _stateless_meta() -> Json:
    return {
        f"{_PREFIX}protocolVersion": protocol().stateless,
        f"{_PREFIX}clientInfo": _CLIENT,
        f"{_PREFIX}clientCapabilities": {},
    }


class _Process(_Connection):
    """A child process over stdio. What it writes beside messages is kept."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], cwd: str | None, timeout: float) -> None:
        super().__init__()
        self.noise: list[str] = []
        self._errors: deque[str] = deque(maxlen=40)
        self._endless = False
        self._deadline = time.monotonic() + timeout
        self._messages: queue.SimpleQueue[Json | None] = queue.SimpleQueue()
        try:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, **env},
                cwd=cwd,
                start_new_session=os.name != "nt",
            )
        except OSError as error:
            raise BrokenError(f"{command[0]}: {error.strerror or error}") from None
        self._error_reader = threading.Thread(target=self._read_errors, args=(self._process.stderr,), daemon=True)
        self._error_reader.start()
        threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True).start()

    def _read(self, stream: IO[bytes]) -> None:
        others = 0
        for line in iter(lambda: stream.readline(_MAX_BYTES), b""):
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                message = None
            if is_object(message) and message.get("jsonrpc") == "2.0":
                self._messages.put(message)
                continue
            others += 1
            if others > _MAX_LINES:
                self._endless = True
                break
            if line.strip() and len(self.noise) < _MAX_NOISE:
                self.noise.append(line.decode(errors="replace")[:1000])
        self._messages.put(None)

    def _read_errors(self, stream: IO[bytes]) -> None:
        for line in iter(lambda: stream.readline(10_000), b""):
            if line.strip():
                self._errors.append(line.decode(errors="replace").strip())

    def _write(self, message: Json) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise BrokenError(self._last_words(self._ending("input"))) from None

    def notify(self, method: str) -> None:
        self._write({"jsonrpc": "2.0", "method": method})

    def _exchange(self, message: Json) -> Json:
        self._write(message)
        while True:
            try:
                answer = self._messages.get(timeout=max(0.0, self._deadline - time.monotonic()))
            except queue.Empty:
                raise BrokenError(self._last_words(f"no answer to {message['method']} in time")) from None
            if answer is None:
                raise BrokenError(self._last_words("it writes lines without end" if self._endless else self._ending()))
            if answer == message:
                raise BrokenError(f"it answers {message['method']} with its own request")
            if "method" in answer and "id" in answer:
                self._answer(answer)
            elif answer.get("id") == message["id"]:
                return answer

    def _answer(self, request: Json) -> None:
        """Answer what a server asks: a ping with nothing, anything else with an error."""
        answer: Json = {"jsonrpc": "2.0", "id": request["id"]}
        known = request["method"] == protocol().ping
        self._write(answer | ({"result": {}} if known else {"error": {"code": _NO_METHOD, "message": "not here"}}))

    def _ending(self, closed: str = "output") -> str:
        """Return how the process has ended, if it says so in time: it may have closed its input or output alone."""
        try:
            return f"it has ended with exit code {self._process.wait(1.0)}"
        except subprocess.TimeoutExpired:
            return f"it has closed its standard {closed}"

    def _last_words(self, reason: str) -> str:
        if reason.startswith("it has"):  # It ends: its last line may be on the way.
            self._error_reader.join(1.0)
        said = reason_of(list(self._errors))
        return f"{reason}: {said}" if said else reason

    def close(self, grace: float) -> bool:
        """Close the input, and return True if the process ends of itself."""
        assert self._process.stdin is not None
        with suppress(OSError):  # It has ended.
            self._process.stdin.close()
        try:
            self._process.wait(grace)
            ended = True
        except subprocess.TimeoutExpired:
            ended = False
        self._end()
        return ended

    def _end(self) -> None:
        """End what is left of the process and its children."""
        if sys.platform != "win32":
            with suppress(OSError):  # Nothing is left.
                os.killpg(self._process.pid, signal.SIGKILL)
        elif self._process.poll() is None:
            self._process.kill()
        self._process.wait()


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: a token would go to whatever address a server names."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> None:
        """Refuse a redirect, which raises HTTPError."""


_OPENER: Final = urllib.request.build_opener(_NoRedirects)


class _Endpoint(_Connection):
    """A server over Streamable HTTP."""

    def __init__(self, url: str, headers: Mapping[str, str], timeout: float) -> None:
        super().__init__()
        self._url = url
        self._timeout = timeout
        self._headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            **headers,
        }

    def notify(self, method: str) -> None:
        self._post({"jsonrpc": "2.0", "method": method})

    def _exchange(self, message: Json) -> Json:
        for answer in self._post(message):
            if answer.get("id") == message["id"]:
                return answer
        raise BrokenError(f"the answer to {message['method']} is not a message")

    def _post(self, message: Json) -> list[Json]:
        headers = dict(self._headers)
        if self.stateless:
            headers |= {"MCP-Protocol-Version": protocol().stateless, "Mcp-Method": message["method"]}
            if name := text_of(message.get("params", {}).get("name")):
                headers["Mcp-Name"] = name
        request = urllib.request.Request(self._url, json.dumps(message).encode(), headers, method="POST")
        deadline = time.monotonic() + self._timeout
        try:
            with _OPENER.open(request, timeout=self._timeout) as response:
                if session := response.headers.get("Mcp-Session-Id"):
                    self._headers["Mcp-Session-Id"] = session
                return _messages(response.headers.get_content_type(), response, message.get("id"), deadline)
        except urllib.error.HTTPError as error:
            body = error.read(_MAX_BYTES)
            found = _parsed(body)
            if found and "error" in found[0]:
                return [{**found[0], "id": message.get("id")}]
            hint = "; pass --header for a token" if error.code in (401, 403) else ""
            if moved := error.headers.get("Location"):
                hint = f": it has moved to {moved[:200]}; pass that address"
            raise BrokenError(f"HTTP {error.code}{hint}") from None
        except (OSError, ValueError) as error:
            cause = getattr(error, "reason", error)
            raise BrokenError(str(getattr(cause, "strerror", None) or cause)) from None

    def negotiated(self, revision: str) -> None:
        """Send this version with each request from now on."""
        self._headers["MCP-Protocol-Version"] = revision


def _parsed(data: bytes) -> list[Json]:
    try:
        value: object = json.loads(data)
    except (ValueError, RecursionError):
        return []
    return [value] if is_object(value) else [item for item in value if is_object(item)] if is_list(value) else []


def _messages(kind: str, response: IO[bytes], wanted: object, deadline: float) -> list[Json]:
    """Return the messages of a body: JSON, or events until the one that is wanted. Raises TimeoutError at the deadline:
    a stream may say for ever that it is alive."""
    if kind != "text/event-stream":
        return _parsed(response.read(_MAX_BYTES))
    messages: list[Json] = []
    data: list[bytes] = []
    for line in iter(lambda: response.readline(_MAX_BYTES), b""):
        if time.monotonic() > deadline:
            raise TimeoutError("no answer in time")
        text = line.rstrip(b"\r\n")
        if text.startswith(b"data:"):
            data.append(text[5:].removeprefix(b" "))
        elif not text and data:
            messages += _parsed(b"\n".join(data))
            data = []
            if any(message.get("id") == wanted for message in messages):
                break
    return messages


def read_server(
    snapshot: Snapshot,
    *,
    env: Mapping[str, str],
    cwd: str | None,
    headers: Mapping[str, str],
    timeout: float = 60.0,
    call: bool = False,
    grace: float = GRACE,
) -> None:
    """Fill a snapshot from the server of its command or its URL. What fails is written into it.

    A process has `grace` seconds to end when its input is closed.
    """
    connection: _Process | _Endpoint
    try:
        if snapshot.url:
            connection = _Endpoint(snapshot.url, headers, timeout)
        else:
            connection = _Process(snapshot.command, env, cwd, timeout)
    except BrokenError as error:
        snapshot.broken = str(error)
        return
    try:
        began = time.monotonic()
        _open(connection, snapshot)
        snapshot.start = time.monotonic() - began if isinstance(connection, _Process) else None
        _read_lists(connection, snapshot)
        if call:
            _call(connection, snapshot)
    except (BrokenError, RefusedError) as error:
        snapshot.broken = str(error)
    finally:
        if isinstance(connection, _Process):
            ended = connection.close(0.0 if snapshot.broken else grace)
            snapshot.ended = None if snapshot.broken else ended
            snapshot.noise = connection.noise


def _open(connection: _Process | _Endpoint, snapshot: Snapshot) -> None:
    try:
        opened = connection.request(
            protocol().opening, {"protocolVersion": protocol().newest, "capabilities": {}, "clientInfo": _CLIENT}
        )
    except (RefusedError, BrokenError) as error:
        if isinstance(error, BrokenError) and isinstance(connection, _Process):
            raise
        connection.stateless = True
        try:
            opened = connection.request(protocol().discovery, {})
        except (RefusedError, BrokenError):
            raise error from None
        meta = opened.get("_meta")
        info = meta.get(f"{_PREFIX}serverInfo") if is_object(meta) else None
        snapshot.info = info if is_object(info) else {}
        snapshot.revision = protocol().stateless
    else:
        info = opened.get("serverInfo")
        snapshot.info = info if is_object(info) else {}
        snapshot.revision = text_of(opened.get("protocolVersion"))
        if isinstance(connection, _Endpoint):
            connection.negotiated(snapshot.revision)
        connection.notify(protocol().opened)
    capabilities = opened.get("capabilities")
    snapshot.capabilities = capabilities if is_object(capabilities) else {}
    snapshot.instructions = text_of(opened.get("instructions"))


def _read_lists(connection: _Connection, snapshot: Snapshot) -> None:
    failed: dict[str, str] = {}
    for name, (method, key, capability) in protocol().lists.items():
        if capability not in snapshot.capabilities:
            continue
        items: list[Json] = []
        pages = FollowedPages(method, max_items=_MAX_ITEMS)
        params: Json = {}
        try:
            while True:
                result = connection.request(method, params)
                page = result.get(key)
                items += [item for item in page if is_object(item)] if is_list(page) else []
                following = result.get("nextCursor")  # An empty text is a cursor too.
                cursor = pages.add(len(page) if is_list(page) else 0, following if isinstance(following, str) else None)
                if cursor is None:
                    break
                params = {"cursor": cursor}
        except RemoteError as error:
            failed[name] = str(error)
        except RefusedError as error:
            if not (name == "templates" and error.code == _NO_METHOD):
                failed[name] = str(error)
        setattr(snapshot, name, items)
    snapshot.failed = failed


def _call(connection: _Connection, snapshot: Snapshot) -> None:
    """Call the tools that say they only read and that need no argument."""
    calls: dict[str, Any] = {}
    for tool in snapshot.tools:
        annotations, schema, name = tool.get("annotations"), tool.get("inputSchema"), text_of(tool.get("name"))
        reads = is_object(annotations) and annotations.get("readOnlyHint") is True
        if reads and is_object(schema) and not schema.get("required") and len(calls) < _MAX_CALLS:
            try:
                calls[name] = connection.request(protocol().call, {"name": name, "arguments": {}})
            except RefusedError as error:
                calls[name] = {"isError": True, "content": [{"type": "text", "text": str(error)}]}
    snapshot.calls = calls
