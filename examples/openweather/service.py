"""A city goes in, what OpenWeather says of it comes out, or Unavailable. The key is in no message and no log."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import httpx2
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

LONGEST: Final = 1 << 20  # Bytes of an answer.
SECONDS: Final = 10.0
A_DAY: Final = 8  # The service has a forecast for every three hours.

T = TypeVar("T")


class Unavailable(Exception):
    """There is no answer to give; the text says why, for people and models to read."""


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
        """What a model or a person wants to know."""
        said = {"temperature": self.main.temp, "conditions": self.weather[0].description}
        return {**said, "humidity": self.main.humidity, "wind_speed": self.wind.speed}


class _Forecast(BaseModel):
    reports: list[_Report] = Field(alias="list")


@dataclass(frozen=True, slots=True)
class OpenWeather:
    """The service at a base URL, asked in metric units."""

    key: str
    base: str

    @classmethod
    def configured(cls, environment: Mapping[str, str] = os.environ) -> OpenWeather:
        """As OPENWEATHER_API_KEY and OPENWEATHER_API (base URL) say. Raises ValueError without a key."""
        if not (key := environment.get("OPENWEATHER_API_KEY", "")):
            raise ValueError("OPENWEATHER_API_KEY is not set")
        return cls(key, environment.get("OPENWEATHER_API", "https://api.openweathermap.org/data/2.5").rstrip("/"))

    async def current(self, city: str) -> dict[str, Any]:
        """The weather there is now."""
        return (await self._get(TypeAdapter(_Report), "weather", {"q": city})).plain()

    async def day(self, city: str, number: int) -> dict[str, Any]:
        """The forecast of one day; 0 is the next twenty-four hours."""
        asked = {"q": city, "cnt": str((number + 1) * A_DAY)}
        reports = (await self._get(TypeAdapter(_Forecast), "forecast", asked)).reports[number * A_DAY :]
        if not reports:
            raise Unavailable(f"There is no forecast for day {number + 1}.")
        return {"date": reports[0].dt_txt[:10], **reports[0].plain()}

    async def _get(self, shape: TypeAdapter[T], path: str, query: dict[str, str]) -> T:
        try:
            async with asyncio.timeout(SECONDS), httpx2.AsyncClient() as client:
                wanted = {**query, "appid": self.key, "units": "metric"}
                async with client.stream("GET", f"{self.base}/{path}", params=wanted) as answer:
                    body = bytearray()
                    async for part in answer.aiter_bytes():
                        body += part
                        if len(body) > LONGEST:
                            raise Unavailable("The weather service's answer is too long.")
        except TimeoutError:
            raise Unavailable(f"The weather service gave no answer within {SECONDS:g} s.") from None
        except httpx2.HTTPError as fault:
            # Its text may hold the URL, and so the key.
            raise Unavailable(f"The weather service cannot be reached ({type(fault).__name__}).") from None
        if answer.status_code == 404:
            raise Unavailable(f"The weather service does not know {query['q']!r}.")
        if answer.status_code != 200:
            raise Unavailable(f"The weather service answered {answer.status_code}.")
        try:
            return shape.validate_json(bytes(body))
        except ValidationError:
            raise Unavailable("The weather service's answer is not as expected.") from None
