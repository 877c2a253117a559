"""A real daemon with a log that grew in waves, and what it hands out over gRPC."""

from __future__ import annotations

import hashlib
import itertools
import json
import queue
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc
from item import Item
from nacl import bindings

from receiptledger.core.canonical import canonicalize
from receiptledger.core.checkpoint import Checkpoint, open_checkpoint
from receiptledger.core.encoding import base64url_encode, digest_text
from receiptledger.core.leaf import HeadLeaf, parse_leaf
from receiptledger.core.note import VerifierKey
from receiptledger.v1 import ingest_pb2, ingest_pb2_grpc, proof_pb2, proof_pb2_grpc, types_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Ledger"]

START_SECONDS, CALL_SECONDS, STOP_SECONDS = 60.0, 30.0, 30.0
SETTINGS = ("seal_interval_ms=50", "trust_mode=pinned")
# Receipts of one agent in one segment: an odd tree, so that its paths have every shape.
RUN = 37


class Agent:
    """Signs a chain of lesson-18 receipts with a key made from its name."""

    def __init__(self, name: str) -> None:
        self._name = name
        seed = hashlib.sha256(name.encode()).digest()
        self._public, self._secret = bindings.crypto_sign_seed_keypair(seed)
        self._previous: str | None = None
        self._sequence = itertools.count()

    def next(self) -> bytes:
        """The next receipt."""
        receipt: dict[str, Any] = {
            "type": "agent.tool_call.v1",
            "agent_id": self._name,
            "tool_name": "lookup_flights",
            "tool_args_hash": "sha256:" + "0" * 64,
            "result_hash": "sha256:" + "1" * 64,
            "policy_id": "contoso-travel-policy-v3",
            "timestamp": "2026-04-25T14:30:00Z",
            "sequence": next(self._sequence),
            "previous_receipt_hash": self._previous,
        }
        signature = bindings.crypto_sign(canonicalize(receipt), self._secret)[:64]
        receipt["signature"] = {
            "alg": "EdDSA",
            "sig": base64url_encode(signature),
            "public_key": base64url_encode(self._public),
        }
        raw = canonicalize(receipt)
        self._previous = digest_text(hashlib.sha256(raw).digest())
        return raw


@dataclass(frozen=True, slots=True)
class Published:
    """One checkpoint the daemon published, and a receipt that was new under it."""

    checkpoint: Checkpoint
    note: bytes
    receipt: bytes


class Ledger:
    """Starts the daemon on entering, stops it by its own id on leaving; `exit_code` follows."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._agents: list[Agent] = []
        self.published: list[Published] = []
        self.exit_code: int | None = None

    def __enter__(self) -> Ledger:
        settings = [part for setting in SETTINGS for part in ("--set", setting)]
        addresses = ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]
        command = [sys.executable, "-m", "ledgerd", "serve", "--data-dir", str(self._folder)]
        self._process = subprocess.Popen(
            [*command, *addresses, *settings], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
        )
        self._logs: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=self._drain, daemon=True).start()
        try:
            ready = self._wait_ready()
            self.url = "http://" + ready["http"]
            self.log_key = ready["log_key"]
            self._channel = grpc.insecure_channel(ready["grpc"])
        except BaseException:
            self._stop()
            raise
        self._proofs = proof_pb2_grpc.ProofServiceStub(self._channel)
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()
        self._stop()

    def grow(self, size: int) -> Published:
        """Append one batch that brings the log to a size, and wait for its checkpoint.

        A new agent costs two leaves (its key and its head); an odd one is a run of an old agent.
        """
        before = self.published[-1].checkpoint.size if self.published else 0
        new, odd = divmod(size - before, 2)
        receipts = [self._agents[0].next() for _ in range(RUN * odd)]
        for _ in range(new):
            self._agents.append(Agent(f"agent-{len(self._agents)}"))
            receipts.append(self._agents[-1].next())
        request = ingest_pb2.AppendRequest(
            batch_id=size, receipts=receipts, ack_level=ingest_pb2.ACK_LEVEL_SEALED
        )
        stub = ingest_pb2_grpc.IngestServiceStub(self._channel)
        (answer,) = list(stub.Append(iter([request]), timeout=CALL_SECONDS))
        refused = [a for a in answer.answers if a.outcome != types_pb2.OUTCOME_ACCEPTED]
        if refused:
            raise RuntimeError(f"the ledger refused {len(refused)} receipts: {refused[0]}")
        checkpoint = open_checkpoint(answer.checkpoint, VerifierKey.parse(self.log_key))
        receipt = receipts[len(receipts) // 2]
        self.published.append(Published(checkpoint, answer.checkpoint, receipt))
        return self.published[-1]

    def items(self) -> Iterator[Item]:
        """Checkpoints, and the proofs that the daemon itself makes at each of their sizes."""
        for at, tree in enumerate(self.published):
            size = tree.checkpoint.size
            yield Item("checkpoint", str(size), keys=(self.log_key,), note=tree.note)
            for old in self.published[: at + 1]:
                yield from self._receipt(old.receipt, tree.checkpoint)
                yield self._consistency(old.checkpoint, tree.checkpoint)

    def _receipt(self, receipt: bytes, tree: Checkpoint) -> Iterator[Item]:
        """The three paths of a receipt: in its segment, of its head leaf and of its key leaf."""
        request = proof_pb2.GetProofRequest(
            receipt_hash=hashlib.sha256(receipt).digest(), tree_size=tree.size
        )
        proof = self._proofs.GetProof(request, timeout=CALL_SECONDS)
        for name, leaf in (("head", proof.head), ("key", proof.key)):
            yield Item(
                "inclusion",
                f"{name} leaf {leaf.index} of {tree.size}",
                entry=leaf.leaf,
                index=leaf.index,
                size=tree.size,
                proof=tuple(leaf.proof),
                root=tree.root,
            )
        head = parse_leaf(proof.head.leaf)
        if not isinstance(head, HeadLeaf):
            raise TypeError(f"not a head leaf: {head}")
        yield Item(
            "inclusion",
            f"receipt {proof.position - head.first} of a segment of {head.count}",
            entry=proof.receipt.receipt,
            index=proof.position - head.first,
            size=head.count,
            proof=tuple(proof.receipt.proof),
            root=head.segment,
        )

    def _consistency(self, old: Checkpoint, tree: Checkpoint) -> Item:
        request = proof_pb2.GetConsistencyProofRequest(first_size=old.size, second_size=tree.size)
        proof = self._proofs.GetConsistencyProof(request, timeout=CALL_SECONDS).proof
        return Item(
            "consistency",
            f"{old.size} to {tree.size}",
            old_size=old.size,
            size=tree.size,
            proof=tuple(proof),
            old_root=old.root,
            root=tree.root,
        )

    def _drain(self) -> None:
        # Reads to the end, so that a daemon that logs much never blocks on a full pipe.
        for line in self._process.stderr or ():
            self._logs.put(line)
        self._logs.put(b"")

    def _wait_ready(self) -> dict[str, Any]:
        seen = b""
        while True:
            try:
                line = self._logs.get(timeout=START_SECONDS)
            except queue.Empty:
                raise RuntimeError(f"the daemon was not ready in {START_SECONDS} s") from None
            if not line:
                raise RuntimeError(f"the daemon ended:\n{seen.decode('utf-8', 'replace')}")
            seen += line
            if b'"event": "ready"' in line:
                return dict(json.loads(line))

    def _stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self.exit_code = self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self.exit_code = self._process.wait(STOP_SECONDS)
