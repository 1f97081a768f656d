"""The conversations of a trial between revisions: what does not work becomes a finding, which says what to write."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from ..catalog import SchemaCatalog
from ..errors import Finding
from .plan import PlanMaker
from .programs import last_line, run_program
from .remedies import AGAIN, remedy, rule_of

_PROGRAM: Final = "pairs.py"
_MAX_FINDINGS: Final = 20


def converse_in_pairs(
    schemas: SchemaCatalog, folder: Path, package: str, has_app: bool, **limits: Any
) -> Iterator[Finding]:
    """Let each revision serve clients of each other one, with a class and with the app, over each transport. Yield a
    finding for each place that does not work; the text names a conversation, and how many others fail like it.

    `limits` may name some `transports`, and the one revision that has to be in each pair, as `only`.
    """
    revisions: dict[str, Any] = {}
    for name in schemas.pins:
        plan = PlanMaker(schemas.revision(name), schemas.normalized(name)[0]).plan()
        revisions[name] = {**plan, "types": {}, "module": schemas.revision(name).module}
    whole = {"package": package, "revisions": revisions, **({"app": package} if has_app else {}), **limits}
    plan_file = folder / "pairs.json"
    plan_file.write_text(json.dumps(whole), encoding="utf-8")
    done = run_program(_PROGRAM, plan_file, folder)
    if done is None or done.returncode:
        text = f"the conversations between revisions stopped: {last_line(done)}; {AGAIN}"
        yield Finding("conversation", "pairs", text)
        return
    result = json.loads(done.stdout)
    alike: dict[str, list[dict[str, str]]] = {}
    for problem in result["problems"]:  # One rule that is missing stops many messages of many conversations.
        cause = rule_of(problem["text"]) or f"{problem['at']}: {problem['text']}"
        alike.setdefault(cause, []).append(problem)
    for problems in list(alike.values())[:_MAX_FINDINGS]:
        at, text, cell = problems[0]["at"], problems[0]["text"], problems[0]["cell"]
        cells = len({problem["cell"] for problem in problems})
        others = f" (and {cells - 1} more of {result['cells']} conversations)" if cells > 1 else ""
        yield Finding("conversation", at, f"{at} does not work for {cell}{others}: {text}; {remedy(text)}")
