"""The model preferences of a request and the names of models go in; the name that suits best comes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def choose_model(preferences: Any, models: Sequence[str]) -> str:
    """The first of the models whose name holds the first hint that fits any; the first model where none does.

    Raises ValueError where there are no models.
    """
    if not models:
        raise ValueError("there is no model to choose")
    for hint in getattr(preferences, "hints", None) or ():
        wanted = (hint.name or "").lower()
        for model in models:
            if wanted and wanted in model.lower():
                return model
    return models[0]
