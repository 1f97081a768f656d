"""`mcp-codegen ir`: what templates see of a revision, as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ..errors import CodegenError
from .options import open_schemas, report_errors, schema_option


@click.command("ir")
@click.option("--revision", metavar="R", help="The revision to show.")
@click.option("--json-schema", is_flag=True, help="Show the JSON Schema of the output instead.")
@schema_option
@report_errors
def ir(revision: str | None, json_schema: bool, schema: Path | None) -> None:
    """Show what templates see of a revision, as JSON."""
    from ..render import ir_json as intermediate  # Loads datamodel-code-generator.

    if (revision is None) != json_schema:
        raise CodegenError("say either --revision R or --json-schema")
    shown = intermediate.schema() if revision is None else intermediate.dump(open_schemas(schema).revision(revision))
    click.echo(json.dumps(shown, indent=2, ensure_ascii=False))
