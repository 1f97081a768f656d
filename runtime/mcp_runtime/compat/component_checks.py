"""Authorization checks of single tools, resources and prompts: `@mcp.tool(auth=require_scopes("read"))`."""

from __future__ import annotations

from typing import Any

from ..app.middleware.authorization import AuthMiddleware, AuthorizationCheck
from ..app.middleware.hooks import MiddlewareContext
from ..server.visibility import ComponentKind


class ComponentChecks(AuthMiddleware):
    """The checks of the components of one app, by the functions that they decorate."""

    def __init__(self) -> None:
        """Create the middleware without checks."""
        super().__init__([])
        self._checks_of: dict[tuple[str, str], list[AuthorizationCheck]] = {}

    def add(self, kind: str, name: str, auth: Any) -> None:
        """Add the checks of a component: a function, or a list of functions. Raises LocalError for another value."""
        self._checks_of[kind, name] = AuthMiddleware(auth)._checks

    async def _refusals(self, context: MiddlewareContext, kind: ComponentKind, name: str) -> list[AuthorizationCheck]:
        catalog = context.app._registry
        if kind in ("resource", "template"):
            match = catalog.resource_at(name) or catalog.template_at(name)
            name = name if match is None else match[0]
            checks = self._checks_of.get(("resource", name), [])
        else:
            checks = self._checks_of.get((kind, name), [])
        return [check for check in checks if not await self.allows(check, context, kind, name)]
