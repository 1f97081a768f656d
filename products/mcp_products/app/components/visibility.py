"""Visibility: rules that enable and disable tools, resources and prompts, for all clients or for one session."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, Protocol

from mcp_runtime.errors import LocalError
from mcp_runtime.protocol.uris import uri_key_with_fragment
from mcp_runtime.session.interfaces import Channel

from .kinds import KINDS, LISTS, ComponentKind

Texts = Collection[str]

_CRITERIA: Final = ("names", "tags", "kinds")
_MAX_USERS: Final = 10_000  # Users of a stateless endpoint whose rules are stored; the oldest are dropped.


class VisibilityRule(NamedTuple):
    """A rule for all components that match all of its criteria; None matches any."""

    enabled: bool
    names: frozenset[str] | None
    tags: frozenset[str] | None
    kinds: frozenset[str] | None

    def matches(self, kind: ComponentKind, names: Iterable[str | None], tags: Iterable[str]) -> bool:
        """Return True if a component has one of the names, one of the tags, and one of the kinds of this rule."""
        return (
            (self.kinds is None or kind in self.kinds)
            and (self.names is None or not self.names.isdisjoint(names) or self._has_uri(kind, names))
            and (self.tags is None or not self.tags.isdisjoint(tags))
        )

    def _has_uri(self, kind: ComponentKind, names: Iterable[str | None]) -> bool:
        """Return True if one of the names is a URI that the rule has in another spelling."""
        keys = _uri_keys(self.names) if self.names and not KINDS[kind].is_named else ()
        return bool(keys) and any(name is not None and uri_key_with_fragment(name) in keys for name in names)

    @property
    def lists(self) -> list[str]:
        """The lists that this rule can change: "tools", "resources" and "prompts"."""
        return list(
            dict.fromkeys(kind.list for kind in KINDS.values() if self.kinds is None or kind.name in self.kinds)
        )


@lru_cache(maxsize=256)
def _uri_keys(names: frozenset[str]) -> frozenset[str]:
    return frozenset([uri_key_with_fragment(name) for name in names if ":" in name])


def visibility_rule(
    method: str,
    enabled: bool,
    names: Texts | None,
    tags: Texts | None,
    components: Collection[ComponentKind] | None,
    match_all: bool = False,
) -> VisibilityRule:
    """Return a rule. Raises LocalError without criteria and for an unknown kind, TypeError for a string as a set."""
    if not match_all and names is None and tags is None and components is None:
        raise LocalError(f'{method}() needs names=, tags= or components=: write {method}(tags={{"admin"}})')
    criteria = [
        None if texts is None else text_set(f"{method}()", keyword, texts)
        for keyword, texts in (("names", names), ("tags", tags), ("components", components))
    ]
    unknown = (criteria[2] or frozenset()) - KINDS.keys()
    if unknown:
        raise LocalError(
            f"{method}(): components={sorted(unknown)!r} is unknown; use 'tool', 'resource', 'template' or 'prompt'"
        )
    return VisibilityRule(enabled, *criteria)


def text_set(owner: str, keyword: str, texts: object) -> frozenset[str]:
    """Return the strings of a collection as a set. Raises TypeError for one string, and for what is not a string."""
    if isinstance(texts, (str, bytes)) or not isinstance(texts, Collection):
        raise TypeError(f'{owner}: {keyword}={texts!r} must be a set of strings, such as {keyword}={{"admin"}}')
    items: list[Any] = list(texts)  # pyright: ignore[reportUnknownArgumentType]
    if wrong := [item for item in items if not isinstance(item, str) or not item]:
        raise TypeError(f"{owner}: {keyword}= has {wrong[0]!r}, which is not a string with characters")
    return frozenset(items)


def with_rule(rules: Sequence[VisibilityRule], rule: VisibilityRule) -> list[VisibilityRule]:
    """Return the rules with one more, which overrides earlier ones; rules with the same criteria are dropped."""
    criteria = (rule.names, rule.tags, rule.kinds)
    return [*(other for other in rules if (other.names, other.tags, other.kinds) != criteria), rule]


def is_enabled(
    rules: Sequence[VisibilityRule],
    kind: ComponentKind,
    names: Sequence[str | None],
    tags: Iterable[str],
    default: bool = True,
) -> bool:
    """Return what the last rule that matches a component says; `default` if none does."""
    return next((rule.enabled for rule in reversed(rules) if rule.matches(kind, names, tags)), default)


class SessionVisibility:
    """The rules of sessions: of one session, or of the users of an endpoint without sessions."""

    __slots__ = ("_rules",)

    def __init__(self) -> None:
        self._rules: dict[str, list[VisibilityRule]] = {}

    def rules(self, session: str) -> Sequence[VisibilityRule]:
        """Return the rules of a session."""
        return self._rules.get(session, ())

    def add(self, session: str, rule: VisibilityRule) -> None:
        """Add a rule, which overrides earlier ones."""
        rules = with_rule(self._rules.pop(session, ()), rule)
        self._rules[session] = rules
        while len(self._rules) > _MAX_USERS:
            del self._rules[next(iter(self._rules))]

    def clear(self, session: str) -> None:
        """Remove the rules of a session."""
        self._rules.pop(session, None)

    def export(self) -> list[Any]:
        """Return the rules of the one session as JSON, for another worker."""
        return [_rule_fields(rule) for rule in self.rules("")]

    def restore(self, state: list[Any]) -> None:
        """Set the rules of the one session."""
        for fields in state:
            self.add("", _rule(fields))


def _rule_fields(rule: VisibilityRule) -> list[Any]:
    sets = [getattr(rule, name) for name in _CRITERIA]
    return [rule.enabled, *(None if item is None else sorted(item) for item in sets)]


def _rule(fields: Sequence[Any]) -> VisibilityRule:
    return VisibilityRule(fields[0], *(None if item is None else frozenset(item) for item in fields[1:]))


class SessionOwner(Protocol):
    """The state of a client's connection: one session, or all clients of an endpoint without sessions."""

    visibility: SessionVisibility | None

    @property
    def is_stateless(self) -> bool: ...

    @property
    def is_shared(self) -> bool: ...

    async def notify_lists_changed(self, lists: Iterable[str]) -> None: ...


