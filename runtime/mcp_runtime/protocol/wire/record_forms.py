"""The forms of types in the generated modules `core_schemas`."""

from __future__ import annotations

from typing import Any


def is_open_form(form: Any) -> bool:
    """Return True for the form of objects or lists without records: their values are JSON as they are."""
    if isinstance(form, str):
        return form == "any"
    return form is not None and form[0] in ("dict", "list") and (isinstance(form[1], str) or is_open_form(form[1]))
