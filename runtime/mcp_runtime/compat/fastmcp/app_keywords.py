"""Keywords of methods of FastMCP that `App` has under other names."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

from ...errors import LocalError
from ...usage.rules import shown

if TYPE_CHECKING:
    from .visibility_transform import Criteria

_KINDS: Final = ("tool", "resource", "template", "prompt")


class FastMCPKeywords:
    """The part of a server with the methods of FastMCP whose keywords differ."""

    @property
    def local_provider(self) -> Any:
        """The provider of what the server itself has: the server."""
        return self

    def mount(self, app: Any = None, prefix: str = "", *, namespace: str | None = None, server: Any = None) -> None:
        """Add all that another server has, as `App.mount` does; FastMCP names the parameters `server`, `namespace`.

        Raises TypeError for both names of one parameter.
        """
        if server is not None and app is not None:
            raise TypeError("mount() got app and server, which are the same: write mount(server, …)")
        if namespace is not None and prefix:
            raise TypeError("mount() got prefix and namespace, which are the same: write namespace=…")
        parent: Any = super()
        parent.mount(server if app is None else app, namespace or prefix)

    def enable(self, *, keys: Collection[str] | None = None, only: bool = False, **criteria: Unpack[Criteria]) -> Self:
        """Enable what matches; `keys` are such as "tool:name" and "resource:uri"."""
        return self._change("enable", keys, {**criteria, "only": only} if only else {**criteria})

    def disable(self, *, keys: Collection[str] | None = None, **criteria: Unpack[Criteria]) -> Self:
        """Disable what matches; `keys` are such as "tool:name" and "resource:uri"."""
        return self._change("disable", keys, {**criteria})

    def _change(self, method: str, keys: Collection[str] | None, criteria: dict[str, Any]) -> Self:
        parent: Any = super()
        change = getattr(parent, method)
        if keys is None:
            change(**criteria)
            return self
        if isinstance(keys, str) or criteria.keys() - {"only"}:
            raise TypeError(f'{method}(): keys={shown(keys)} is a set of its own, such as keys={{"tool:erase"}}')
        for key in keys:
            kind, _, name = key.partition(":")
            if kind not in _KINDS or not name:
                raise LocalError(f"{method}(): the key {key!r} is none: write 'tool:name' or 'resource:uri'")
            change(names={name.removesuffix("@")}, components={kind}, **criteria)
            criteria = {}  # Those after the first one are enabled as well.
        return self


def with_host_protection(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """Return keywords of HTTP applications: `allowed_hosts` and `allowed_origins` of FastMCP as `hosts` and `origins`.

    The headers are checked unless `host_origin_protection` is False.
    """
    settings = dict(keywords)
    is_checked = settings.pop("host_origin_protection", None)
    for theirs, ours in (("allowed_hosts", "hosts"), ("allowed_origins", "origins")):
        if theirs in settings:
            settings[ours] = settings.pop(theirs)
    if is_checked is False:
        settings |= {"hosts": ["*"], "origins": ["*"]}
    return settings
