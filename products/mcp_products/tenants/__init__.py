"""Tenants: whom a request is for, and what each of them may use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_runtime._lazy import lazy_members

if TYPE_CHECKING:
    from .limits import Limits as Limits
    from .tenants import Claim as Claim
    from .tenants import Header as Header
    from .tenants import TenantRequest as TenantRequest
    from .tenants import Tenants as Tenants
    from .usage import Usage as Usage

__getattr__, __dir__ = lazy_members(
    __name__, {"limits": ("Limits",), "tenants": ("Claim", "Header", "TenantRequest", "Tenants"), "usage": ("Usage",)}
)
