"""Sub-commands for RFC 3161 responses by themselves: `timestamp verify` and `timestamp inspect`.

Offline like `verify`: the roots are given, revocation lists are given, and the authority's certificates
are judged at the time the token states, never now.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from receiptledger.certificates import read_bounded, read_certificates, read_crls
from receiptledger.cli.options import AsJson, read_file
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
from receiptledger.core.timestamp_der import (
    INTEGER,
    OCTET_STRING,
    OID,
    SEQUENCE,
    Members,
    integer,
    object_identifier,
    parse,
)
from receiptledger.core.verdict import ExitCode
from receiptledger.trust_tsa import is_oid

if TYPE_CHECKING:
    from collections.abc import Callable

    from receiptledger.core.timestamp import Timestamp

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
            "--request", metavar="TSQ", help="The request: its nonce must be the token's."
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
    data = read_file(response, MAX_FILE_BYTES, "response")
    stamped = read_file(message, MAX_MESSAGE_BYTES, "message")
    output = Output(as_json)
    check = verify_token if token else verify_response
    try:
        asked = None if request is None else _Asked.read(request)
        nonce = None if asked is None else asked.nonce
        accepted = check(data, stamped, trust, nonce=nonce, evidence=evidence)
        if asked is not None:
            asked.check(accepted, stamped)
    except TimestampError as error:
        _refused(output, error)
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


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a request asks for. Other people's are read too, so only what is needed of it is read."""

    imprint: bytes
    policy: str | None
    nonce: int | None

    @classmethod
    def read(cls, path: Path) -> _Asked:
        """From the user's own file, so that a bad one is misuse.

        Raises:
            CliError: it is no TimeStampReq (RFC 3161 section 2.4.1).
        """
        try:
            members = Members(parse(read_file(path, MAX_FILE_BYTES, "request")), "request")
            members.take(INTEGER)
            imprint = Members(members.take(SEQUENCE), "imprint of the request")
            imprint.take(SEQUENCE)
            policy, nonce = members.optional(OID), members.optional(INTEGER)
            return cls(
                imprint=imprint.take(OCTET_STRING).content,
                policy=None if policy is None else object_identifier(policy, "policy"),
                nonce=None if nonce is None else integer(nonce, "nonce"),
            )
        except TimestampError as error:
            raise CliError(f"{path} is no RFC 3161 request: {error}") from None

    def check(self, accepted: Timestamp, message: bytes) -> None:
        """The answer is to this request (RFC 3161 section 2.4.2).

        Raises:
            TimestampError: IMPRINT or POLICY.
        """
        digest = hashlib.new(accepted.hash_algorithm, message).digest()
        if self.imprint != digest:
            raise TimestampError(
                Cause.IMPRINT,
                "the request asks for another message",
                want=digest.hex(),
                got=self.imprint[:64].hex(),
            )
        if self.policy is not None and self.policy != accepted.policy:
            raise TimestampError(
                Cause.POLICY,
                "issued under another policy than asked for",
                want=self.policy,
                got=accepted.policy,
            )


def _refused(output: Output, error: TimestampError) -> None:
    if output.as_json:
        output.document({"result": "refused", "cause": error.cause.value, "detail": str(error)})
        return
    output.text(f"refused: {error.cause.value}", "bold red")
    output.text(str(error))


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
