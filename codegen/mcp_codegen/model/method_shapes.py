"""What the rules of the method table read from types and of rows."""

from __future__ import annotations

from .ir import Map, Method, Plain, Ref, Scalar, Type, Union, Values


def are_carried(rows: list[Method]) -> bool:
    """Whether a request of the client has an interim result for the input requests, if there are any."""
    requests = [row for row in rows if row.direction == "client_to_server" and row.kind == "request"]
    has_carrier = any(interim.value is not None for row in requests for interim in row.interim)
    return has_carrier or all(row.kind != "input_request" for row in rows)


def named_type(written: Type) -> Ref | None:
    """Return the reference that a type is, or the only one in a union with objects of any shape."""
    arms = written.arms if isinstance(written, Union) else (written,)
    names = [arm for arm in arms if isinstance(arm, Ref)]
    return names[0] if len(names) == 1 and all(isinstance(arm, (Ref, Map)) for arm in arms) else None


def constants_of(written: Type) -> tuple[Scalar, ...]:
    """Return the values that the specification defines for a type: its only values, or the known ones of a string."""
    if isinstance(written, Values):
        return written.values
    return written.open_values if isinstance(written, Plain) else ()
