"""Verifying processes save time and change no answer."""

from __future__ import annotations

import asyncio
import io
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from ledgerd.daemon import Daemon, StartError
from ledgerd.keyring import Keyring
from ledgerd.signer import create_log_key
from ledgerd.verification import Refused, Verified, verify_batch
from ledgerd.verify_pool import VerifyPool
from ledgerd.verify_worker import pack, read_frame, serve, unpack, write_frame
from receiptledger.core.canonical import Limits
from receiptledger.core.errors import Reason
from receiptledger.core.profile import Profiles
from tests.helpers.agents import Agent, FarleyAgent
from tests.helpers.daemons import settings_for
from tests.helpers.sync_ledger import SyncLedger

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from ledgerd.admission import Item

AGENT, FARLEY, FORGER = Agent("agent-1", 1), FarleyAgent("issuer-1", 2), Agent("agent-1", 3)
RAWS, BARE = AGENT.receipts(3), FARLEY.receipts(4)
BROKEN = RAWS[1].replace(b'"lookup"', b'"lookuq"')
MAX_BYTES = 4_096
SETUP = (True, {}, MAX_BYTES, 100, ())


class Here:
    """Verifies in this process and remembers what it was asked."""

    def __init__(
        self, hints: Sequence[bytes] = (), pinned: dict[bytes, bytes] | None = None
    ) -> None:
        self.asked: list[bytes] = []
        self._hints = hints
        keys = pinned or {}
        self._keyring = Keyring(
            pinning=True,
            enrolled={},
            pinned=lambda chain: (keys[chain],) if chain in keys else (),
            cache_size=10,
        )

    def __call__(self, raws: Sequence[bytes]) -> list[Item]:
        self.asked += raws
        return verify_batch(
            raws,
            profile=None,
            hints=self._hints,
            profiles=Profiles.builtin(),
            keyring=self._keyring,
            limits=Limits(max_bytes=MAX_BYTES),
        )


class Pool:
    """A pool on a loop of its own, driven step by step."""

    def __init__(self, processes: int = 1, enrolled: dict[str, tuple[bytes, ...]] | None = None):
        self._runner = asyncio.Runner()
        self._runner.run(self._make(processes, enrolled or {}))

    async def _make(self, processes: int, enrolled: dict[str, tuple[bytes, ...]]) -> None:
        self.pool = VerifyPool(
            processes, pinning=True, enrolled=enrolled, max_bytes=MAX_BYTES, cache_size=100
        )
        await self.pool.start()

    def verify(
        self, raws: Sequence[bytes], profile: str | None, hints: Sequence[bytes], here: Here
    ) -> list[Item]:
        return self.all([raws], profile, hints, here)[0]

    def all(
        self,
        batches: Sequence[Sequence[bytes]],
        profile: str | None,
        hints: Sequence[bytes],
        here: Here,
        kill: bool = False,
    ) -> list[list[Item]]:
        """Several batches at once; `kill` ends every process when all have been handed out."""

        async def work() -> list[list[Item]]:
            tasks = [
                asyncio.create_task(
                    self.pool.verify(raws, profile, hints, partial(asyncio.to_thread, here))
                )
                for raws in batches
            ]
            if kill:
                await asyncio.sleep(0)
                for process in self.processes:
                    process.kill()
            return await asyncio.gather(*tasks)

        return self._runner.run(work())

    @property
    def processes(self) -> list[subprocess.Popen[bytes]]:
        return [worker.process for worker in self.pool._workers]

    def close(self) -> None:
        self._runner.run(self.pool.close())
        self._runner.close()


@pytest.fixture
def pool() -> Iterator[Pool]:
    pool = Pool()
    yield pool
    pool.close()


def seen(items: Sequence[Item]) -> list[object]:
    """What admission and the answers use of each."""
    return [
        (*pack(item), item.receipt.raw, item.receipt.chain)
        if isinstance(item, Verified)
        else (item.receipt_hash, item.error.reason, str(item.error))
        for item in items
    ]


def test_the_answers_are_the_same_as_here(pool: Pool) -> None:
    raws = [*RAWS, b"{", BROKEN, BARE[0], b"x" * (MAX_BYTES + 1)]
    here = Here()
    items = pool.verify(raws, None, (), here)
    assert seen(items) == seen(Here()(raws))
    assert here.asked == raws[3:]  # what the process could not verify
    assert [type(item) for item in items[:5]] == [Verified] * 3 + [Refused] * 2


def test_another_key_for_one_chain_is_refused_by_admission(pool: Pool) -> None:
    """Whichever thread or process verified it: the writer sees every earlier receipt."""
    ledger = SyncLedger()
    items = pool.verify([RAWS[0], FORGER.receipts(1)[0]], None, (), Here())
    assert [item.key for item in items if isinstance(item, Verified)] == [
        AGENT.public_key,
        FORGER.public_key,
    ]
    plan = ledger.admission.plan([items], 0)
    assert [answer.reason for answer in plan.answers[0]] == [None, Reason.WRONG_KEY]
    detail = plan.answers[0][1].detail
    assert f"expected {AGENT.public_key.hex()}; got {FORGER.public_key.hex()}" in detail


def test_a_named_format_and_hints_reach_the_process(pool: Pool) -> None:
    here = Here(hints=(FARLEY.public_key,))
    items = pool.verify(BARE, "draft-farley-04", (FARLEY.public_key,), here)
    assert all(isinstance(item, Verified) for item in items)
    assert here.asked == []


