"""The skills extension (SEP-2640): publish skills from a folder, and read and verify the skills of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_runtime._lazy import lazy_members

if TYPE_CHECKING:
    from .client import VerifiedSkill as VerifiedSkill
    from .directory import SkillDirectory as SkillDirectory
    from .entry import SkillEntry as SkillEntry
    from .server import SkillServerMixin as SkillServerMixin

__getattr__, __dir__ = lazy_members(
    __name__,
    {
        "client": ("VerifiedSkill",),
        "directory": ("SkillDirectory",),
        "entry": ("SkillEntry",),
        "server": ("SkillServerMixin",),
    },
)
