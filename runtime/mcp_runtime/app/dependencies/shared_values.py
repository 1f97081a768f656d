"""Dependencies whose values all calls share: computed once, cleaned up when the app's lifespan ends."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

from ...aio.lifespan import SharedLifespan
from ...errors import LocalError
from ...server.context import ServerContext
from ...usage.signatures import signature_of
from .markers import Depends
from .resolution import enter_function

SHARED_VALUES: Final = "shared values"
"""The key of the shared values in what the lifespan of an app's server yields."""


class SharedValues:
    """The values of shared dependencies in one lifespan, by function."""

    def __init__(self) -> None:
        self._lifespans: dict[Callable[..., Any], SharedLifespan] = {}

    async def get(self, function: Callable[..., Any]) -> Any:
        """Return the value of a function; call it if it has none yet. A call that fails is repeated by the next one."""
        lifespan = self._lifespans.get(function)
        if lifespan is None:
            lifespan = self._lifespans[function] = SharedLifespan(lambda: _entered(function))
        try:
            return await lifespan.state()
        except Exception:
            self._lifespans.pop(function, None)
            raise

    async def close(self) -> None:
        """Clean up, the newest value first."""
        while self._lifespans:
            _, lifespan = self._lifespans.popitem()
            await lifespan.end()


def Shared(function: Callable[..., Any], /) -> Any:
    """Declare that a function computes the value of a parameter once for all calls, such as a pool of connections.

    The function is called at the first use. The clean-up of a generator or a context manager runs when the app ends.

    Args:
        function: A function without parameters: a `def`, an `async def`, a generator or a context manager.

    Raises LocalError if `function` is not callable, or if it has a parameter without a default.
    """
    if not callable(function):
        raise LocalError(f"Shared({function!r}): the argument is not callable; pass a function, not its result")
    for parameter in signature_of(function, hints=False).parameters.values():
        variadic = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if parameter.default is parameter.empty and not variadic:
            raise LocalError(
                f"Shared(): the parameter {parameter.name!r} of the function has no value, because no single call has"
                " one for all: give it a default, or write Depends(…)"
            )

    async def value(ctx: ServerContext) -> Any:
        states = ctx.connection_state.state
        if SHARED_VALUES not in states:
            states[SHARED_VALUES] = SharedValues()
        return await states[SHARED_VALUES].get(function)

    return Depends(value)


@asynccontextmanager
async def _entered(function: Callable[..., Any]) -> AsyncGenerator[Any]:
    async with AsyncExitStack() as stack:
        yield await enter_function(function, stack)