def test_a_key_only_the_store_knows_is_learned_once(pool: Pool) -> None:
    """Receipts without a key inside, of a chain pinned long ago."""
    here = Here(pinned={FARLEY.chain: FARLEY.public_key})
    pool.verify(BARE[:2], None, (), here)
    assert here.asked == BARE[:2]
    items = pool.verify(BARE[2:], None, (), here)
    assert here.asked == BARE[:2]
    assert [item.key for item in items if isinstance(item, Verified)] == [FARLEY.public_key] * 2


def test_enrolled_keys_hold_in_the_process_too() -> None:
    enrolled = {"agent-1": (FORGER.public_key,)}
    pool = Pool(enrolled=enrolled)
    here = Here()
    pool.verify(RAWS, None, (), here)
    pool.close()
    assert here.asked == RAWS  # not verified there: their key is not the enrolled one


def test_many_batches_at_once_each_get_their_own_answer() -> None:
    """More batches than the processes take at a time; each process answers in its own order."""
    pool, here = Pool(2), Here()
    batches = [[AGENT.receipts(12)[n]] for n in range(12)]
    found = pool.all(batches, None, (), here)
    pool.close()
    assert [
        [item.receipt.raw for item in items if isinstance(item, Verified)] for items in found
    ] == (batches)
    assert here.asked == []


def test_a_batch_whose_stream_is_gone_is_not_asked_for(pool: Pool) -> None:
    async def work() -> None:
        here = partial(asyncio.to_thread, Here())
        tasks = [asyncio.create_task(pool.pool.verify(RAWS, None, (), here)) for _ in range(5)]
        await asyncio.sleep(0)
        for task in tasks[1:4]:  # one is with the process already, two still wait
            task.cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(one) for one in done] == [list, *[asyncio.CancelledError] * 3, list]
        assert seen(done[4]) == seen(Here()(RAWS))  # type: ignore[arg-type]

    pool._runner.run(work())


def test_a_dead_process_costs_time_and_no_receipt(
    pool: Pool, capsys: pytest.CaptureFixture[str]
) -> None:
    (process,) = pool.processes
    process.kill()
    process.wait()
    for _ in range(3):
        here = Here()
        assert seen(pool.verify(RAWS, None, (), here)) == seen(Here()(RAWS))
        assert here.asked == RAWS
    assert capsys.readouterr().out.count("a verifying process died") == 1


def test_processes_that_die_with_batches_in_them_lose_none(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pool, want = Pool(2), seen(Here()(RAWS))
    found = pool.all([RAWS] * 9, None, (), Here(), kill=True)
    pool.close()
    assert [seen(items) for items in found] == [want] * 9
    assert capsys.readouterr().out.count("a verifying process died") == 2


def test_the_other_process_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    pool, here = Pool(2), Here()
    pool.processes[0].kill()
    pool.processes[0].wait()
    pool.verify(RAWS, None, (), here)  # the loop hears of the end
    here = Here()
    found = pool.all([RAWS] * 4, None, (), here)
    pool.close()
    assert here.asked == []
    assert [seen(items) for items in found] == [seen(Here()(RAWS))] * 4
    assert capsys.readouterr().out.count("a verifying process died") == 1


def test_processes_end_with_the_pool() -> None:
    pool = Pool(2)
    pool.close()
    assert [process.returncode for process in pool.processes] == [0, 0]


def test_processes_end_with_a_start_that_is_refused(tmp_path: Path) -> None:
    settings = settings_for(tmp_path, verify_processes=1)
    create_log_key(settings.log_key_file, settings.origin)
    settings.guard_file.write_bytes(b"no checkpoint")

    async def start() -> Daemon:
        daemon = Daemon(settings)
        with pytest.raises(StartError, match="guard"):
            await daemon.start()
        return daemon

    pool = asyncio.run(start())._verify_pool
    assert pool is not None
    assert [worker.process.returncode for worker in pool._workers] == [0]


def test_a_process_serves_until_its_input_ends() -> None:
    source, sink = io.BytesIO(), io.BytesIO()
    write_frame(source, SETUP)
    write_frame(source, (RAWS, None, (), []))
    write_frame(source, (BARE[:1], None, (), [(FARLEY.chain, FARLEY.public_key)]))
    source.seek(0)
    serve(source, sink)
    sink.seek(0)
    first, second = read_frame(sink), read_frame(sink)
    assert [unpack(raw, packed).key for raw, packed in zip(RAWS, first, strict=True)] == (
        [AGENT.public_key] * 3
    )
    assert unpack(BARE[0], second[0]).receipt.agent == "issuer-1"


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_frame_that_is_cut_is_the_end(cut: int) -> None:
    whole = io.BytesIO()
    write_frame(whole, ("something", 1))
    data = whole.getvalue()
    with pytest.raises(EOFError):
        read_frame(io.BytesIO(data[: len(data) - cut]))


def test_packing_keeps_what_admission_reads() -> None:
    (item,) = Here()([RAWS[1]])
    assert isinstance(item, Verified)
    again = unpack(RAWS[1], pack(item))
    assert again.leaf_hash == item.leaf_hash == sha256(b"\x00" + RAWS[1]).digest()
    for name in (
        *("raw", "profile", "profile_version", "agent", "stream", "chain", "sequence"),
        *("sequence_step", "sequence_start", "linked", "previous", "link_hash", "content_hash"),
        "receipt_hash",
    ):
        assert getattr(again.receipt, name) == getattr(item.receipt, name), name
    assert again.key == item.key
