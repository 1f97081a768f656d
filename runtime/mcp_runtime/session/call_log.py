"""The parts of the lines that clients and servers log about their calls."""

from __future__ import annotations

from time import perf_counter
from typing import Any

from ..protocol.models import PreSerialized, is_object


def milliseconds(began: float) -> str:
    """Return the time since a value of `perf_counter`, such as "3.2 ms"."""
    return f"{(perf_counter() - began) * 1000:.1f} ms"


def subject_of(method: str, params: object) -> str:
    """Return a method with the name or the URI that the params are about; nothing else of them, as it may be secret."""
    for key in ("name", "uri"):
        value = params.get(key) if is_object(params) else getattr(params, key, None)
        if isinstance(value, str):
            return f"{method} {value[:200]!r}"
    return method


def outcome_of(result: Any) -> str:
    """Return what kind of a result this is."""
    value = result.value if isinstance(result, PreSerialized) else result
    is_error = value.get("isError") if is_object(value) else getattr(value, "is_error", None)
    return "an error result" if is_error is True else "a result"
