"""What this process has measured, what the others of its endpoint have, and the sum of all."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import from_json, to_json

from mcp_runtime._lazy import LazyModule
from mcp_runtime.errors import LocalError

from .families import Family, content_type, counters, merged, text_of

if TYPE_CHECKING:
    from starlette import responses, routing
    from starlette.requests import Request
else:  # Imported when they are used.
    responses = LazyModule("starlette.responses")
    routing = LazyModule("starlette.routing")

Source = Callable[[], Iterable[Family]]

_log: Final = logging.getLogger("mcp_runtime.metrics")

_NEEDS_SDK: Final = "metrics_path= needs opentelemetry-sdk: pip install 'mcp-generated[metrics]'"
_ENDED: Final = "ended.json"
_SECONDS: Final = 1.0  # Seconds between two writes of a process.


# A folder with a file for each process that runs, and one for all that have ended.


def write(folder: Path, process: int, families: Iterable[Family]) -> None:
    """Write what a process has measured, in the place of what it had measured before."""
    _replace(folder / f"{process}.json", [family.as_json() for family in families])


def read(folder: Path) -> list[tuple[str, list[Family]]]:
    """Return what each process in a folder has measured last, and what those that have ended had counted."""
    while True:
        before = _content(folder / _ENDED)
        last, ended = _of_ended(before)
        found = [("", ended)]
        for path in sorted(folder.glob("*.json")):
            if path.name not in (_ENDED, last) and (content := _content(path)):
                found.append((path.stem, _families(from_json(content))))
        if _content(folder / _ENDED) == before:  # Else a process has ended meanwhile, and is in both or in neither.
            return found


def note_end(folder: Path, process: int) -> None:
    """Add the counters of a process that has ended to those of the others that have. Only a supervisor does so."""
    path = folder / f"{process}.json"
    if not (content := _content(path)):
        return
    _, ended = _of_ended(_content(folder / _ENDED))
    families = merged([("", ended), ("", counters(_families(from_json(content))))])
    _replace(folder / _ENDED, {"last": path.name, "families": [family.as_json() for family in families]})
    path.unlink()


def _of_ended(content: bytes) -> tuple[str, list[Family]]:
    value: dict[str, Any] = from_json(content) if content else {"last": "", "families": []}
    return value["last"], _families(value["families"])


def _families(values: Iterable[Any]) -> list[Family]:
    return [Family.from_json(value) for value in values]


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _replace(path: Path, value: Any) -> None:
    new = path.with_suffix(".new")
    new.write_bytes(to_json(value))
    new.replace(path)


# ---- this process ----------------------------------------------------------------------------------------------------


class ProcessMetrics:
    """What one process measures; and the folder in which all workers of an endpoint write that, if there are others."""

    def __init__(self) -> None:
        """Measure nothing before `begin`."""
        self._measured: Any = None
        self._sources: list[Source] = []
        self._folder: Path | None = None
        self._is_begun = False
        self._lock = threading.Lock()  # What a process has written never goes back.

    def add(self, source: Source) -> None:
        """Add families that are not OpenTelemetry's. They are read by any thread."""
        self._sources.append(source)

    def remove(self, source: Source) -> None:
        """Read these families no more."""
        self._sources.remove(source)

    def share(self, folder: Path) -> None:
        """Be one of the workers whose files are in a folder."""
        self._folder = folder

    def begin(self) -> None:
        """Measure from now on.

        Raises LocalError without the SDK of OpenTelemetry, unless there is another source, and for a provider of
        metrics that cannot be read.
        """
        if self._is_begun:
            return
        try:
            self._measured = import_module(f"{__package__}.otel").Measured()
        except ModuleNotFoundError:
            if not self._sources:
                raise LocalError(_NEEDS_SDK) from None
        self._is_begun = True
        if self._folder is not None:
            # A thread: others see what this process has measured even while its event loop is blocked.
            threading.Thread(target=self._write_on, args=[self._folder], name="metrics", daemon=True).start()

    def _own(self) -> list[Family]:
        measured = [] if self._measured is None else [*self._measured.families()]
        return [*measured, *(family for source in self._sources for family in source())]

    def all(self) -> list[Family]:
        """Return what all processes of the endpoint have measured: of this one all, of others what is a second old."""
        if self._folder is None:
            return merged([(str(os.getpid()), self._own())])
        self._write(self._folder)
        return merged(read(self._folder))

    def end(self) -> None:
        """Write what this process has measured last: it ends."""
        if self._is_begun and self._folder is not None:
            self._write(self._folder)

    def _write(self, folder: Path) -> None:
        with self._lock:
            write(folder, os.getpid(), self._own())

    def _write_on(self, folder: Path) -> None:
        pause, failed = threading.Event(), False
        while not pause.wait(_SECONDS):
            try:
                self._write(folder)
                failed = False
            except Exception as error:
                if not folder.exists():
                    return  # The supervisor has ended, and this process ends as well.
                if not failed:
                    _log.warning("what this process has measured cannot be written, and is tried again: %s", error)
                failed = True


PROCESS: Final = ProcessMetrics()
"""What this process measures."""


# ---- the route that Prometheus scrapes -------------------------------------------------------------------------------


def metrics_route(path: str) -> Any:
    """Return a Starlette route with what all processes of the endpoint have measured. It has no authentication.

    Raises LocalError where nothing can be measured.
    """
    PROCESS.begin()
    return routing.Route(path, _metrics, methods=["GET"])


def _metrics(request: Request) -> Any:  # Starlette runs it in a thread.
    openmetrics, content = content_type(request.headers.get("accept", ""))
    return responses.Response(text_of(PROCESS.all(), openmetrics), media_type=content)
