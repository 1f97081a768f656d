"""Tell the types of the protocol from others, without loading them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ...protocol.wire.wire_models import WireModel

_MODULE: Final = f"{__name__.partition('.app.')[0]}.protocol.wire.wire_models"


def wire_model() -> type[WireModel] | tuple[()]:
    """Return the base class of generated types, for `isinstance`; an empty tuple as long as no type is loaded."""
    module = sys.modules.get(_MODULE)
    return () if module is None else module.WireModel
