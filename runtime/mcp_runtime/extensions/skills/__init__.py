"""The skills extension (SEP-2640): publish skills from a folder, and read and verify the skills of a server."""

from typing import TYPE_CHECKING

from ..._lazy import lazy_module

if TYPE_CHECKING:
    from .client import VerifiedSkill as VerifiedSkill
    from .entry import SkillEntry as SkillEntry
    from .provider import SkillDirectory as SkillDirectory
    from .server import SkillServerMixin as SkillServerMixin

__all__ = ["SkillDirectory", "SkillEntry", "SkillServerMixin", "VerifiedSkill"]

__getattr__, __dir__ = lazy_module(
    __name__,
    names={
        "VerifiedSkill": "client",
        "SkillEntry": "entry",
        "SkillDirectory": "provider",
        "SkillServerMixin": "server",
    },
)