class VisibilityControl:
    """The part of a server's context that enables and disables tools, resources and prompts for one session.

    A session is the connection over stdio and the session of an `initialize` request over HTTP. A stateless endpoint
    has no sessions: there the rules are those of the authenticated user, in this process.
    """

    connection_state: Any
    channel: Channel

    async def enable_components(
        self,
        *,
        names: Texts | None = None,
        tags: Texts | None = None,
        components: Collection[ComponentKind] | None = None,
        match_all: bool = False,
    ) -> None:
        """Enable what matches all criteria for this session, also what `app.disable` has disabled.

        The client is notified that its lists have changed.

        Args:
            names: Names of tools and prompts, names or URIs of resources.
            tags: Tags, of which a component has at least one.
            components: Kinds: "tool", "resource", "template" or "prompt".
            match_all: True matches everything.

        Raises LocalError without criteria, and for an anonymous client of a stateless endpoint.
        """
        await self._change(visibility_rule("enable_components", True, names, tags, components, match_all))

    async def disable_components(
        self,
        *,
        names: Texts | None = None,
        tags: Texts | None = None,
        components: Collection[ComponentKind] | None = None,
        match_all: bool = False,
    ) -> None:
        """Disable what matches all criteria for this session: it is neither listed nor callable.

        The client is notified that its lists have changed.

        Args:
            names: Names of tools and prompts, names or URIs of resources.
            tags: Tags, of which a component has at least one.
            components: Kinds: "tool", "resource", "template" or "prompt".
            match_all: True matches everything.

        Raises LocalError without criteria, and for an anonymous client of a stateless endpoint.
        """
        await self._change(visibility_rule("disable_components", False, names, tags, components, match_all))

    async def reset_visibility(self) -> None:
        """Remove all rules of this session; what `app.enable` and `app.disable` say remains. Notifies the client."""
        owner: SessionOwner = self.connection_state
        session = self._visibility_session("reset_visibility")
        if owner.visibility is not None:
            owner.visibility.clear(session)
        await owner.notify_lists_changed(LISTS)

    async def _change(self, rule: VisibilityRule) -> None:
        owner: SessionOwner = self.connection_state
        session = self._visibility_session("enable_components" if rule.enabled else "disable_components")
        owner.visibility = owner.visibility or SessionVisibility()
        owner.visibility.add(session, rule)
        await owner.notify_lists_changed(rule.lists)

    def _visibility_session(self, method: str) -> str:
        """Return the key of the session. Raises LocalError if the request belongs to none."""
        session = session_key(self.connection_state, self.channel)
        if session is None and not self.connection_state.is_stateless:
            raise LocalError(
                f"{method}(): with stateless_http, a request of this protocol version belongs to no session: leave "
                "stateless_http out, or use app.enable() and app.disable()"
            )
        if session is None:
            raise LocalError(
                f"{method}(): a stateless endpoint has no session for an anonymous client: protect it with OAuth, or "
                "use app.enable() and app.disable()"
            )
        return session


def session_key(owner: SessionOwner, channel: Channel) -> str | None:
    """Return the key of the rules of a request's session; None if the request belongs to none."""
    auth = channel.auth
    if auth is None or not owner.is_shared:
        return ""
    # With `stateless_http`, the state of a version with a handshake lasts for one request.
    return auth.user.key if auth.user is not None and owner.is_stateless else None


def session_rules(owner: SessionOwner, channel: Channel) -> Sequence[VisibilityRule]:
    """Return the rules of a request's session."""
    session = None if owner.visibility is None else session_key(owner, channel)
    return () if session is None or owner.visibility is None else owner.visibility.rules(session)
