"""The console script: finds the verb, runs it, and turns every way to end into an exit code.

A verb is a module of this folder with a function `main`, whose annotations are its options, whose
docstring is its help, and which returns the exit code. It is imported only when it is called, so that
one verb never waits for what another needs.
"""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from mlxdiag import __version__
from mlxdiag.cli.streams import complain, flush, unbreakable_output
from mlxdiag.errors import CLEAN, USAGE, MlxdiagError

VERBS = {
    "record": "Run an unmodified program under the probe: what it really did, as a trace.",
    "import": "Turn a foreign log, a traceback or a token stream into a trace.",
    "inspect": "Judge traces: which call broke which rule, and what that breaks.",
    "replay": "Drive the schedule of a trace through real model code, and compare.",
    "audit-models": "Every model family of the library on every scheduling path: which are wrong, and why.",
    "merge": "Join the shards of an audit.",
    "shrink": "The smallest trace with the same fault: the same rule, for the same causes.",
    "report": "One self-contained page over a trace, an audit or a bundle.",
    "diff": "The first step and field where two traces part.",
    "bundle": "The bug report: the evidence as one zip, without anything private.",
    "verify": "Whether a bundle is whole, and holds nothing private.",
    "rule": "What a rule means, with traces that fire it and neighbours that do not.",
    "schema": "The JSON Schema of the trace file.",
    "doctor": "What is installed, which devices really compute, and what to install.",
}

MODULES = {"import": "import_", "audit-models": "audit_models"}
"""Verbs that are no names of Python modules."""

INTERRUPTED = 130
INTERNAL = 70
"""sysexits' EX_SOFTWARE: a fault of mlxdiag itself, apart from every verdict."""

# typer exports only the leaf; the parent is what an unknown option or a missing argument raises.
WrongUsage: Any = typer.BadParameter.__base__


class Verbs(TyperGroup):
    """Lists the verbs from a table and imports one only to run it or to show its own help."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        names: Any = dict.fromkeys(VERBS)
        self.commands = names  # only the names are read, for "did you mean"

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in VERBS:
            return None
        verb = typer.Typer(add_completion=False, rich_markup_mode=None, context_settings=HELP_OPTIONS)
        gc.disable()  # nothing that an import makes is garbage, and looking costs a tenth of the start
        module = import_module(f"mlxdiag.cli.{MODULES.get(cmd_name, cmd_name)}")
        gc.enable()
        verb.command(cmd_name, short_help=VERBS[cmd_name])(module.main)
        return typer.main.get_command(verb)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(
    cls=Verbs,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    context_settings=HELP_OPTIONS,
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"mlxdiag {__version__}")
        raise typer.Exit


@app.callback(epilog="Exit codes: 0 clean, 1 findings, 2 usage, 3 cannot be read, 4 could not judge.")
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Flight recorder and test bench for LLM attention masks and KV caches."""


def run(args: list[str] | None = None) -> None:
    """Run the command line and exit: see `errors.py` for the codes, which no format changes."""
    code = INTERNAL
    unbreakable_output()
    try:
        code = _invoke(sys.argv[1:] if args is None else args)
    except KeyboardInterrupt:
        complain("interrupted")
        code = INTERRUPTED
    except Exception as error:
        # The last resort: nobody is shown a traceback unasked.
        if os.environ.get("MLXDIAG_DEBUG"):
            raise
        complain(f"internal error: {type(error).__name__}: {error}")
        complain("a fault of mlxdiag itself: MLXDIAG_DEBUG=1 shows where; please report that with the trace")
    flush()
    sys.exit(code)


def _invoke(args: list[str]) -> int:
    command = typer.main.get_command(app)
    try:
        return command.main(args, prog_name="mlxdiag", standalone_mode=False) or 0
    except MlxdiagError as error:
        complain(f"error: {error}")
        return error.exit_code
    except SystemExit as stop:
        # typer ends so when nobody reads the help text any more; that is no finding.
        if isinstance(stop.__context__, BrokenPipeError):
            return CLEAN
        raise
    except WrongUsage as error:
        return _explain_usage(error)


def _explain_usage(error: Any) -> int:
    """One line that says what was wrong and one that says where to look; the bare command shows its help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        sys.stderr.write(error.ctx.get_help() + "\n")
        return USAGE
    complain(f"error: {error.format_message()}")
    path = error.ctx.command_path if error.ctx else "mlxdiag"
    complain(f"try '{path} --help'")
    return USAGE
