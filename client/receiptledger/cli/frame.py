"""The frame of every command: how each error becomes one line and an exit code.

Exit codes: 0 done or valid; 1 invalid evidence or a refused receipt; 2 misused, unreadable, or the ledger
cannot answer; 3 valid but below the asked policy; 130 interrupted.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from receiptledger import __version__
from receiptledger.cli.output import CliError, complain
from receiptledger.core.errors import EvidenceError, LedgerError, ReceiptError
from receiptledger.core.verdict import ExitCode
from receiptledger.signer import KeyFileError
from receiptledger.trust import TrustError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

__all__ = ["new_app"]

INTERRUPTED = 130  # 128 + SIGINT
# Typer may carry its own copy of click: find the class of its usage errors through its own.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


class _Group(TyperGroup):
    """Ends every way in an exit code, also under a test runner."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        try:
            code = super().main(
                args=args,
                prog_name=prog_name or "receiptledger",
                complete_var=complete_var,
                standalone_mode=False,
                windows_expand_args=windows_expand_args,
                **extra,
            )
        except Exception as error:
            code = _code(error)
            if code is None:
                raise
        if standalone_mode:
            sys.exit(code or 0)
        return code


def _code(error: Exception) -> int | None:
    """Say what is wrong; the exit code, or None for a fault of our own."""
    if isinstance(error, typer.Abort):
        return INTERRUPTED
    if isinstance(error, _UsageError):
        message = error.format_message()  # type: ignore[attr-defined]
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(message, err=True)
        else:
            end = "" if message.endswith((".", "?")) else "."
            complain(f"{message}{end} See `{_path(error)} --help`")
        return int(ExitCode.UNREADABLE)
    if isinstance(error, (CliError, KeyFileError, TrustError)):
        complain(str(error))
        return int(ExitCode.UNREADABLE)
    if isinstance(error, LedgerError):
        complain(str(error))
        bad = isinstance(error, (EvidenceError, ReceiptError))
        return int(ExitCode.INVALID if bad else ExitCode.UNREADABLE)
    return None


def _path(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    return "receiptledger" if context is None else str(context.command_path)


def new_app(commands: Iterable[Callable[..., None]]) -> typer.Typer:
    """An app of these commands that ends every way in an exit code."""
    app = typer.Typer(
        name="receiptledger",
        cls=_Group,
        help="Records what AI agents did, fetches proofs, and verifies them offline.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    for command in commands:
        app.command()(command)
    app.callback(invoke_without_command=True)(_global)
    return app


def _global(
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit
