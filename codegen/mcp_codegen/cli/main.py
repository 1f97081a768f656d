"""The command line: `mcp-codegen --revision R`, `--all`, `--check`, and the subcommands."""

from __future__ import annotations

from typing import Any, Final

import click

from ..errors import CodegenError
from .authors import COMMANDS as _OF_AUTHORS
from .options import FOLDER, LazyGroup, report_errors, schema_option

_COMMANDS: Final = {
    "list": ".schemas:list_revisions",
    "import": ".importing:import_schema",
    "update": ".importing:update",
    "verify": ".schemas:verify",
    "extension": ".extension:extension",
    "diff": ".schemas:diff",
    "clarity": ".schemas:clarity",
    "ir": ".protocols:ir",
    "protocol": ".protocols:protocol",
    "plugin": ".protocols:plugin",
    "explore": ".schemas:explore",
    "official": ".protocols:official",
    "tools": ".servers:tools",
    "generate-cli": ".servers:generate_cli",
    "lock": ".servers:lock",
    "check": ".servers:check",
    "quickstart": ".protocols:quickstart",
    "vectors": ".testkit:vectors",
    "mock": ".testkit:mock",
    "record": ".testkit:record",
    "replay": ".testkit:replay",
}


@click.group(
    cls=LazyGroup,
    table=_COMMANDS,
    passed=_OF_AUTHORS,
    notes=("Commands for a server of your own, such as run, call, lint and install: mcp-generated --help",),
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option("--revision", "revisions", multiple=True, metavar="R", help="Generate this revision. May be repeated.")
@click.option("--all", "all_revisions", is_flag=True, help="Generate every revision in the folder of schemas.")
@click.option(
    "--output",
    type=FOLDER,
    metavar="DIR",
    help="The package to write. Default: ./mcp_bindings; generated/mcp_generated in a checkout of mcp-codegen.",
)
@click.option("--templates", "overrides", type=FOLDER, metavar="DIR", help="Templates that override the built-in ones.")
@click.option("--standalone", is_flag=True, help="Generate a package that includes the runtime.")
@click.option("--check", is_flag=True, help="Write nothing; show the changes. Exit code 1 if there are any.")
@schema_option
@click.version_option(package_name="mcp-generated")
@click.pass_context
@report_errors
def main(context: click.Context, /, *, revisions: tuple[str, ...], all_revisions: bool, **settings: Any) -> None:
    """Typed Python bindings of the Model Context Protocol, generated from its schema.

    \b
    mcp-codegen list                    list the revisions
    mcp-codegen --revision R            generate the bindings of one revision
    mcp-codegen --all --check           check that all bindings are up to date
    mcp-codegen tools --from server.py  write typed functions for a server
    """
    chosen: dict[str, object] = {"revision": revisions, "all": all_revisions, **settings}
    passed = [_option(name) for name, value in chosen.items() if value]
    if context.invoked_subcommand is not None:
        if passed:
            raise CodegenError(
                f"{', '.join(passed)}: only for generating bindings, not before the command "
                f"{context.invoked_subcommand!r}; options of a command come after its name"
            )
        return
    if not revisions and not all_revisions:
        if passed:
            raise CodegenError(f"{', '.join(passed)}: nothing was chosen to generate; add --revision R or --all")
        click.echo(context.get_help())
        return
    if revisions and all_revisions:
        raise CodegenError("--revision and --all exclude each other; pass one of them")
    from .generation import Settings, write_bindings  # Imports jinja2 and rich.

    write_bindings(None if all_revisions else list(dict.fromkeys(revisions)), Settings(**settings))


def _option(parameter: str) -> str:
    return "--templates" if parameter == "overrides" else f"--{parameter}"
