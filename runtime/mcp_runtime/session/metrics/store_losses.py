"""How often the store of the workers has lost what it had."""

from __future__ import annotations

from functools import cache
from typing import Final

from opentelemetry.metrics import Counter, get_meter

from ..spans import NAME

_NAME: Final = f"{NAME}.store.losses"


def count_loss() -> None:
    """Count a loss that this process has noticed."""
    _counter().add(1)


@cache
def _counter() -> Counter:
    return get_meter(NAME).create_counter(
        _NAME, unit="{loss}", description="Losses of the past of the store that the process has noticed."
    )
