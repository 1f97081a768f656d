"""The parts of the lines that clients and servers log about their calls."""

from __future__ import annotations

from time import perf_counter


def milliseconds(began: float) -> str:
    """Return the time since a value of `perf_counter`, such as "3.2 ms"."""
    return f"{(perf_counter() - began) * 1000:.1f} ms"


def subject_of(method: str, params: object) -> str:
    """Return a method with the name or the URI that the params are about; nothing else of them, as it may be secret."""
    for key in ("name", "uri"):
        value = params.get(key) if isinstance(params, dict) else getattr(params, key, None)
        if isinstance(value, str):
            return f"{method} {value[:200]!r}"
    return method
