"""A transform that restricts an app to a range of versions."""

from __future__ import annotations

from typing import Any

from ...errors import LocalError
from ...usage.rules import shown
from ..components.versions import version_key
from .transform import Transform, TransformAdapter


class VersionFilter(Transform):
    """List and serve only tools, resources and prompts whose version is in a range: the highest of them, unless a
    request names another one.

    It also holds for apps that are mounted in the app.
    """

    def __init__(
        self,
        *,
        version_gte: str | None = None,
        version_lt: str | None = None,
        include_unversioned: bool = True,
    ) -> None:
        """Create a filter. Raises LocalError without a limit, for one that is no text, and for an empty range.

        Args:
            version_gte: The lowest version.
            version_lt: The version above the highest.
            include_unversioned: False leaves out what has no version.
        """
        for name, limit in (("version_gte", version_gte), ("version_lt", version_lt)):
            if limit is not None and not _is_text(limit):
                raise LocalError(f'VersionFilter(): {name} must be a text such as "2.0"; {shown(limit)} is not')
        if version_gte is None and version_lt is None:
            raise LocalError('VersionFilter() needs a limit: write VersionFilter(version_lt="2.0") or version_gte=…')
        self._lowest = None if version_gte is None else version_key(version_gte)
        self._end = None if version_lt is None else version_key(version_lt)
        if self._lowest is not None and self._end is not None and self._lowest >= self._end:
            raise LocalError(
                f"VersionFilter(): no version is from {version_gte!r} and below {version_lt!r}: exchange the limits"
            )
        self._includes_unversioned = include_unversioned

    def accepts(self, version: str | None) -> bool:
        """Return True if a version is in the range, or something without a version is included."""
        if version is None:
            return self._includes_unversioned
        key = version_key(version)
        return (self._lowest is None or key >= self._lowest) and (self._end is None or key < self._end)

    def adapter(self, app: Any) -> TransformAdapter:
        """Add the range to the rules of an app, which select the version of a request."""
        app._registry.version_ranges.append(self)
        return super().adapter(app)


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())
