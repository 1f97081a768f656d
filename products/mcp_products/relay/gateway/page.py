"""The routes of the page of a gateway: HTML that loads no other file, and the JSON that it shows.

The page has no authentication, and is for this machine only. Text of servers is untrusted: the script inserts it as
text, and the content security policy allows that one script, that one style, and connections to the gateway.
"""

from __future__ import annotations

import base64
import hashlib
import logging
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mcp_runtime._lazy import LazyModule
from mcp_runtime.aio import clock as clocks
from mcp_runtime.http.origins import LOOPBACK
from mcp_runtime.usage.texts import shortened

if TYPE_CHECKING:
    from starlette import responses
else:  # Imported when they are used.
    responses = LazyModule("starlette.responses")

_FOLDER: Final = Path(__file__).parent
_CLIENTS: Final = ("127.0.0.1", "::1")
_FORWARDED: Final = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")
_HEADERS: Final = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
}

_MAX_CALLS: Final = 200
_MAX_RUNNING: Final = 1000  # Calls that run and are shown.
_MAX_LINES: Final = 100
_MAX_LINE: Final = 500  # Characters, as long texts of calls and losses have a limit.
_MAX_KINDS: Final = 200
_LOSSES: Final = "mcp_runtime.versions.conversion.operations"
_LOG: Final = "mcp_runtime.gateway"


class GatewayPage:
    """The page of one gateway."""

    def __init__(self, state: Callable[[], dict[str, Any]]) -> None:
        """Create a page; `state` returns what it shows, as JSON."""
        self._state = state
        script, style = ((_FOLDER / file).read_text(encoding="utf-8") for file in ("page.js", "page.css"))
        page = (_FOLDER / "page.html").read_text(encoding="utf-8")
        self._page = page.replace("/*style*/", style).replace("/*script*/", script)
        self._policy = (
            f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; connect-src 'self'; "
            "img-src data:; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )

    async def page(self, request: Any) -> Any:
        """Return the page, to a browser of this machine."""
        return _refusal(request) or responses.HTMLResponse(
            self._page, headers={**_HEADERS, "content-security-policy": self._policy}
        )

    async def data(self, request: Any) -> Any:
        """Return the JSON of the page, to a browser of this machine."""
        return _refusal(request) or responses.JSONResponse(self._state(), headers=_HEADERS)


def _refusal(request: Any) -> Any:
    """Return the response to a request that does not come from this machine, or names another host or origin."""
    headers = request.headers
    host = headers.get("host", "").lower()
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    client = request.client.host if request.client is not None else ""
    origin = headers.get("origin")
    is_own = origin is None or origin.lower() == f"{request.url.scheme}://{host}"
    if client in _CLIENTS and name in LOOPBACK and is_own and not any(key in headers for key in _FORWARDED):
        return None
    return responses.PlainTextResponse("the page is for browsers of this machine only", 403, headers=_HEADERS)


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


# What the page of a gateway shows of the past: the last calls, what conversions have lost, and the end of the log.


class RecentRecords(logging.Handler):
    """The last calls, losses and lines. It is a handler of the loggers of gateways and of conversions."""

    def __init__(self) -> None:
        """Create records, which are empty until `begin`."""
        super().__init__(logging.DEBUG)
        self.calls: deque[dict[str, Any]] = deque(maxlen=_MAX_CALLS)
        self.running: dict[int, dict[str, Any]] = {}
        self.lines: deque[dict[str, Any]] = deque(maxlen=_MAX_LINES)
        self.losses: dict[str, int] = {}
        self._last = 0

    def begin(self) -> None:
        """Collect what the loggers get from now on."""
        losses = logging.getLogger(_LOSSES)
        if not losses.isEnabledFor(logging.DEBUG):  # Nobody else reads them: they are for the page only.
            losses.setLevel(logging.DEBUG)
            losses.propagate = False
        for name in (_LOSSES, _LOG):
            logging.getLogger(name).addHandler(self)

    def end(self) -> None:
        """Collect nothing more."""
        for name in (_LOSSES, _LOG):
            logging.getLogger(name).removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Count a loss by its rule, or add a line."""
        if record.name == _LOSSES:
            rule = shortened(str(record.args[1])) if isinstance(record.args, tuple) and len(record.args) > 1 else ""
            if rule in self.losses or len(self.losses) < _MAX_KINDS:
                self.losses[rule] = self.losses.get(rule, 0) + 1
            return
        text = shortened(record.getMessage(), _MAX_LINE)
        self.lines.append({"time": record.created, "level": record.levelname, "text": text})

    def call_began(self, fields: Mapping[str, str]) -> int:
        """Note a call that runs, and return its number. Long texts are shortened."""
        self._last += 1
        if len(self.running) < _MAX_RUNNING:
            shown = {key: shortened(text) for key, text in fields.items()}
            self.running[self._last] = {"number": self._last, "time": clocks.wall(), **shown}
        return self._last

    def call_ended(self, number: int, **fields: Any) -> None:
        """Note how a call ended: its outcome, the seconds that it took, and the bytes of its result."""
        call = self.running.pop(number, None)
        if call is not None:
            self.calls.append({**call, **fields})

    def shown(self) -> dict[str, Any]:
        """Return all records as JSON, the last first."""
        return {
            "running": [*self.running.values()],
            "calls": [*reversed(self.calls)],
            "losses": dict(self.losses),
            "log": [*reversed(self.lines)],
        }
