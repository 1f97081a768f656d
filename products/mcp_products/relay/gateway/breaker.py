"""The circuit breaker of one server: after several failures it is not asked, until a probe has got an answer."""

from __future__ import annotations

import logging
import math
import random
from collections import Counter, OrderedDict
from collections.abc import Callable, Generator, Hashable
from contextlib import contextmanager
from typing import Final, Literal, NamedTuple

from mcp_runtime.aio import clock as clocks
from mcp_runtime.errors import JSONRPCError
from mcp_runtime.protocol.jsonrpc import INTERNAL_ERROR
from mcp_runtime.usage.texts import shortened

from ..upstream.opening import NoAnswerError
from ..upstream.translation import AnsweredError

_log: Final = logging.getLogger("mcp_runtime.gateway")

_MAX_SECONDS: Final = 300.0  # The longest delay, unless that of the settings is longer.
_SPREAD: Final = 0.25  # A delay is longer by up to this part, by chance: not all gateways probe at the same time.
_SHARED_SECONDS: Final = 600.0  # A server is shared if another client has used it within this time.
_MAX_REASON: Final = 500

State = Literal["closed", "half open", "open"]
STATES: Final[tuple[State, ...]] = ("closed", "half open", "open")
"""The states in the order of their numbers in metrics."""


class BreakerSettings(NamedTuple):
    """After how many failures in a row a server is not asked, and for how many seconds at first."""

    failures: int = 5
    delay: float = 30.0


class CircuitOpenError(JSONRPCError):
    """A server is not asked, because it has failed. `data` has its name, the state and `retryAfter` in seconds."""

    def __init__(self, upstream: str, state: State, seconds: float) -> None:
        seconds = round(max(seconds, 0.001), 3)
        why = "a probe is under way" if state == "half open" else "it has failed several times"
        message = f"{upstream!r} is not asked now, {why} (circuit {state}): try again in {math.ceil(seconds)} s"
        super().__init__(INTERNAL_ERROR, message, {"upstream": upstream, "state": state, "retryAfter": seconds})


class CircuitBreaker:
    """Lets requests to a server pass while it is closed, none while it is open, and then one, the probe.

    It opens after several failures without an answer between them. A failed probe opens it again, for twice as long. An
    error that the server has answered is an answer.

    Of a server that others use too, one client cannot open it alone: a call of its own may be what ends the process.
    Connections that cannot be opened are not a fault of a client.
    """

    def __init__(self, name: str, settings: BreakerSettings | None) -> None:
        """Create a closed one. `name` is that of the server, for messages; without settings it never opens."""
        self.on_close: Callable[[], None] = lambda: None
        """Called when the server answers again."""
        self.reason: str | None = None
        """Why it is not closed."""
        self.openings = 0
        """How often it has opened."""
        self._name = name
        self._settings = settings
        self._until: float | None = None  # No request passes before this time; None while it is closed.
        self._is_probing = False
        self._rounds = 0  # Delays since it was closed last.
        self._epoch = 0  # Counts changes of the state: what began before says nothing about the present one.
        self._failures_of: Counter[Hashable] = Counter()
        self._clients: OrderedDict[Hashable, float] = OrderedDict()  # The two that used the server last, and when.

    def change(self, settings: BreakerSettings | None) -> None:
        """Use other settings from the next failure on; without settings it is closed."""
        self._settings = settings
        if settings is None and self._until is not None:
            self._close()

    @property
    def state(self) -> State:
        """What it lets pass at present."""
        if self._until is None:
            return "closed"
        return "half open" if self._is_probing or clocks.monotonic() >= self._until else "open"

    # ---- requests ----------------------------------------------------------------------------------------------------

    @contextmanager
    def guard(self, client: Hashable) -> Generator[None]:
        """Let a request of a client pass, and note how it ends. Raises CircuitOpenError if it may not pass."""
        self._admit()
        self._clients[client] = clocks.monotonic()
        self._clients.move_to_end(client)
        if len(self._clients) > 2:
            self._clients.popitem(last=False)
        epoch, is_probe = self._epoch, self._is_probing
        try:
            yield
        except AnsweredError:
            self._answered(epoch)
            raise
        except NoAnswerError as error:
            if error.is_outage and error.was_open and epoch == self._epoch:
                self.failed(str(error), client)
            raise
        except TimeoutError:
            if epoch == self._epoch:
                self.failed("it has not answered in time", client)
            raise
        else:
            self._answered(epoch)
        finally:  # What else was raised says nothing of the server: a client that has left, a place that was not free.
            if is_probe and epoch == self._epoch:  # Undecided: the next request is the probe.
                self._is_probing = False
                self._until = clocks.monotonic()

    def _admit(self) -> None:
        if self._until is None or self._settings is None:
            return
        now = clocks.monotonic()
        if now < self._until:
            raise CircuitOpenError(self._name, self.state, self._until - now)
        self._is_probing = True
        self._until = now + self._settings.delay  # Then another one, if the probe takes longer.

    def _answered(self, epoch: int) -> None:
        if epoch == self._epoch:
            self._failures_of.clear()
            if self._until is not None:
                self._close()

    def failed(self, reason: str, client: Hashable = None) -> None:
        """Note a failure: of a request of a client, or, without one, of a connection that could not be opened."""
        if self._settings is None:
            return
        self.reason = shortened(reason, _MAX_REASON)
        if self._until is not None:
            if self._is_probing:
                self._open()
            return
        most = self._settings.failures - 1
        if client is None or not self._is_shared(client) or self._failures_of[client] < max(most, 1):
            self._failures_of[client] += 1
        if self._failures_of.total() > most:
            self._open()

    def _is_shared(self, client: Hashable) -> bool:
        since = clocks.monotonic() - _SHARED_SECONDS
        return any(time > since for other, time in self._clients.items() if other != client)

    # ---- the state ---------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        assert self._settings is not None, "without settings it never opens"
        delay = self._settings.delay
        seconds = min(delay * 2.0 ** min(self._rounds, 30), max(delay, _MAX_SECONDS)) * (1 + _SPREAD * random.random())
        _log.warning("%r is not asked for %.1f s, because it has failed: %s", self._name, seconds, self.reason)
        self._until = clocks.monotonic() + seconds
        self._is_probing = False
        self._rounds += 1
        self._epoch += 1
        self._failures_of.clear()
        self.openings += 1

    def _close(self) -> None:
        _log.warning("%r answers again, and is asked", self._name)
        self._until = None
        self._is_probing = False
        self._rounds = 0
        self._epoch += 1
        self.reason = None
        self.on_close()
