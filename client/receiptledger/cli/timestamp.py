"""Sub-commands for RFC 3161 responses by themselves: `timestamp verify` and `timestamp inspect`.

Offline like `verify`: the roots are given, revocation lists are given, and the authority's certificates
are judged at the time the token states, never now.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from receiptledger.certificates import read_bounded, read_certificates, read_crls
from receiptledger.cli.options import AsJson, one_stdin, read_file
from receiptledger.cli.output import CliError, Output
from receiptledger.core.instants import format_instant
from receiptledger.core.timestamp import (
    Cause,
    RevocationEvidence,
    TimestampError,
    TsaTrust,
    describe_response,
    verify_response,
    verify_token,
)
from receiptledger.core.timestamp_request import parse_request
from receiptledger.core.verdict import ExitCode
from receiptledger.trust_tsa import is_oid

if TYPE_CHECKING:
    from collections.abc import Callable

    from receiptledger.core.timestamp import Timestamp
    from receiptledger.core.timestamp_request import TimestampRequest

__all__ = ["timestamp"]

MAX_FILE_BYTES = 16 * 1024 * 1024  # far beyond what any verifier accepts, so that it can say so
MAX_MESSAGE_BYTES = 256 * 1024 * 1024  # is hashed as a whole, in memory
NAME = "command-line"

timestamp = typer.Typer(
    name="timestamp",
    help="Verify or show an RFC 3161 timestamp response.",
    no_args_is_help=True,
)

_Response = Annotated[
    Path, typer.Argument(metavar="RESPONSE", help="RFC 3161 response in DER; - for stdin.")
]
_Token = Annotated[
    bool, typer.Option("--token", help="The file is a bare token, without the response around it.")
]


@timestamp.command("verify")
def verify(
    response: _Response,
    message: Annotated[
        Path, typer.Option("--message", metavar="FILE", help="What was stamped, byte for byte.")
    ],
    root: Annotated[
        list[Path],
        typer.Option("--root", metavar="PEM", help="Root certificates to trust. Repeatable."),
    ],
    request: Annotated[
        Path | None,
        typer.Option(
            "--request",
            metavar="TSQ",
            help="The request: its hash, its nonce and its policy must be the token's.",
        ),
    ] = None,
    intermediate: Annotated[
        list[Path] | None,
        typer.Option(
            "--intermediate",
            metavar="PEM",
            help="Certificates that the response leaves out. Repeatable.",
        ),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option("--policy", metavar="OID", help="Accept this policy; else any. Repeatable."),
    ] = None,
    crl: Annotated[
        list[Path] | None,
        typer.Option("--crl", metavar="FILE", help="Revocation list, PEM or DER. Repeatable."),
    ] = None,
    token: _Token = False,
    as_json: AsJson = False,
) -> None:
    """Verify a timestamp offline. Exit 0 accepted, 1 refused with its cause, 2 misused."""
    for oid in policy or ():
        if not is_oid(oid):
            raise CliError(f"--policy expects an object identifier like 1.2.3.4, got {oid[:80]!r}")
    trust = TsaTrust(
        name=NAME,
        authority=NAME,
        roots=_all(root, "--root", read_certificates),
        intermediates=_all(intermediate or [], "--intermediate", read_certificates),
        policies=frozenset(policy or ()),
    )
    evidence = RevocationEvidence(crls=_all(crl or [], "--crl", read_crls))
    one_stdin({"RESPONSE": response, "--message": message, "--request": request})
    data = read_file(response, MAX_FILE_BYTES, "response")
    stamped = read_file(message, MAX_MESSAGE_BYTES, "message")
    output = Output(as_json)
    check = verify_token if token else verify_response
    asked = None if request is None else _asked(request)
    nonce = None if asked is None else asked.nonce
    try:
        accepted = check(data, stamped, trust, nonce=nonce, evidence=evidence)
        if asked is not None:
            _check_asked(asked, accepted, stamped)
    except TimestampError as error:
        _refused(output, error, _hint(data, token=token))
        raise typer.Exit(ExitCode.INVALID) from None
    _accepted(output, accepted, nonce)


@timestamp.command("inspect")
def inspect(response: _Response, as_json: AsJson = False) -> None:
    """Show what a response says, without verifying any of it."""
    data = read_file(response, MAX_FILE_BYTES, "response")
    try:
        value = describe_response(data)
    except TimestampError as error:
        raise CliError(f"{response} is no RFC 3161 response that can be read: {error}") from None
    output = Output(as_json)
    if as_json:
        output.document({"verified": False, **value})
        return
    output.tree(value)
    output.text()
    output.text(
        "Nothing here was verified: this is only what the file says. Use "
        "`receiptledger timestamp verify`.",
        "yellow",
    )


def _all(
    paths: list[Path], option: str, read: Callable[[bytes], tuple[bytes, ...]]
) -> tuple[bytes, ...]:
    found: list[bytes] = []
    for path in paths:
        try:
            found += read(read_bounded(path))
        except ValueError as error:
            raise CliError(f"{option} {path}: {error}") from None
    return tuple(found)


def _asked(path: Path) -> TimestampRequest:
    """A request as strictly as the ledger's own: what is not understood of it cannot be checked.

    Raises:
        CliError: it is no TimeStampReq (RFC 3161 section 2.4.1) of the one form that is read. The file
            is the user's own, so that a bad one is misuse.
    """
    try:
        return parse_request(read_file(path, MAX_FILE_BYTES, "request"))
    except TimestampError as error:
        raise CliError(
            f"{path} is no RFC 3161 request that can be held against it: {error}"
        ) from None


def _check_asked(asked: TimestampRequest, accepted: Timestamp, message: bytes) -> None:
    """The answer is to this request (RFC 3161 section 2.4.2); its nonce was compared before.

    Raises:
        TimestampError: IMPRINT or POLICY.
    """
    if asked.hash_algorithm != accepted.hash_algorithm:
        raise TimestampError(
            Cause.IMPRINT,
            "the imprint is of another hash than asked for",
            want=asked.hash_algorithm,
            got=accepted.hash_algorithm,
        )
    digest = hashlib.new(accepted.hash_algorithm, message).digest()
    if asked.imprint != digest:
        raise TimestampError(
            Cause.IMPRINT,
            "the request asks for another message",
            want=digest.hex(),
            got=asked.imprint.hex(),
        )
    if asked.policy is not None and asked.policy != accepted.policy:
        raise TimestampError(
            Cause.POLICY,
            "issued under another policy than asked for",
            want=asked.policy,
            got=accepted.policy,
        )


def _hint(data: bytes, *, token: bool) -> str | None:
    """What to do about a file of the other kind than was said."""
    try:
        kind = describe_response(data)["kind"]
    except TimestampError:
        return None
    if kind == "token" and not token:
        return "the file is a bare token, without the response around it: add --token"
    if kind != "token" and token:
        return "the file is a response and no bare token: leave out --token"
    return None


def _refused(output: Output, error: TimestampError, hint: str | None) -> None:
    detail = str(error) if hint is None else f"{error}; {hint}"
    if output.as_json:
        output.document({"result": "refused", "cause": error.cause.value, "detail": detail})
        return
    output.text(f"refused: {error.cause.value}", "bold red")
    output.text(detail)


def _accepted(output: Output, accepted: Timestamp, nonce: int | None) -> None:
    value: dict[str, Any] = {
        "result": "accepted",
        "gen_time": format_instant(accepted.gen_time),
        "earliest": format_instant(accepted.earliest),
        "latest": format_instant(accepted.latest),
        "accuracy_seconds": None
        if accepted.accuracy is None
        else accepted.accuracy.total_seconds(),
        "serial": str(accepted.serial),
        "policy": accepted.policy,
        "hash_algorithm": accepted.hash_algorithm,
        "nonce": None if accepted.nonce is None else str(accepted.nonce),
        "nonce_checked": nonce is not None,
        "ordering": accepted.ordering,
        "signature_algorithm": accepted.signature_algorithm,
        "key_algorithm": accepted.key_algorithm,
        "path_not_after": format_instant(accepted.path_not_after),
        "ess": list(accepted.ess),
        "revocation": accepted.revocation,
        "warnings": list(accepted.warnings),
    }
    if output.as_json:
        output.document(value)
        return
    output.text(f"accepted: {value.pop('gen_time')}", "bold green")
    value.pop("result")
    output.tree(value)
