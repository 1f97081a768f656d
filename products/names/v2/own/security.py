"""Which values of the variables of a resource template are refused."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mcp_products.compat.standalone.uris import INHERIT_SECURITY as INHERIT_SECURITY
from mcp_products.compat.standalone.uris import InheritSecurity as InheritSecurity
from mcp_products.compat.standalone.uris import parameter_name
from mcp_products.compat.values import contains_path_traversal, is_absolute_path
from mcp_runtime.protocol.models import is_list


@dataclass(frozen=True)
class ResourceSecurity:
    """Which values of the variables of a template are refused."""

    reject_path_traversal: bool = True
    reject_absolute_paths: bool = True
    reject_null_bytes: bool = True
    exempt_params: Collection[str] = field(default_factory=frozenset[str])

    def validate(self, params: Mapping[str, object]) -> str | None:
        """Return the name of the first parameter whose value is refused; None if there is none."""
        exempt = {parameter_name(name) for name in self.exempt_params}
        for name, value in params.items():
            items: list[Any] = value if is_list(value) else [value]
            texts = [item for item in items if isinstance(item, str)]
            if name not in exempt and any(self._refuses(text) for text in (*texts, "/".join(texts))):
                return name
        return None

    def _refuses(self, text: str) -> bool:
        return (
            (self.reject_null_bytes and "\0" in text)
            or (self.reject_path_traversal and contains_path_traversal(text))
            or (self.reject_absolute_paths and is_absolute_path(text))
        )


DEFAULT_RESOURCE_SECURITY: Final = ResourceSecurity()
