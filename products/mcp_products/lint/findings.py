"""What was found: a rule, a place, the hosts that mind, and the line to write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .table import LEVELS, Fact, Level, Rule, table

if TYPE_CHECKING:
    from .snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Settings:
    """What the user has chosen: hosts in full, a budget of tokens, rules that are left out."""

    hosts: frozenset[str] = frozenset()
    budget: int = 0
    ignored: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding. `place` is a path such as `tools.search.inputSchema.properties.q`; `more` are further places."""

    rule: Rule
    place: str
    message: str
    write: str
    level: Level
    facts: tuple[Fact, ...] = ()
    more: tuple[str, ...] = ()
    server: str = ""

    @property
    def hosts(self) -> frozenset[str]:
        return frozenset(fact.host for fact in self.facts)


def found(
    name: str,
    place: str,
    message: str,
    facts: tuple[Fact, ...] | None = None,
    more: tuple[str, ...] = (),
    level: Level | None = None,
    **words: object,
) -> Finding:
    """Return a finding of this rule; `words` fill the line to write. `facts` are all of the rule by default."""
    rule = table().rules[name]
    return Finding(
        rule,
        place,
        message,
        rule.write.format_map(words) if words or "{" in rule.write else rule.write,
        level or rule.level,
        rule.facts if facts is None else facts,
        more,
    )


def weighed(finding: Finding, hosts: frozenset[str]) -> Finding | None:
    """Return the finding with the level that it has for these hosts; None if none of them minds."""
    if not finding.facts:
        return finding
    facts = tuple(fact for fact in finding.facts if not hosts or fact.host in hosts)
    if not facts:
        return None
    most = min((fact.level_for(bool(hosts)) for fact in facts), key=LEVELS.index)
    # The rule, or the check, may say that it is less than the facts make it.
    level = max(most, finding.level, key=LEVELS.index)
    ordered = sorted(facts, key=lambda fact: (LEVELS.index(fact.level_for(bool(hosts))), -fact.year))
    return replace(finding, facts=tuple(ordered), level=level)


Check = Callable[["Snapshot", Settings], Iterator[Finding]]
