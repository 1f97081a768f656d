"""A client of OpenWeather: current weather and forecasts of a city. The key is in no message and no log."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import httpx2
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

MAX_BYTES: Final = 1 << 20  # Of one response.
SECONDS: Final = 10.0
PER_DAY: Final = 8  # The service has one forecast for three hours.

T = TypeVar("T")


class ServiceError(Exception):
    """The service has no answer. The text gives the reason, for people and models."""


class _Main(BaseModel):
    temp: float
    humidity: float


class _Sky(BaseModel):
    description: str


class _Wind(BaseModel):
    speed: float


class _Report(BaseModel):
    main: _Main
    weather: list[_Sky] = Field(min_length=1)
    wind: _Wind = _Wind(speed=0)
    dt_txt: str = ""

    def plain(self) -> dict[str, Any]:
        """Return the values for a model or a user."""
        return {
            "temperature": self.main.temp,
            "conditions": self.weather[0].description,
            "humidity": self.main.humidity,
            "wind_speed": self.wind.speed,
        }


class _Forecast(BaseModel):
    reports: list[_Report] = Field(alias="list")


@dataclass(frozen=True, slots=True)
class OpenWeather:
    """The service at a base URL, in metric units."""

    key: str
    base: str

    @classmethod
    def configured(cls, environment: Mapping[str, str] = os.environ) -> OpenWeather:
        """Read OPENWEATHER_API_KEY and OPENWEATHER_API (base URL). Raises ValueError without a key."""
        if not (key := environment.get("OPENWEATHER_API_KEY", "")):
            raise ValueError("OPENWEATHER_API_KEY is not set")
        return cls(key, environment.get("OPENWEATHER_API", "https://api.openweathermap.org/data/2.5").rstrip("/"))

    async def current(self, city: str) -> dict[str, Any]:
        """Return the current weather."""
        return (await self._get(TypeAdapter(_Report), "weather", {"q": city})).plain()

    async def day(self, city: str, number: int) -> dict[str, Any]:
        """Return the forecast of one day; 0 is the next twenty-four hours."""
        parameters = {"q": city, "cnt": str((number + 1) * PER_DAY)}
        reports = (await self._get(TypeAdapter(_Forecast), "forecast", parameters)).reports[number * PER_DAY :]
        if not reports:
            raise ServiceError(f"There is no forecast for day {number + 1}.")
        return {"date": reports[0].dt_txt[:10], **reports[0].plain()}

    async def _get(self, shape: TypeAdapter[T], path: str, query: dict[str, str]) -> T:
        try:
            async with asyncio.timeout(SECONDS), httpx2.AsyncClient() as client:
                parameters = {**query, "appid": self.key, "units": "metric"}
                async with client.stream("GET", f"{self.base}/{path}", params=parameters) as response:
                    body = bytearray()
                    async for part in response.aiter_bytes():
                        body += part
                        if len(body) > MAX_BYTES:
                            raise ServiceError("The weather service's response is too long.")
        except TimeoutError:
            raise ServiceError(f"The weather service did not respond within {SECONDS:g} s.") from None
        except httpx2.HTTPError as error:
            # Its text may contain the URL, and the URL contains the key.
            raise ServiceError(f"The weather service cannot be reached ({type(error).__name__}).") from None
        if response.status_code == 404:
            raise ServiceError(f"The weather service does not know {query['q']!r}.")
        if response.status_code != 200:
            raise ServiceError(f"The weather service answered {response.status_code}.")
        try:
            return shape.validate_json(bytes(body))
        except ValidationError:
            raise ServiceError("The weather service's response has an unexpected form.") from None
