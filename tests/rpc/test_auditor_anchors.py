"""The auditor and the log's timestamps: real tokens in a real daemon, and servers that lie."""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest

from receiptledger.auditor import AsyncAuditor
from receiptledger.core.anchor_stamps import Outcome
from receiptledger.core.bundle import parse_bundle
from receiptledger.core.checkpoint import open_checkpoint
from receiptledger.core.errors import EvidenceError, Reason, ServiceError
from receiptledger.core.note import NoteSigner
from receiptledger.core.verdict import ExitCode
from receiptledger.v1 import anchor_pb2, proof_pb2
from receiptledger.wire import CallError
from tests.helpers.authority import Authority
from tests.helpers.daemons import log_key, open_daemon
from tests.helpers.fake_proofs import FakeAnchors, FakeProofs, serving
from tests.helpers.ledger_kit import MiniLedger, make_receipts
from tests.helpers.peer import open_peer, run
from tests.helpers.stamped_daemon import NEVER, Stamper, stamped_folder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

START = datetime(2026, 11, 30, 10, tzinfo=UTC)
ALPHA, BETA, GAMMA = Authority("alpha", 1), Authority("beta", 2), Authority("gamma", 3)
RAWS = make_receipts(3)


# Proofs


def test_a_bundle_says_when(tmp_path: Path) -> None:
    async def work() -> None:
        await stamped_folder(tmp_path, RAWS, START, ALPHA, BETA)
        key, tsas = log_key(tmp_path), (ALPHA.trust, BETA.trust)
        async with (
            open_daemon(tmp_path) as daemon,
            AsyncAuditor(daemon.grpc_address, key, tsas=tsas, tsa_quorum=2) as auditor,
        ):
            bundle = await auditor.prove(receipt_hash=sha256(RAWS[1]).digest())
            assert parse_bundle(bundle.encode()) == bundle
            verdict = auditor.verify(bundle, require=frozenset({"anchor"}))
            assert verdict.exit_code is ExitCode.VALID, verdict.to_json()
            assert verdict.facts["not_after"] == "2026-11-30T11:00:01Z"
            assert verdict.facts["not_before"] == "2026-11-30T09:59:59Z"
            assert verdict.facts["anchored_by"] == ["alpha", "beta"]
            assert verdict.facts["state"] == "anchored"
            evidence = [s.evidence is not None for a in bundle.anchors for s in a.stamps]
            assert evidence == [True, False, False, False]
            late = auditor.verify(bundle, moment=datetime(2036, 6, 1, tzinfo=UTC))
            assert late.exit_code is ExitCode.BELOW_POLICY

    run(work())


def test_authorities_nobody_knows_are_no_reason_to_refuse_a_proof(tmp_path: Path) -> None:
    async def work() -> None:
        await stamped_folder(tmp_path, RAWS, START, ALPHA, BETA)
        key = log_key(tmp_path)
        async with open_daemon(tmp_path) as daemon:
            for tsas in ((), (GAMMA.trust,)):
                async with AsyncAuditor(daemon.grpc_address, key, tsas=tsas) as auditor:
                    bundle = await auditor.prove(agent="agent-1", position=1)
                    assert len(bundle.anchors) == 2
                    verdict = auditor.verify(bundle, require=frozenset({"anchor"}))
                    assert verdict.exit_code is ExitCode.BELOW_POLICY

    run(work())


