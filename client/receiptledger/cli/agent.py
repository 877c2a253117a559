"""Sub-commands of the agent's side: keygen, record, submit, head."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from receiptledger.cli.options import LEDGER_DEFAULT, AsJson, Ledger, parse_public_key, read_file
from receiptledger.cli.output import CliError, Output
from receiptledger.cli.source import read_items, read_lines
from receiptledger.core.encoding import base64url_encode, digest_text
from receiptledger.core.errors import ServiceError
from receiptledger.core.verdict import ExitCode
from receiptledger.signer import KEY_PREFIX, create_key_file, load_signer
from receiptledger.wire import Ack

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from receiptledger.builder import BuiltReceipt
    from receiptledger.core.chain import Head
    from receiptledger.submit import SubmitResult

__all__ = ["AGENT_COMMANDS", "head", "keygen", "record", "submit"]

SUBMIT_PATIENCE_S = 10.0

_MAX_KEYS_BYTES = 65_536

AckOption = Annotated[
    Ack, typer.Option("--ack", help="What an acknowledgement waits for: stable storage, or a seal.")
]


def keygen(
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="Key file to create, mode 0600.")
    ] = Path("agent.key"),
    as_json: AsJson = False,
) -> None:
    """Make a signing key for an agent: FILE, secret, and FILE.pub, to hand around."""
    public_file = out.with_name(out.name + ".pub")
    if public_file.exists():
        raise CliError(f"{public_file} exists, and is never overwritten: choose another file")
    public_key = base64url_encode(create_key_file(out).public_key)
    try:
        with public_file.open("x", encoding="ascii") as file:
            file.write(public_key + "\n")
    except OSError as error:
        raise CliError(
            f"the key was made, but {public_file} cannot be written ({error.strerror}): put the public "
            f"key there yourself, {public_key}"
        ) from None
    output = Output(as_json)
    if as_json:
        output.document(
            {"file": str(out), "public_key_file": str(public_file), "public_key": public_key}
        )
        return
    output.text(f"secret key  {out} (mode 0600; keep a copy: a lost key ends its agent's chain)")
    output.text(f"public key  {public_file}")
    output.text(f"            {public_key}")


def record(
    agent: Annotated[str, typer.Option("--agent", help="Agent id whose chain gets the receipt.")],
    key_file: Annotated[
        Path,
        typer.Option(
            "--key-file", envvar="RECEIPTLEDGER_KEY_FILE", metavar="FILE", help="The agent's key."
        ),
    ],
    tool: Annotated[str, typer.Option("--tool", help="Name of the tool that was called.")],
    policy: Annotated[str, typer.Option("--policy", help="Policy that allowed the call.")],
    args: Annotated[
        str, typer.Option("--args", metavar="JSON", help="Its arguments; only hashed.")
    ] = "{}",
    result: Annotated[
        str, typer.Option("--result", metavar="JSON", help="What it returned; only hashed.")
    ] = "null",
    ack: AckOption = Ack.DURABLE,
    ledger: Ledger = LEDGER_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Build, sign and send one receipt. What cannot be delivered is printed, to be sent later."""
    call = {"args": _json("--args", args), "result": _json("--result", result)}
    signer = load_signer(key_file)

    signed: list[BuiltReceipt] = []

    async def send() -> None:
        from receiptledger.client import AsyncAgent

        async with AsyncAgent(ledger, agent, signer, ack=ack) as client:
            signed.append(await client.record(tool=tool, policy_id=policy, **call))

    try:
        asyncio.run(send())
    except ServiceError as error:
        if not signed:
            raise
        # Its fate is unknown, and sent again as it is, it can never be recorded twice.
        typer.echo(signed[0].raw.decode("utf-8"), err=True)
        raise CliError(
            f"{error}. The line above is the signed receipt: save it, and send it later with "
            "`receiptledger submit FILE`, which never records it twice"
        ) from None
    built = signed[0]
    output = Output(as_json)
    receipt_hash = digest_text(built.receipt_hash)
    if as_json:
        output.document(
            {
                "agent": agent,
                "position": built.position,
                "sequence": built.sequence,
                "receipt_hash": receipt_hash,
                "ack": ack.value,
                "receipt": built.raw.decode("utf-8"),
            }
        )
        return
    output.text(f"{receipt_hash}  position {built.position} of {agent}, {ack.value}")


