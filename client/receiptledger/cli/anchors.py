"""Sub-commands about the log's timestamps: anchors list, show, verify, now."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from receiptledger.cli.anchor_verify import verify_anchors
from receiptledger.cli.options import LEDGER_DEFAULT, AsJson, Ledger
from receiptledger.cli.output import Output
from receiptledger.core.encoding import digest_text
from receiptledger.core.errors import EvidenceError
from receiptledger.core.instants import format_instant
from receiptledger.core.timestamp import describe_response
from receiptledger.core.verdict import ExitCode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from receiptledger.transport import Channel
    from receiptledger.wire import Anchor, AnchorProof

__all__ = ["anchors_app"]

NOT_VERIFIED = "Nothing here was verified: this is what the ledger says. Use `anchors verify`."
T = TypeVar("T")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Number = Annotated[int, typer.Argument(metavar="NUMBER", min=0, help="Number of a timestamp.")]
anchors_app = typer.Typer(
    name="anchors",
    help="The timestamps of the log: list them, look at one, verify them all.",
    no_args_is_help=True,
    add_completion=False,
)


@anchors_app.command("list")
def list_anchors(
    first: Annotated[int, typer.Option("--first", min=0, help="The first number wanted.")] = 0,
    count: Annotated[int | None, typer.Option("--count", min=1, help="Stop after so many.")] = None,
    ledger: Ledger = LEDGER_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """List the timestamps the ledger says it has, oldest first; nothing is verified."""
    output = Output(as_json)

    async def ask(channel: Channel) -> int:
        number, shown = first, 0
        while count is None or shown < count:
            page, total = await channel.anchors(number)
            page = page if count is None else page[: count - shown]
            for anchor in page:
                _show_line(output, anchor)
            number, shown = number + len(page), shown + len(page)
            if not page or number >= total:
                break
        return shown

    shown = _ask(ledger, ask)
    if not as_json:
        output.text(NOT_VERIFIED if shown else "the ledger shows no timestamps", "yellow")


@anchors_app.command("show")
def show_anchor(number: Number, ledger: Ledger = LEDGER_DEFAULT, as_json: AsJson = False) -> None:
    """Show all that one timestamp says; nothing is verified."""
    value = _described(_ask(ledger, lambda channel: channel.anchor(number)))
    output = Output(as_json)
    if as_json:
        output.document(value)
        return
    output.tree(value)
    output.text()
    output.text(NOT_VERIFIED, "yellow")


@anchors_app.command("now")
def anchor_now(
    wait: Annotated[
        float, typer.Option("--wait", min=1, help="Seconds to wait for the authorities.")
    ] = 60.0,
    ledger: Ledger = LEDGER_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Have the newest checkpoint stamped now. Exit 3 when too few authorities did."""
    made = _ask(ledger, lambda channel: channel.anchor_now(wait))
    output = Output(as_json)
    if as_json:
        output.document(
            {
                "tree_size": made.tree_size,
                "quorum_reached": made.quorum_reached,
                "results": [
                    {
                        "tsa": one.tsa,
                        "cause": one.cause,
                        "gen_time": _time(one.gen_time_us),
                        "detail": one.detail,
                    }
                    for one in made.results
                ],
            }
        )
    else:
        output.text(f"checkpoint of {made.tree_size} leaves")
        for one in made.results:
            good = one.cause is None
            words = _time(one.gen_time_us) if good else f"{one.cause}: {one.detail}"
            output.styled([(f"{one.tsa:<24}", "green" if good else "red"), (f" {words}", "")])
        if not made.quorum_reached:
            output.text("too few authorities have stamped it", "yellow")
    raise typer.Exit(ExitCode.VALID if made.quorum_reached else ExitCode.BELOW_POLICY)


anchors_app.command("verify")(verify_anchors)


def _ask(ledger: str, question: Callable[[Channel], Awaitable[T]]) -> T:
    """Ask on a connection of its own."""

    async def work() -> T:
        from receiptledger.transport import Channel

        channel = Channel(ledger)
        try:
            return await question(channel)
        finally:
            await channel.close()

    return asyncio.run(work())


def _show_line(output: Output, anchor: Anchor) -> None:
    if output.as_json:
        output.line(_listed(anchor))
        return
    leaf = "not sealed" if anchor.leaf_index is None else f"leaf {anchor.leaf_index}"
    evidence = "" if anchor.evidence_hash is None else ", with revocation evidence"
    output.text(
        f"{anchor.number:>6}  {_time(anchor.gen_time_us)}  {anchor.tsa}  "
        f"{anchor.tree_size} leaves, {leaf}{evidence}"
    )


def _listed(anchor: Anchor) -> dict[str, Any]:
    return {
        "number": anchor.number,
        "tsa": anchor.tsa,
        "tree_size": anchor.tree_size,
        "root": digest_text(anchor.root),
        "gen_time": _time(anchor.gen_time_us),
        "stored_at": _time(anchor.stored_at_us),
        "response_hash": digest_text(anchor.response_hash),
        "response_bytes": anchor.response_bytes,
        "leaf_index": anchor.leaf_index,
        "evidence_hash": None
        if anchor.evidence_hash is None
        else digest_text(anchor.evidence_hash),
        "evidence_leaf_index": anchor.evidence_leaf_index,
    }


def _described(proof: AnchorProof) -> dict[str, Any]:
    evidence = proof.evidence
    try:
        response = describe_response(proof.response)
    except EvidenceError as error:
        response = {"unreadable": str(error)}
    return {
        "verified": False,
        **_listed(proof.anchor),
        "revocation_evidence": {
            "crls": 0 if evidence is None else len(evidence.crls),
            "ocsps": 0 if evidence is None else len(evidence.ocsps),
        },
        "checkpoint": proof.note.decode("utf-8", "replace"),
        "response": response,
    }


def _time(micros: int | None) -> str | None:
    """RFC 3339, or the number itself where no calendar has it."""
    if micros is None:
        return None
    try:
        return format_instant(_EPOCH + timedelta(microseconds=micros))
    except OverflowError:
        return f"{micros} us"
