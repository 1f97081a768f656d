"""Choose a model for the model preferences of a sampling request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def choose_model(preferences: Any, models: Sequence[str]) -> str:
    """Return the first model whose name contains a hint; hints are tried in order, upper and lower case are the same.

    Return the first model if no hint matches. See
    https://modelcontextprotocol.io/specification/draft/client/sampling#model-preferences

    Args:
        preferences: The `model_preferences` of the request; None for no preferences.
        models: The names of the available models, best first.

    Raises ValueError if `models` is empty.
    """
    if not models:
        raise ValueError("there is no model to choose: pass at least one name")
    for hint in getattr(preferences, "hints", None) or ():
        name = (hint.name or "").lower()
        for model in models:
            if name and name in model.lower():
                return model
    return models[0]
