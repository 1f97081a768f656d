"""No normalized schema, whatever is wrong in it, is a traceback: it is derived and converted, or refused shortly.

MCP_SCHEMA_MUTATIONS is the number of changed schemas. The seeds that have once been tracebacks are always among them.
"""

from __future__ import annotations

import json
import os

import pytest
from support.project import ROOT
from support.schemas.tree_mutations import changed_tree

from mcp_codegen.catalog import Candidate, SchemaCatalog
from mcp_codegen.conversion.derive import derive_step
from mcp_codegen.errors import CodegenError
from mcp_codegen.paths import Pins

SCHEMAS = SchemaCatalog(ROOT / "schema")
RELEASES = list(SCHEMAS.pins)
COUNT = int(os.environ.get("MCP_SCHEMA_MUTATIONS", "100"))
SEEDS = (1503, 6000, 10244, *range(COUNT))


@pytest.mark.long
def test_no_change_of_a_schema_is_a_traceback_or_a_long_refusal() -> None:
    texts = [json.dumps(SCHEMAS.normalized(release)[0]) for release in RELEASES]
    newest, conversions = SCHEMAS.revision(RELEASES[-1]), SCHEMAS.conversions
    derived = 0
    for seed in SEEDS:
        release = RELEASES[seed % len(RELEASES)]
        changed = json.dumps(changed_tree(json.loads(texts[seed % len(texts)]), seed))
        candidate = Candidate(Pins("one", RELEASES[-1], "test", "0", {}, release), changed)
        try:
            revision = SchemaCatalog(ROOT / "schema", candidate).revision("one")
            derive_step(newest, revision, conversions)
            derive_step(revision, newest, conversions)
            derived += 1
        except CodegenError as error:
            assert len(str(error)) <= 500 and "\n" not in str(error), (seed, str(error))
        except Exception as error:
            raise AssertionError(f"the schema of the seed {seed}") from error
    assert derived > 0
