"""`Visibility` of FastMCP as a transform of an app."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypedDict, Unpack

from ...app.transforms.transform import Transform, TransformAdapter
from ...server.visibility import ComponentKind, Texts


class Criteria(TypedDict, total=False):
    """What a component must match; `App.enable` describes the keywords."""

    names: Texts | None
    tags: Texts | None
    components: Collection[ComponentKind] | None


class VisibilityKeywords(Criteria, total=False):
    """The keywords of `Visibility`; `keys` are such as "tool:name" and "resource:uri"."""

    keys: Collection[str] | None
    only: bool


class Visibility(Transform):
    """Enable or disable what matches, as `app.enable` and `app.disable` do."""

    def __init__(self, enabled: bool, **criteria: Unpack[VisibilityKeywords]) -> None:
        """Create the transform; the keywords are those of `FastMCP.enable`, which checks them."""
        self._enabled = enabled
        self._criteria = criteria

    def adapter(self, app: Any) -> TransformAdapter:
        """Add the rule to an app."""
        change = app.enable if self._enabled else app.disable
        change(**self._criteria)
        return super().adapter(app)
