"""The skills extension (SEP-2640): publish skills from a folder, and read and verify the skills of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_runtime._lazy import lazy_module

if TYPE_CHECKING:
    from .client import VerifiedSkill as VerifiedSkill
    from .directory import SkillDirectory as SkillDirectory
    from .entry import SkillEntry as SkillEntry
    from .server import SkillServerMixin as SkillServerMixin

__all__ = ["SkillDirectory", "SkillEntry", "SkillServerMixin", "VerifiedSkill"]

__getattr__, __dir__ = lazy_module(
    __name__,
    names={
        "VerifiedSkill": "client",
        "SkillEntry": "entry",
        "SkillDirectory": "directory",
        "SkillServerMixin": "server",
    },
)
