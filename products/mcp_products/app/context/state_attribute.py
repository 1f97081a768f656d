"""The attribute with the lifespan's value, whose type follows from the type parameters of a context."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, overload

from typing_extensions import TypeVar

if TYPE_CHECKING:
    from .request_views import ServerSession

FirstT = TypeVar("FirstT", default=Any)
StateT = TypeVar("StateT", default=FirstT)
# Not Any, with which the overloads of `StateAttribute` would be ambiguous.
RequestT = TypeVar("RequestT", default=object)
S = TypeVar("S")


class LifespanStateOwner(Generic[FirstT, StateT, RequestT]):
    """The base of what has a `StateAttribute`: contexts, and the views of their requests."""


class StateAttribute:
    """The attribute with the value that the lifespan yields, for type checkers.

    Its type is the first type parameter, as in 2.x and of `Context[State]`; it is the second one if the first is
    `ServerSession`, as in 1.x.
    """

    if TYPE_CHECKING:

        @overload
        def __get__(self, instance: LifespanStateOwner[ServerSession, S, Any], owner: Any = None) -> S: ...
        @overload
        def __get__(self, instance: LifespanStateOwner[S, Any, Any], owner: Any = None) -> S: ...
        def __get__(self, instance: Any, owner: Any = None) -> Any: ...

        def __set__(self, instance: Any, value: Any) -> None: ...
