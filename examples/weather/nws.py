"""A client of the US National Weather Service: alerts of a state and forecasts of a point, as text.

Every response is validated before it is used: status, length, JSON, and the fields that are read. Every call has a time
limit. Errors are ServiceError.
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
_MAX_BYTES: Final = 8 << 20  # Of one response; the alerts of a whole state in a bad week are about one MiB.
_CHUNK: Final = 1 << 16
_SEPARATOR: Final = "\n---\n"

ModelT = TypeVar("ModelT", bound=BaseModel)


class ServiceError(Exception):
    """The service has no answer. The text gives the reason, for people and models. `status` is the HTTP status."""

    def __init__(self, reason: str, status: int | None = None) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True, slots=True)
class Service:
    """The service at a base URL. `timeout` is the time limit of each call, in seconds."""

    base: str = "https://api.weather.gov"
    user_agent: str = "mcp-codegen-weather-example/1.0"
    timeout: float = 10.0

    @classmethod
    def configured(cls, environment: Mapping[str, str]) -> Service:
        """Read WEATHER_API, WEATHER_USER_AGENT and WEATHER_TIMEOUT. Raises ValueError with a one-line message."""
        base = (environment.get("WEATHER_API") or cls().base).rstrip("/")
        if not _is_web(base):
            raise ValueError(f"WEATHER_API is not the URL of a web service: {base!r}")
        agent = environment.get("WEATHER_USER_AGENT") or cls().user_agent
        if not (agent.isascii() and agent.isprintable()):
            raise ValueError("WEATHER_USER_AGENT has characters that no header can carry")
        seconds = environment.get("WEATHER_TIMEOUT") or str(cls().timeout)
        try:
            timeout = float(seconds)
        except ValueError:
            timeout = 0.0
        if not 0 < timeout <= 3600:
            raise ValueError(f"WEATHER_TIMEOUT is not a number of seconds from 0 to 3600: {seconds!r}")
        return cls(base, agent, timeout)

    def alerts(self, state: str) -> str:
        """Return the active alerts of a US state or territory, given its two-letter code."""
        code = state.upper()
        if code not in STATES:
            raise ServiceError(f"{state!r} is not the two-letter code of a US state, such as CA or NY.")
        features = self._get(_Alerts, f"{self.base}/alerts/active/area/{code}").features
        return _SEPARATOR.join(str(feature.properties) for feature in features) or f"No active alerts for {code}."

    def forecast(self, latitude: float, longitude: float) -> str:
        """Return the forecast of the next five periods at a point, in degrees."""
        if not (-90 <= latitude <= 90 and -180 <= longitude <= 180):
            raise ServiceError("Latitude goes from -90 to 90 degrees and longitude from -180 to 180.")
        point = f"{_short(latitude)},{_short(longitude)}"
        try:
            place = self._get(_Point, f"{self.base}/points/{point}")
        except ServiceError as error:
            if error.status != 404:
                raise
            raise ServiceError(
                f"There is no forecast for {point}: the service covers the United States only."
            ) from None
        periods = self._get(_Forecast, place.properties.forecast).properties.periods
        return _SEPARATOR.join(map(str, periods[:PERIODS])) or f"There is no forecast for {point} at the moment."

    def _get(self, shape: type[ModelT], url: str) -> ModelT:
        """Return the document at a URL, which may come from a response of the service."""
        if not _same_origin(url, self.base):
            raise ServiceError(f"The weather service refers to another origin, which is not followed: {url[:200]!r}.")
        http_request = request.Request(url, headers={"User-Agent": self.user_agent, "Accept": "application/geo+json"})
        late = f"The weather service did not respond within {self.timeout:g} s."
        try:
            return shape.model_validate_json(self._fetch(http_request))
        except ValidationError as error:
            raise ServiceError(_describe(error)) from None
        except HTTPError as error:
            error.close()
            raise ServiceError(f"The weather service answered {error.code} {error.reason}.", error.code) from None
        except TimeoutError:
            raise ServiceError(late) from None
        except URLError as error:
            slow = isinstance(error.reason, TimeoutError)
            raise ServiceError(late if slow else f"The weather service cannot be reached: {error.reason}.") from None
        except (OSError, HTTPException, ValueError) as error:
            raise ServiceError(f"Talking to the weather service failed: {error!r}.") from None

    def _fetch(self, http_request: request.Request) -> bytes:
        """Return the body of a response.

        Raises the errors of urllib, and TimeoutError for a body that arrives too slowly.
        """
        deadline = time.monotonic() + self.timeout
        body = bytearray()
        response = cast(HTTPResponse, _opener().open(http_request, timeout=self.timeout))
        with response:
            while part := response.read1(_CHUNK):
                body += part
                if len(body) > _MAX_BYTES:
                    raise ServiceError(f"The weather service's response is longer than {_MAX_BYTES} bytes.")
                if time.monotonic() > deadline:
                    raise TimeoutError
        return bytes(body)


# ---- fetching --------------------------------------------------------------------------------------------------------


class _Redirects(request.HTTPRedirectHandler):
    """Follow redirects within the origin of the service only."""

    def redirect_request(
        self, req: request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> request.Request | None:
        if not _same_origin(newurl, req.full_url):
            return None
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener() -> request.OpenerDirector:
    """Return an opener for http and https only: the default one of urllib also opens local files."""
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


def _describe(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    if first["type"] == "json_invalid":
        return "The weather service answered with something that is not JSON."
    path = ".".join(map(str, first["loc"]))
    return f"The weather service's response has an unexpected form: {path or 'all of it'}: {first['msg']}."


def _short(degrees: float) -> str:
    """Format degrees with at most four decimals and no trailing zeros: the service redirects all other forms."""
    text = f"{degrees:.4f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


# ---- the fields of responses that are read ---------------------------------------------------------------------------


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
    """The document at /alerts/active/area/{state}."""

    features: list[_Feature]


class _PointProperties(BaseModel):
    forecast: str


class _Point(BaseModel):
    """The document at /points/{latitude},{longitude}."""

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
    """The document at the forecast URL of a point."""

    properties: _Periods
