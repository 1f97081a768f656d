"""Skills: folders go in and are served, entries of a server go in and what it gives is checked against them (SEP-2640)."""

from .client import VerifiedSkill as VerifiedSkill
from .provider import SkillDirectory as SkillDirectory
