"""Authorization checks of single tools, resources and prompts: `@mcp.tool(auth=require_scopes("read"))`."""

from __future__ import annotations

from typing import Any

from ..app.middleware.authorization import AuthMiddleware, AuthorizationCheck, selected_component
from ..app.middleware.hooks import MiddlewareContext
from ..server.visibility import ComponentKind


class ComponentChecks(AuthMiddleware):
    """The checks of the components of one app, by the functions that they decorate."""

    def __init__(self) -> None:
        """Create the middleware without checks."""
        super().__init__([])
        self._checks_of: dict[tuple[str, str, str | None], list[AuthorizationCheck]] = {}

    def add(self, kind: str, name: str, version: str | None, auth: Any) -> None:
        """Add the checks of a component: a function, or a list of functions. Raises LocalError for another value."""
        self._checks_of[kind, name, version] = AuthMiddleware(auth)._checks

    async def _refusals(
        self, context: MiddlewareContext, kind: ComponentKind, name: str, item: Any
    ) -> list[AuthorizationCheck]:
        component = selected_component(context, kind, name, item)
        version, tags = (None, frozenset[str]()) if component is None else (component.version, component.tags)
        own_name = name
        if kind in ("resource", "template"):
            catalog = context.app._registry
            match = catalog.resource_at(name) or catalog.template_at(name)
            own_name = name if match is None else match[0]
        own_kind = "resource" if kind == "template" else kind
        checks = self._checks_of.get((own_kind, own_name, version), [])
        return [check for check in checks if not await self.allows(check, context, kind, name, tags)]
