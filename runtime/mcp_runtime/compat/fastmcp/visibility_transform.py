"""`Visibility` of FastMCP as a transform of an app."""

from __future__ import annotations

from typing import Any

from ...app.transforms.transform import Transform, TransformAdapter


class Visibility(Transform):
    """Enable or disable what matches, as `app.enable` and `app.disable` do."""

    def __init__(self, enabled: bool, **criteria: Any) -> None:
        """Create the transform; the keywords are those of `FastMCP.enable`, which checks them."""
        self._enabled, self._criteria = enabled, criteria

    def adapter(self, app: Any) -> TransformAdapter:
        """Add the rule to an app."""
        change = app.enable if self._enabled else app.disable
        change(**self._criteria)
        return super().adapter(app)
