"""A weather service on this machine, in the shape of the National Weather Service's, with faults to order."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MAX_WAIT = 10.0  # Seconds that a slow answer takes when nobody lets it go.


def alert(event: str, **more: Any) -> dict[str, Any]:
    properties = {"event": event, "areaDesc": "Sacramento", "severity": "Severe", "description": "Much rain.", **more}
    return {"type": "Feature", "properties": properties}


def period(number: int, **more: Any) -> dict[str, Any]:
    return {
        "name": f"Period {number}",
        "temperature": 50 + number,
        "temperatureUnit": "F",
        "windSpeed": "5 mph",
        "windDirection": "SW",
        "detailedForecast": "Mostly clear.",
        **more,
    }


@dataclass(frozen=True)
class Answer:
    """How one path is answered. A silent answer never comes, a dripping one comes byte by byte."""

    body: bytes
    status: int = 200
    location: str | None = None
    silent: bool = False
    dripping: bool = False


def as_json(value: object, status: int = 200) -> Answer:
    return Answer(json.dumps(value).encode(), status)


@dataclass
class FakeWeather:
    """What it answers by path, and what it was asked, with the user agents; tests change `answers` at will."""

    url: str = ""
    answers: dict[str, Answer] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)

    def reset_answers(self) -> None:
        """Alerts in California, none in Nevada, and a forecast for Sacramento."""
        flood = alert("Flood Warning", instruction="Stay away from the river.")
        self.answers = {
            "/alerts/active/area/CA": as_json({"features": [flood, alert("Wind Advisory", instruction=None)]}),
            "/alerts/active/area/NV": as_json({"features": []}),
            "/points/38.58,-121.49": as_json({"properties": {"forecast": f"{self.url}/gridpoints/STO/41,67/forecast"}}),
            "/gridpoints/STO/41,67/forecast": as_json({"properties": {"periods": [period(n) for n in range(1, 8)]}}),
        }


class _Handler(BaseHTTPRequestHandler):
    fake: FakeWeather

    def do_GET(self) -> None:
        self.fake.requests.append((self.path, self.headers.get("User-Agent", "")))
        answer = self.fake.answers.get(self.path, Answer(b'{"title": "Not Found"}', 404))
        if answer.silent:
            self.fake.released.wait(MAX_WAIT)
            return
        self.send_response(answer.status)
        self.send_header("Content-Length", str(len(answer.body)))
        if answer.location is not None:
            self.send_header("Location", answer.location)
        self.end_headers()
        if not answer.dripping:
            self.wfile.write(answer.body)
            return
        for byte in answer.body:
            self.wfile.write(bytes([byte]))
            if self.fake.released.wait(0.05):
                return

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the tests' output is for the tests."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is what some tests are about."""


@contextmanager
def serving() -> Iterator[FakeWeather]:
    """The service on a free port of 127.0.0.1; on leaving, slow answers are let go and it ends."""
    fake = FakeWeather()
    handler = type("Handler", (_Handler,), {"fake": fake})
    with _Server(("127.0.0.1", 0), handler) as server:
        fake.url = f"http://127.0.0.1:{server.server_port}"
        fake.reset_answers()
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield fake
        finally:
            fake.released.set()
            server.shutdown()
            thread.join(MAX_WAIT)
