"""When a refused request may be sent again, and after how long."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from mcp_runtime.http.outgoing import parsed_retry_after, seconds_to_wait


@pytest.mark.parametrize(
    ("status", "value", "expected"),
    [
        (429, None, None),
        (429, "7", 7.0),
        (503, "0", 0.0),
        (503, " 12 ", 12.0),
        (503, None, None),
        (503, "soon", None),
        (503, "-1", None),
        (503, "9" * 400, None),
        (503, "\u0661", None),
        (500, "1", None),
        (502, "1", None),
        (504, "1", None),
        (200, "1", None),
    ],
)
def test_only_what_the_server_has_not_begun_is_sent_again(
    status: int, value: str | None, expected: float | None
) -> None:
    headers = {} if value is None else {"retry-after": value}
    assert seconds_to_wait(status, headers) == expected


@pytest.fixture(params=["UTC", "Asia/Tokyo"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if not hasattr(time, "tzset"):
        pytest.skip("a process of this system cannot change its time zone")
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("zone")
@pytest.mark.parametrize(
    "form", ["%a, %d %b %Y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y", "%a, %d %b %Y %H:%M:%S", "%A, %d-%b-%y %H:%M:%S GMT"]
)
def test_a_date_is_the_time_until_it_in_every_form_and_zone(form: str) -> None:
    soon = parsed_retry_after(time.strftime(form, time.gmtime(time.time() + 100)))
    assert soon is not None and 0 < soon <= 100
    assert parsed_retry_after(time.strftime(form, time.gmtime(time.time() - 100))) == 0


def test_what_is_no_date_is_no_time() -> None:
    for value in ("Wed, 99 Foo 2015 07:28:00 GMT", "GMT", "", "tomorrow"):
        assert parsed_retry_after(value) is None, value