LEAF = proof_pb2.LogLeaf(leaf=b"{}", index=1, proof=[bytes(32)])
BROKEN = {
    "a stamp without a leaf": (proof_pb2.AnchorStamp(response=b"x"), "has no leaf"),
    "evidence without a leaf": (
        proof_pb2.AnchorStamp(leaf=LEAF, evidence=proof_pb2.AnchorEvidence()),
        "has no leaf",
    ),
    "a stamp that is none": (
        proof_pb2.AnchorStamp(request=b"x", response=b"x", leaf=LEAF),
        "fails its check of timestamps",
    ),
    "a stamp of nothing": (proof_pb2.AnchorStamp(leaf=LEAF), "1..4096 bytes"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_proof_with_broken_anchors_is_refused(name: str) -> None:
    async def work() -> None:
        ledger = MiniLedger()
        ledger.append(RAWS)
        ledger.seal()
        proofs, (broken, words) = FakeProofs(ledger), BROKEN[name]

        def spoil(response: proof_pb2.GetProofResponse) -> None:
            response.anchors.add(note=response.checkpoint, stamps=[broken])

        async with serving(proofs) as address, AsyncAuditor(address, ledger.vkey) as auditor:
            await auditor.prove(receipt_hash=sha256(RAWS[1]).digest())
            proofs.spoil = spoil
            with pytest.raises(EvidenceError) as caught:
                await auditor.prove(receipt_hash=sha256(RAWS[1]).digest())
            assert words in str(caught.value)

    run(work())


# Lists


def test_lists_all_there_are(tmp_path: Path) -> None:
    async def work() -> None:
        await stamped_folder(tmp_path, RAWS, START, ALPHA, BETA)
        async with (
            open_daemon(tmp_path) as daemon,
            AsyncAuditor(daemon.grpc_address, log_key(tmp_path)) as auditor,
        ):
            listed = [anchor async for anchor in auditor.anchors()]
            assert [one.number for one in listed] == list(range(6))
            assert [one.tsa for one in listed] == ["alpha", "beta"] * 3
            assert listed[0].evidence_hash is not None
            assert listed[1].evidence_hash is None
            assert [one.number async for one in auditor.anchors(4)] == [4, 5]
            assert [one async for one in auditor.anchors(6)] == []

    run(work())


def listed(*numbers: int, count: int) -> anchor_pb2.ListAnchorsResponse:
    return anchor_pb2.ListAnchorsResponse(
        anchors=[
            anchor_pb2.Anchor(number=number, root=bytes(32), response_hash=bytes(32))
            for number in numbers
        ],
        count=count,
    )


def test_a_list_of_several_pages() -> None:
    async def work() -> None:
        fake = FakeAnchors()
        fake.pages = {
            0: listed(0, 1, count=5),
            2: listed(2, 3, count=6),  # one more came meanwhile
            4: listed(4, 5, count=6),
        }
        async with serving(anchors=fake) as address, AsyncAuditor(address, KEY) as auditor:
            assert [one.number async for one in auditor.anchors()] == [0, 1, 2, 3, 4, 5]
            fake.pages = {0: listed(0, count=9), 1: listed(count=9)}
            assert [one.number async for one in auditor.anchors()] == [0]

    run(work())


KEY = NoteSigner.from_seed("example.com/log", bytes(32)).verifier


@pytest.mark.parametrize("page", [listed(1, count=2), listed(0, 2, count=3), listed(0, 0, count=2)])
def test_a_list_with_holes(page: anchor_pb2.ListAnchorsResponse) -> None:
    async def work() -> None:
        fake = FakeAnchors()
        fake.pages = {0: page}
        async with serving(anchors=fake) as address, AsyncAuditor(address, KEY) as auditor:
            with pytest.raises(EvidenceError, match="skips anchors"):
                [one async for one in auditor.anchors()]

    run(work())


# Single anchors


def test_one_anchor_is_judged_by_the_auditors_own_authorities(tmp_path: Path) -> None:
    async def work() -> None:
        await stamped_folder(tmp_path, RAWS, START, ALPHA, BETA)
        key = log_key(tmp_path)
        async with (
            open_daemon(tmp_path) as daemon,
            AsyncAuditor(daemon.grpc_address, key, tsas=(ALPHA.trust,)) as auditor,
        ):
            good = await auditor.anchor(0)
            assert good.stamp is not None
            assert good.stamp.outcome is Outcome.HOLDS
            assert good.stamp.timestamp is not None
            assert good.stamp.timestamp.gen_time == START
            assert good.stamp.timestamp.revocation == "good"
            assert good.proof.evidence is not None
            unknown = await auditor.anchor(1)
            assert unknown.stamp is not None
            assert unknown.stamp.outcome is Outcome.NOT_TRUSTED
            size = (await auditor.checkpoint()).checkpoint.size
            assert await auditor.anchor(0, tree_size=size) == good
            with pytest.raises(ServiceError) as caught:
                await auditor.anchor(6)
            assert caught.value.reason is Reason.NOT_FOUND
            with pytest.raises(ServiceError):
                await auditor.anchor(0, tree_size=size + 1)

    run(work())


def test_an_anchor_that_is_not_logged_yet_is_not_judged(tmp_path: Path) -> None:
    async def work() -> None:
        async with (
            open_daemon(tmp_path, seal_interval_ms=NEVER) as daemon,
            AsyncAuditor(daemon.grpc_address, log_key(tmp_path), tsas=(ALPHA.trust,)) as auditor,
        ):
            stamper = Stamper(daemon, tmp_path)
            await stamper.append(RAWS[:1])
            await stamper.stamp(ALPHA, START)
            assert (await auditor.anchor(0)).stamp is None
            await stamper.seal()
            judged = (await auditor.anchor(0)).stamp
            assert judged is not None
            assert judged.outcome is Outcome.HOLDS

    run(work())


def _other_number(got: anchor_pb2.GetAnchorResponse) -> None:
    got.anchor.number = 3


def _other_size(got: anchor_pb2.GetAnchorResponse) -> None:
    got.anchor.tree_size += 1


def _other_root(got: anchor_pb2.GetAnchorResponse) -> None:
    got.anchor.root = bytes(32)


def _other_response(got: anchor_pb2.GetAnchorResponse) -> None:
    got.response += b"\0"


def _hidden_leaf(got: anchor_pb2.GetAnchorResponse) -> None:
    got.ClearField("leaf")


def _other_index(got: anchor_pb2.GetAnchorResponse) -> None:
    got.leaf.index += 1


def _other_consistency(got: anchor_pb2.GetAnchorResponse) -> None:
    got.consistency[0] = bytes(32)


def _other_note(got: anchor_pb2.GetAnchorResponse) -> None:
    got.note = got.note.replace(b"\n", b"x\n", 1)


def _other_checkpoint(got: anchor_pb2.GetAnchorResponse) -> None:
    got.checkpoint = got.note  # older than the leaf it should cover


EVIDENCE = {
    "another number": (_other_number, "another anchor"),
    "another size": (_other_size, "another checkpoint"),
    "another root": (_other_root, "another checkpoint"),
    "another response": (_other_response, "another response"),
    "a hidden leaf": (_hidden_leaf, "another leaf"),
    "another index": (_other_index, "another leaf"),
    "no earlier state": (_other_consistency, ""),
    "another log": (_other_note, ""),
    "another checkpoint": (_other_checkpoint, ""),
}


def _gap(got: anchor_pb2.GetAnchorResponse) -> None:
    got.leaf.proof[0] = bytes(32)


def _other_request(got: anchor_pb2.GetAnchorResponse) -> None:
    got.request = got.request[:-1]


def _other_list(got: anchor_pb2.GetAnchorResponse) -> None:
    got.crls[0] = got.crls[0][:-1]


BAD = {"a gap": _gap, "another request": _other_request, "another list": _other_list}


def test_what_a_lying_ledger_shows(tmp_path: Path) -> None:
    async def work() -> None:
        async for auditor, fake, honest in lying(tmp_path):
            assert (await auditor.anchor(0)).stamp is not None
            for name, (spoil, words) in EVIDENCE.items():
                fake.anchor = copy_of(honest, spoil)
                with pytest.raises(EvidenceError) as caught:
                    await auditor.anchor(0)
                assert words in str(caught.value), name
            for name, spoil in BAD.items():
                fake.anchor = copy_of(honest, spoil)
                judged = (await auditor.anchor(0)).stamp
                assert judged is not None
                assert judged.outcome is Outcome.BAD, name

    run(work())


def test_what_no_ledger_says(tmp_path: Path) -> None:
    def root(got: anchor_pb2.GetAnchorResponse) -> None:
        got.anchor.root = bytes(31)

    def number(got: anchor_pb2.GetAnchorResponse) -> None:
        got.anchor.number = 2**63

    def evidence(got: anchor_pb2.GetAnchorResponse) -> None:
        got.anchor.evidence_hash = b"x"

    async def work() -> None:
        async for auditor, fake, honest in lying(tmp_path):
            for spoil in (root, number, evidence):
                fake.anchor = copy_of(honest, spoil)
                with pytest.raises(CallError, match="cannot be understood") as caught:
                    await auditor.anchor(0)
                assert caught.value.retry_after is None

    run(work())


def copy_of(
    honest: anchor_pb2.GetAnchorResponse, spoil: Callable[[anchor_pb2.GetAnchorResponse], None]
) -> anchor_pb2.GetAnchorResponse:
    copy = anchor_pb2.GetAnchorResponse()
    copy.CopyFrom(honest)
    spoil(copy)
    return copy


async def lying(
    folder: Path,
) -> AsyncIterator[tuple[AsyncAuditor, FakeAnchors, anchor_pb2.GetAnchorResponse]]:
    """An auditor before a server that says what a test wants; first the truth."""
    await stamped_folder(folder, RAWS, START, ALPHA)
    async with open_daemon(folder) as daemon, open_peer(daemon) as it:
        honest = await it.anchors.GetAnchor(anchor_pb2.GetAnchorRequest(number=0))
    fake = FakeAnchors()
    fake.anchor = honest
    key, tsas = log_key(folder), (ALPHA.trust,)
    async with (
        serving(anchors=fake) as address,
        AsyncAuditor(address, key, tsas=tsas) as auditor,
    ):
        assert open_checkpoint(honest.checkpoint, key).size > 0
        yield auditor, fake, honest


# AnchorNow


def test_anchor_now(tmp_path: Path) -> None:
    async def work() -> None:
        async with (
            open_daemon(tmp_path) as daemon,
            AsyncAuditor(daemon.grpc_address, log_key(tmp_path)) as auditor,
        ):
            with pytest.raises(CallError) as caught:
                await auditor.anchor_now()
            assert caught.value.reason is Reason.NOT_CONFIGURED
            assert caught.value.retry_after is None
        fake = FakeAnchors()
        fake.round = anchor_pb2.AnchorNowResponse(
            tree_size=9,
            quorum_reached=True,
            results=[
                anchor_pb2.TsaResult(tsa="alpha", gen_time_us=0),
                anchor_pb2.TsaResult(tsa="beta", cause="nonce", detail="another"),
            ],
        )
        async with serving(anchors=fake) as address, AsyncAuditor(address, KEY) as auditor:
            made = await auditor.anchor_now()
            assert (made.tree_size, made.quorum_reached) == (9, True)
            said: list[tuple[Any, ...]] = [
                (one.tsa, one.cause, one.detail, one.gen_time_us) for one in made.results
            ]
            assert said == [("alpha", None, "", 0), ("beta", "nonce", "another", None)]
            fake.fail = ServiceError(Reason.OVERLOADED, "too soon", retry_after=17.5)
            with pytest.raises(CallError) as caught:
                await auditor.anchor_now()
            assert (caught.value.reason, caught.value.retry_after) == (Reason.OVERLOADED, 17.5)

    run(work())
