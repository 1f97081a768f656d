"""A US state or a point goes in, what the National Weather Service says of it comes out as text, or Unavailable.

Everything the service answers is checked before it is used: its status, its length, that it is JSON, and that it has
the fields that are read. Every call has a timeout.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from typing import IO, Any, Final, TypeVar, cast
from urllib import request
from urllib.error import HTTPError, URLError
from urllib.parse import SplitResult, urlsplit

from pydantic import BaseModel, Field, ValidationError

STATES: Final = frozenset(
    "AL AK AZ AR CA CO CT DE FL GA HI ID IL IN IA KS KY LA ME MD MA MI MN MS MO MT NE NV NH NJ NM NY NC ND OH OK OR"
    " PA RI SC SD TN TX UT VT VA WA WV WI WY DC AS GU MP PR VI".split()
)
PERIODS: Final = 5
_LONGEST: Final = 8 << 20  # Bytes of one answer; the alerts of a whole state in a bad week are about one MiB.
_CHUNK: Final = 1 << 16
_BETWEEN: Final = "\n---\n"

ModelT = TypeVar("ModelT", bound=BaseModel)


class Unavailable(Exception):
    """There is no answer to give; the text says why, for people and models to read."""

    def __init__(self, why: str, status: int | None = None) -> None:
        super().__init__(why)
        self.status = status


@dataclass(frozen=True, slots=True)
class Service:
    """The service at a base URL. `timeout` is in seconds, for each call it takes."""

    base: str = "https://api.weather.gov"
    user_agent: str = "mcp-codegen-weather-example/1.0"
    timeout: float = 10.0

    @classmethod
    def configured(cls, environment: Mapping[str, str]) -> Service:
        """As WEATHER_API, WEATHER_USER_AGENT and WEATHER_TIMEOUT say. Raises ValueError with one clear line."""
        base = environment.get("WEATHER_API", cls().base).rstrip("/")
        if not _is_web(base):
            raise ValueError(f"WEATHER_API is not the URL of a web service: {base!r}")
        agent = environment.get("WEATHER_USER_AGENT", cls().user_agent)
        if not (agent.isascii() and agent.isprintable()):
            raise ValueError("WEATHER_USER_AGENT has characters that no header can carry")
        given = environment.get("WEATHER_TIMEOUT", str(cls().timeout))
        try:
            timeout = float(given)
        except ValueError:
            timeout = 0.0
        if not 0 < timeout <= 3600:
            raise ValueError(f"WEATHER_TIMEOUT is not a number of seconds from 0 to 3600: {given!r}")
        return cls(base, agent, timeout)

    def alerts(self, state: str) -> str:
        """The active alerts of a US state or territory, named by its two letters."""
        code = state.upper()
        if code not in STATES:
            raise Unavailable(f"{state!r} is not the two-letter code of a US state, such as CA or NY.")
        found = self._get(_Alerts, f"{self.base}/alerts/active/area/{code}").features
        return _BETWEEN.join(str(each.properties) for each in found) or f"No active alerts for {code}."

    def forecast(self, latitude: float, longitude: float) -> str:
        """The forecast of the next five periods at a point, in degrees."""
        if not (-90 <= latitude <= 90 and -180 <= longitude <= 180):
            raise Unavailable("Latitude goes from -90 to 90 degrees and longitude from -180 to 180.")
        point = f"{_short(latitude)},{_short(longitude)}"
        try:
            described = self._get(_Point, f"{self.base}/points/{point}")
        except Unavailable as fault:
            if fault.status != 404:
                raise
            raise Unavailable(f"There is no forecast for {point}: the service covers the United States only.") from None
        periods = self._get(_Forecast, described.properties.forecast).properties.periods
        return _BETWEEN.join(map(str, periods[:PERIODS])) or f"There is no forecast for {point} at the moment."

    def _get(self, shape: type[ModelT], url: str) -> ModelT:
        """What is at a URL of the service, which may be one that the service itself has given."""
        if not _same_origin(url, self.base):
            raise Unavailable(f"The weather service refers to another place, which is not followed: {url[:200]!r}.")
        asked = request.Request(url, headers={"User-Agent": self.user_agent, "Accept": "application/geo+json"})
        late = f"The weather service gave no answer within {self.timeout:g} s."
        try:
            return shape.model_validate_json(self._fetch(asked))
        except ValidationError as fault:
            raise Unavailable(_complaint(fault)) from None
        except HTTPError as fault:
            fault.close()
            raise Unavailable(f"The weather service answered {fault.code} {fault.reason}.", fault.code) from None
        except TimeoutError:
            raise Unavailable(late) from None
        except URLError as fault:
            slow = isinstance(fault.reason, TimeoutError)
            raise Unavailable(late if slow else f"The weather service cannot be reached: {fault.reason}.") from None
        except (OSError, HTTPException, ValueError) as fault:
            raise Unavailable(f"Talking to the weather service failed: {fault!r}.") from None

    def _fetch(self, asked: request.Request) -> bytes:
        """The body of an answer. Raises what urllib raises, and TimeoutError also where it comes drop by drop."""
        deadline = time.monotonic() + self.timeout
        body = bytearray()
        response = cast(HTTPResponse, _opener().open(asked, timeout=self.timeout))
        with response:
            while part := response.read1(_CHUNK):
                body += part
                if len(body) > _LONGEST:
                    raise Unavailable(f"The weather service's answer is longer than {_LONGEST} bytes.")
                if time.monotonic() > deadline:
                    raise TimeoutError
        return bytes(body)


# ---- fetching -----------------------------------------------------------------------------------------------------------


class _Redirects(request.HTTPRedirectHandler):
    """Follows the service to itself alone."""

    def redirect_request(
        self, req: request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> request.Request | None:
        if not _same_origin(newurl, req.full_url):
            return None
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener() -> request.OpenerDirector:
    """Opens http and https. What urllib usually opens beside them, local files above all, has no place here."""
    opener = request.OpenerDirector()
    for handler in (
        request.ProxyHandler(),
        request.HTTPHandler(),
        request.HTTPSHandler(),
        request.HTTPErrorProcessor(),
        request.HTTPDefaultErrorHandler(),
        _Redirects(),
    ):
        opener.add_handler(handler)
    return opener


def _is_web(url: str) -> bool:
    try:
        return _origin(urlsplit(url))[0] in ("http", "https") and bool(urlsplit(url).hostname)
    except ValueError:
        return False


def _same_origin(url: str, other: str) -> bool:
    try:
        return _origin(urlsplit(url)) == _origin(urlsplit(other))
    except ValueError:
        return False


def _origin(parts: SplitResult) -> tuple[str, str | None, int | None]:
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _complaint(fault: ValidationError) -> str:
    first = fault.errors(include_url=False, include_context=False, include_input=False)[0]
    if first["type"] == "json_invalid":
        return "The weather service answered with something that is not JSON."
    path = ".".join(map(str, first["loc"]))
    return f"The weather service's answer is not as expected: {path or 'all of it'}: {first['msg']}."


def _short(degrees: float) -> str:
    """At most four decimals and no zeros at the end: the service redirects everything else to that."""
    text = f"{degrees:.4f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


# ---- what the service answers, as far as it is read --------------------------------------------------------------------


class _Alert(BaseModel):
    event: str
    area: str = Field(alias="areaDesc")
    severity: str
    description: str | None = None
    instruction: str | None = None

    def __str__(self) -> str:
        return (
            f"Event: {self.event}\n"
            f"Area: {self.area}\n"
            f"Severity: {self.severity}\n"
            f"Description: {self.description or 'none given'}\n"
            f"Instructions: {self.instruction or 'none given'}"
        )


class _Feature(BaseModel):
    properties: _Alert


class _Alerts(BaseModel):
    """What is at /alerts/active/area/{state}."""

    features: list[_Feature]


class _PointProperties(BaseModel):
    forecast: str


class _Point(BaseModel):
    """What is at /points/{latitude},{longitude}."""

    properties: _PointProperties


class _Period(BaseModel):
    name: str
    temperature: int | float
    unit: str = Field(alias="temperatureUnit")
    wind_speed: str = Field(alias="windSpeed")
    wind_direction: str = Field(alias="windDirection")
    forecast: str = Field(alias="detailedForecast")

    def __str__(self) -> str:
        return (
            f"{self.name}:\n"
            f"Temperature: {self.temperature}°{self.unit}\n"
            f"Wind: {self.wind_speed} {self.wind_direction}\n"
            f"Forecast: {self.forecast}"
        )


class _Periods(BaseModel):
    periods: list[_Period]


class _Forecast(BaseModel):
    """What is at the forecast URL of a point."""

    properties: _Periods