def submit(
    source: Annotated[
        Path, typer.Argument(metavar="FILE|-", help="JSON Lines, or one JSON document.")
    ],
    array: Annotated[
        bool, typer.Option("--array", help="FILE is one JSON document for certain.")
    ] = False,
    key: Annotated[
        Path | None,
        typer.Option(
            "--key", metavar="FILE", help="Public keys to try for new chains, one a line."
        ),
    ] = None,
    profile: Annotated[
        str, typer.Option("--profile", help="Receipt format; detected by default.")
    ] = "",
    ack: AckOption = Ack.DURABLE,
    ledger: Ledger = LEDGER_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Send receipts that were signed elsewhere, byte for byte as they are. Exit 1 when one is refused."""
    key_hints = [] if key is None else _public_keys(key)
    output = Output(as_json)
    reasons: Counter[str] = Counter()
    outcomes: Counter[str] = Counter()

    async def send(advance: Callable[[], None]) -> None:
        from receiptledger.backoff import Retry
        from receiptledger.client import submit_receipts
        from receiptledger.sender import SendOptions

        lines: dict[int, int] = {}  # index of a receipt in progress -> its line

        async def raws() -> AsyncIterator[bytes]:
            count = 0
            async for item in read_items(read_lines(source), array=array):
                lines[count] = item.line
                count += 1
                yield item.raw

        # Somebody waits at a terminal: an agent's five minutes of patience would look like a hang.
        options = SendOptions(retry=Retry(give_up_s=SUBMIT_PATIENCE_S))
        results = submit_receipts(
            ledger, raws(), profile=profile, key_hints=key_hints, ack=ack, options=options
        )
        async with aclosing(results):
            async for item in results:
                _report(output, lines.pop(item.index), item)
                outcomes[item.answer.outcome] += 1
                if item.answer.reason is not None:
                    reasons[item.answer.reason.value] += 1
                advance()

    with _progress() as advance:
        asyncio.run(send(advance))
    _summary(output, outcomes, reasons)
    if outcomes["refused"]:
        raise typer.Exit(ExitCode.INVALID)


def head(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="Agent id.")],
    stream: Annotated[str, typer.Option("--stream", help="Which of the agent's streams.")] = "",
    ledger: Ledger = LEDGER_DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Show the newest position of an agent's chain, as the ledger says it is."""

    async def ask() -> Head | None:
        from receiptledger.transport import Channel

        channel = Channel(ledger)
        try:
            return await channel.head(agent, stream)
        finally:
            await channel.close()

    found = asyncio.run(ask())
    output = Output(as_json)
    if as_json:
        output.document(
            {
                "agent": agent,
                "stream": stream,
                "exists": found is not None,
                "position": None if found is None else found.position,
                "link_hash": None if found is None else digest_text(found.link_hash),
                "sequence": None if found is None else found.sequence,
            }
        )
    elif found is None:
        output.text(f"the ledger has no receipt of {agent}" + (f" / {stream}" if stream else ""))
    else:
        number = "" if found.sequence is None else f", sequence {found.sequence}"
        output.text(f"position {found.position}{number}, link {digest_text(found.link_hash)}")


def _json(option: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CliError(f"{option} is not JSON: {error}. Text needs quotes: '\"text\"'") from None


def _public_keys(path: Path) -> list[bytes]:
    """One key a line; empty lines and # comments are skipped."""
    text = read_file(path, _MAX_KEYS_BYTES, "file of public keys").decode("utf-8", "replace")
    if text.startswith(KEY_PREFIX):
        raise CliError(f"{path} is a secret key file: give the public keys, {path}.pub")
    keys = [
        parse_public_key(line.strip(), f"{path}, line {number}")
        for number, line in enumerate(text.split("\n"), 1)
        if line.strip() and not line.startswith("#")
    ]
    if not 1 <= len(keys) <= 16:
        raise CliError(f"{path} holds {len(keys)} public keys: the ledger takes 1 to 16")
    return keys


def _report(output: Output, line: int, result: SubmitResult) -> None:
    answer = result.answer
    if output.as_json:
        output.line(
            {
                "line": line,
                "outcome": answer.outcome,
                "reason": None if answer.reason is None else answer.reason.value,
                "position": answer.position,
                "receipt_hash": digest_text(answer.receipt_hash) if answer.receipt_hash else None,
                "expected_hash": None
                if answer.expected_hash is None
                else digest_text(answer.expected_hash),
                "detail": answer.detail,
                "leaf_index": answer.leaf_index,
            }
        )
    elif answer.reason is not None:
        detail = answer.detail.removeprefix(f"{answer.reason}: ")
        output.styled([(f"line {line}: ", ""), (answer.reason.value, "red"), (f": {detail}", "")])


def _summary(output: Output, outcomes: Counter[str], reasons: Counter[str]) -> None:
    counts = {name: outcomes[name] for name in ("accepted", "duplicate", "refused")}
    by_reason = dict(sorted(reasons.items()))
    if output.as_json:
        output.line({"summary": {**counts, "reasons": by_reason}})
        return
    text = ", ".join(f"{count} {name}" for name, count in counts.items())
    why = ", ".join(f"{count} {name}" for name, count in by_reason.items())
    output.text(text + (f" ({why})" if why else ""))


@contextmanager
def _progress() -> Iterator[Callable[[], None]]:
    """A count on the error stream while receipts are sent; only on a terminal."""
    if not os.isatty(2):
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.completed} receipts"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=None)
        yield lambda: progress.advance(task)


AGENT_COMMANDS = (keygen, record, submit, head)
