"""How many sessions, streams and requests the HTTP endpoints of a process have at present."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from typing import Final, Protocol

from opentelemetry.metrics import CallbackOptions, Observation, get_meter

from ...aio.keepalive import KeepAliveTimer
from ..spans import NAME


class ObservedHandler(Protocol):
    """A handler of an endpoint."""

    @property
    def session_count(self) -> int:
        """The number of sessions in the memory of this process."""
        ...

    @property
    def running_count(self) -> int:
        """The number of requests that are being handled."""
        ...


Endpoint = tuple[Sequence[ObservedHandler], KeepAliveTimer]

_COUNTS: Final[dict[str, tuple[str, Callable[[Endpoint], int]]]] = {
    "session": ("Sessions in the memory of this process.", lambda item: sum(one.session_count for one in item[0])),
    "stream": ("SSE streams that are open.", lambda item: item[1].waiting_count),
    "request": ("Requests that are being handled.", lambda item: sum(one.running_count for one in item[0])),
}
_endpoints: dict[object, Endpoint] = {}


def observe(endpoint: object, handlers: Sequence[ObservedHandler] = (), streams: KeepAliveTimer | None = None) -> None:
    """Count the sessions, streams and requests of an endpoint; without its parts, count them no more."""
    if streams is None:
        _endpoints.pop(endpoint, None)
    else:
        _endpoints[endpoint] = (handlers, streams)
        _create_counters()


@cache
def _create_counters() -> None:
    for unit, (description, count) in _COUNTS.items():
        get_meter(NAME).create_observable_up_down_counter(
            f"{NAME}.{unit}s", [partial(_sum, count)], unit=f"{{{unit}}}", description=description
        )


def _sum(count: Callable[[Endpoint], int], options: CallbackOptions) -> Iterable[Observation]:
    return [Observation(sum(map(count, _endpoints.values())))]
