"""RocksStore: whose folder it is, what a crash leaves, and what damage looks like."""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rocksdict import Options, Rdict, WriteBatch

from ledgerd.store import schema
from ledgerd.store.families import DEFAULT, FAMILIES, FORMAT_FAMILY, HEADS, INDEX, JOURNAL, LEAVES
from ledgerd.store.folder import LOCK_NAME, FolderLock
from ledgerd.store.interface import (
    ChangedFormatError,
    Changes,
    StoreError,
    StoreFailedError,
    StoreInUseError,
)
from ledgerd.store.memory import MemoryStore
from ledgerd.store.rocks import RocksStore
from receiptledger.core.tile import TileId
from tests.helpers.changes import Author, chain_of, commits, dump

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[3]
A, B = chain_of("a"), chain_of("b")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


@pytest.fixture
def store(folder: Path) -> Iterator[RocksStore]:
    store = RocksStore.open(folder)
    yield store
    store.close()


def contents(folder: Path) -> dict[str, tuple[int, str]]:
    """Name -> (time of change, digest of the bytes) of all that is in a folder."""
    return {
        str(path.relative_to(folder)): (
            path.stat().st_mtime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder",
        )
        for path in sorted(folder.rglob("*"))
    }


def raw_database(folder: Path, families: list[str]) -> Rdict:
    """A RocksDB database made by somebody else."""
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    column_families = {name: Options(raw_mode=True) for name in families}
    return Rdict(str(folder), options, column_families=column_families)


def refused(folder: Path, match: str, *, create: bool = True) -> None:
    """Opening raises ChangedFormatError, and writes nothing."""
    before = contents(folder) if folder.is_dir() else None
    with pytest.raises(ChangedFormatError, match=match):
        RocksStore.open(folder, create=create)
    assert before is None or contents(folder) == before


def after(count: int) -> dict[str, Any]:
    """What a store holds after so many of `commits()`; the other implementation says it."""
    model = MemoryStore()
    for changes in itertools.islice(commits(), count):
        model.commit(changes)
    return dump(model)


class TestFolder:
    def test_missing_folders_are_made_for_us_alone(self, tmp_path: Path) -> None:
        folder = tmp_path / "var" / "lib" / "ledger"
        RocksStore.open(folder).close()
        assert folder.stat().st_mode & 0o777 == 0o700

    def test_an_empty_folder_and_a_fresh_volume_are_taken(self, folder: Path) -> None:
        (folder / "lost+found").mkdir(parents=True)
        RocksStore.open(folder).close()

    def test_a_path_may_be_text(self, folder: Path) -> None:
        RocksStore.open(str(folder)).close()

    @pytest.mark.parametrize("state", ["missing", "empty", "interrupted"])
    def test_not_created_unless_asked(self, folder: Path, state: str) -> None:
        if state != "missing":
            folder.mkdir()
        if state == "interrupted":
            (folder / LOCK_NAME).touch()
        with pytest.raises(StoreError, match="there is no ledger"):
            RocksStore.open(folder, create=False)
        assert folder.exists() == (state != "missing")
        RocksStore.open(folder).close()
        RocksStore.open(folder, create=False).close()

    def test_foreign_files(self, folder: Path) -> None:
        folder.mkdir()
        for name in ("a", "b", "c", "d", "e", "thesis.txt"):
            (folder / name).write_text("mine")
        refused(folder, r"'a', 'b', 'c', 'd', 'e' and 1 more and no ledger.*use an empty folder")

    @pytest.mark.parametrize("families", [[], ["other"], [*FAMILIES[:-1]]])
    def test_foreign_database(self, folder: Path, families: list[str]) -> None:
        raw_database(folder, families).close()
        refused(folder, "another database")

    def test_foreign_database_in_a_folder_we_locked(self, folder: Path) -> None:
        raw_database(folder, ["other"]).close()
        (folder / LOCK_NAME).touch()
        refused(folder, "another database.*'other'")

    @pytest.mark.parametrize("families", [["format-2"], [*FAMILIES[:-1], "format-2", "new"]])
    def test_newer_format(self, folder: Path, families: list[str]) -> None:
        raw_database(folder, families).close()
        refused(folder, r"newer ledgerd \(store format 2; this one knows 1\)")

    def test_newer_format_of_a_store_that_was_ours(self, folder: Path) -> None:
        RocksStore.open(folder).close()
        database = raw_database(folder, [*FAMILIES[:-1], FORMAT_FAMILY])
        database.create_column_family("format-7", Options(raw_mode=True)).close()
        database.close()
        refused(folder, "store format 7")

    def test_a_file(self, tmp_path: Path) -> None:
        path = tmp_path / "file"
        path.write_text("mine")
        refused(path, "is a file")
        assert path.read_text() == "mine"

    def test_a_folder_below_a_file(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("mine")
        refused(tmp_path / "file" / "ledger", "is a file")

    def test_a_link_that_leads_nowhere_usable(self, tmp_path: Path) -> None:
        (tmp_path / "loop").symlink_to("loop")
        with pytest.raises(StoreError, match="cannot read the folder"):
            RocksStore.open(tmp_path / "loop")

    def test_a_folder_that_cannot_be_made(self, tmp_path: Path) -> None:
        (tmp_path / "dangling").symlink_to(tmp_path / "gone" / "x")
        with pytest.raises(StoreError, match="cannot use the folder"):
            RocksStore.open(tmp_path / "dangling")

    @pytest.mark.parametrize("families", [None, [], ["journal", "heads"], [FORMAT_FAMILY]])
    def test_interrupted_creation_goes_on(self, folder: Path, families: list[str] | None) -> None:
        """Killed at any point before the first open returned."""
        if families is None:
            folder.mkdir()
            for name in ("LOCK", "LOG", "IDENTITY", "MANIFEST-000001", "rocksdict-config.json"):
                (folder / name).touch()
        else:
            raw_database(folder, families).close()
        (folder / LOCK_NAME).touch()
        store = RocksStore.open(folder)
        store.commit(Author().batch(A))
        store.close()
        store = RocksStore.open(folder, create=False)
        assert store.next_number() == 1
        store.close()

    @pytest.mark.parametrize("flushed", [False, True])
    @pytest.mark.parametrize("damage", ["CURRENT gone", "MANIFEST short"])
    def test_data_that_nothing_leads_to_is_not_built_over(
        self, folder: Path, flushed: bool, damage: str
    ) -> None:
        store = RocksStore.open(folder)
        store.commit(Author().batch(A))
        manifest = next(folder.glob("MANIFEST-*"))
        short = manifest.read_bytes()[: manifest.stat().st_size // 2]
        store.close()
        if flushed:  # opening moves the log into files
            RocksStore.open(folder).close()
        if damage == "CURRENT gone":
            (folder / "CURRENT").unlink()
        else:
            next(folder.glob("MANIFEST-*")).write_bytes(short)
        refused(folder, "holds data of a ledger .* restore the folder from a backup")

    def test_damaged_manifest(self, folder: Path) -> None:
        RocksStore.open(folder).close()
        (folder / "CURRENT").write_text("MANIFEST-999999\n")
        with pytest.raises(StoreError, match="cannot read the database"):
            RocksStore.open(folder)

    def test_files_of_the_wrapper_do_not_matter(self, folder: Path) -> None:
        """A copy made by RocksDB, and a crash while they are written, leave them out or short."""
        store = RocksStore.open(folder)
        store.commit(Author().batch(A))
        store.close()
        (folder / "rocksdict-config.json").write_text("{")
        (folder / LOCK_NAME).unlink()
        store = RocksStore.open(folder, create=False)
        assert store.next_number() == 1
        store.close()


class TestLock:
    def test_second_opener_in_this_process(self, folder: Path, store: RocksStore) -> None:
        before = contents(folder)
        with pytest.raises(StoreInUseError) as caught:
            RocksStore.open(folder)
        assert str(folder) in str(caught.value)
        assert "in use by another ledgerd" in str(caught.value)
        assert contents(folder) == before
        store.commit(Author().batch(A))  # the first one goes on

    def test_second_opener_in_another_process(self, folder: Path, store: RocksStore) -> None:
        before = contents(folder)
        code = (
            "import sys; from ledgerd.store.rocks import RocksStore\n"
            "try: RocksStore.open(sys.argv[1])\n"
            "except Exception as error: print(type(error).__name__, error)"
        )
        found = subprocess.run(
            [sys.executable, "-c", code, str(folder)],
            capture_output=True,
            text=True,
            cwd=ROOT,
            check=True,
        )
        assert found.stdout.startswith(f"StoreInUseError the folder {folder} is in use")
        assert contents(folder) == before
        store.commit(Author().batch(A))

    def test_a_database_opened_by_another_tool(self, folder: Path) -> None:
        RocksStore.open(folder).close()
        other = raw_database(folder, [*FAMILIES[:-1], FORMAT_FAMILY])
        with pytest.raises(StoreInUseError):
            RocksStore.open(folder)
        other.close()
        RocksStore.open(folder).close()

    def test_a_failed_open_gives_the_lock_back(self, folder: Path) -> None:
        store = RocksStore.open(folder)
        store.commit(Author().batch(A))
        store.close()
        RocksStore.open(folder).close()  # moves the log into files
        file = next(folder.glob("*.sst"))
        file.rename(folder / "away")
        with pytest.raises(StoreError, match="cannot open the database"):
            RocksStore.open(folder)
        FolderLock(folder).release()
        (folder / "away").rename(file)
        RocksStore.open(folder).close()

    def test_releasing_twice_is_harmless(self, tmp_path: Path) -> None:
        lock = FolderLock(tmp_path)
        lock.release()
        other = FolderLock(tmp_path)
        lock.release()
        with pytest.raises(StoreInUseError):
            FolderLock(tmp_path)
        other.release()


class TestReopen:
    def test_many_times_in_one_process(self, folder: Path) -> None:
        author = Author()
        for count in range(6):
            store = RocksStore.open(folder)
            assert store.next_number() == count
            store.commit(author.batch(A))
            store.close()

    def test_with_readers_left_lying_about(self, folder: Path) -> None:
        """Neither a half-read generator nor a kept exception holds the database open."""
        store = RocksStore.open(folder)
        store.commit(Author().batch(*[A] * 600, B))
        half_read = [store.entries(A, 0, 599), store.chains(), store.marks()]
        for rows in half_read:
            next(iter(rows))
        with pytest.raises(StoreError) as kept:
            store.leaves(0, 1)
        store.close()
        reopened = RocksStore.open(folder)
        with pytest.raises(StoreError, match="closed"):
            list(half_read[0])
        assert kept.value is not None
        reopened.close()

    def test_filters_and_cache_agree_with_the_files(self, folder: Path) -> None:
        store = RocksStore.open(folder)
        changes = Author().batch(*[chain_of(at) for at in range(300)])
        store.commit(changes)
        store.close()
        store = RocksStore.open(folder)  # which moves the log into files
        assert list(folder.glob("*.sst"))
        for one in changes.admitted:
            assert store.locate(one.entry.receipt_hash) == (one.chain, one.position)
            assert store.entry(one.chain, 0) == one.entry
            assert store.head(one.chain) == changes.heads[one.chain]
            assert store.position_of(one.chain, one.chain) is None
        store.close()


@pytest.fixture(scope="module")
def unclosed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of a store while it was open: 40 commits, all in the log."""
    base = tmp_path_factory.mktemp("unclosed")
    store = RocksStore.open(base / "live")
    for changes in itertools.islice(commits(), 40):
        store.commit(changes)
    shutil.copytree(base / "live", base / "copy")
    store.close()
    return base / "copy"


@pytest.fixture(scope="module")
def histories() -> list[dict[str, Any]]:
    return [after(count) for count in range(41)]


class TestCrash:
    def test_killed_again_and_again(self, folder: Path) -> None:
        """kill -9 loses no acknowledged commit, leaves none in part and invents nothing."""
        done = 0
        for acks in (1, 4, 9, 2, 17):
            done = self.run_and_kill(folder, done, acks)
        assert done >= 33

    @staticmethod
    def run_and_kill(folder: Path, done: int, acks: int) -> int:
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.helpers.store_child", str(folder), str(done)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        assert child.stdout is not None
        with child:
            assert child.stdout.readline() == "open\n"
            said = [child.stdout.readline() for _ in range(acks)]
            child.send_signal(signal.SIGKILL)
            said += child.stdout.readlines()  # acknowledged before it died
        acked = int(said[-1])
        assert acked == done + len(said)
        store = RocksStore.open(folder)
        found = dump(store)
        store.close()
        # One commit may have become durable without its acknowledgement getting out.
        for count in (acked, acked + 1):
            if found == after(count):
                return count
        pytest.fail(f"after {acked} acknowledged commits the store holds another history")

    @staticmethod
    def reopen_with_log(unclosed: Path, folder: Path, log: bytes) -> dict[str, Any] | None:
        """The content of a copy whose write-ahead log is replaced; None when it is refused."""
        shutil.copytree(unclosed, folder)
        (path,) = folder.glob("*.log")
        path.write_bytes(log)
        try:
            store = RocksStore.open(folder)
        except StoreError:
            return None
        found = dump(store)
        store.close()
        shutil.rmtree(folder)
        return found

    def test_log_as_it_was(
        self, unclosed: Path, folder: Path, histories: list[dict[str, Any]]
    ) -> None:
        (path,) = unclosed.glob("*.log")
        assert self.reopen_with_log(unclosed, folder, path.read_bytes()) == histories[40]

    @pytest.mark.parametrize("cut", [1, 2, 7, 8, 100, 500, 3000, 10_000, 20_000])
    def test_log_cut_short(
        self, unclosed: Path, folder: Path, histories: list[dict[str, Any]], cut: int
    ) -> None:
        """A torn end: what is left is whole commits from the first on."""
        (path,) = unclosed.glob("*.log")
        found = self.reopen_with_log(unclosed, folder, path.read_bytes()[:-cut])
        assert found in histories[:40]
        if cut < 100:
            assert found == histories[39]

    @pytest.mark.parametrize("tail", [b"\x00" * 5000, b"\xa5" * 5000])
    def test_log_with_rubbish_behind(
        self, unclosed: Path, folder: Path, histories: list[dict[str, Any]], tail: bytes
    ) -> None:
        """Blocks that were allotted and never written."""
        (path,) = unclosed.glob("*.log")
        assert self.reopen_with_log(unclosed, folder, path.read_bytes() + tail) == histories[40]

    @pytest.mark.parametrize("part", range(12))
    def test_log_damaged(
        self, unclosed: Path, folder: Path, histories: list[dict[str, Any]], part: int
    ) -> None:
        """Anywhere: refused, or whole commits from the first on; never other content."""
        (path,) = unclosed.glob("*.log")
        log = bytearray(path.read_bytes())
        log[(len(log) - 1) * part // 11] ^= 0x10
        found = self.reopen_with_log(unclosed, folder, bytes(log))
        assert found is None or found in histories


class FlushFails:
    """A database whose disk fails at fsync: the write went through, the flush does not."""

    def __init__(self, database: Rdict) -> None:
        self._database = database

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def flush_wal(self, sync: bool) -> None:
        assert sync
        raise Exception("IO error: While fdatasync: Input/output error")


class TestFailure:
    def test_after_a_failed_flush_nothing_is_acknowledged(
        self, folder: Path, store: RocksStore
    ) -> None:
        author = Author()
        store.commit(author.batch(A))
        working = store._database
        store._database = FlushFails(working)
        with pytest.raises(StoreFailedError, match=r"must be opened again: .*fdatasync"):
            store.commit(author.batch(A))
        store._database = working  # the disk says all is well again: not to be believed
        for _ in range(2):
            with pytest.raises(StoreFailedError, match=r"must be opened again: .*fdatasync"):
                store.commit(Changes())
        assert store.receipt(A, 0) is not None  # reads go on
        assert store.next_number() in (1, 2)
        del working
        store.close()
        reopened = RocksStore.open(folder)
        reopened.commit(Changes())
        assert reopened.next_number() in (1, 2)
        reopened.close()

    def test_a_flush_that_never_returned_normally(self, store: RocksStore) -> None:
        class Dies(FlushFails):
            def flush_wal(self, sync: bool) -> None:
                raise SystemExit

        working = store._database
        store._database = Dies(working)
        with pytest.raises(SystemExit):
            store.commit(Changes())
        store._database = working
        with pytest.raises(StoreError, match="must be opened again"):
            store.commit(Changes())

    def test_a_failed_write_leaves_the_store_usable(self, store: RocksStore) -> None:
        class WriteFails(FlushFails):
            def write(self, batch: WriteBatch) -> None:
                raise Exception("IO error: No space left on device")

        author = Author()
        store.commit(author.batch(A))
        working = store._database
        store._database = WriteFails(working)
        changes = author.batch(A)
        with pytest.raises(StoreError, match=r"writing .* failed: .*No space left"):
            store.commit(changes)
        store._database = working
        assert store.next_number() == 1
        store.commit(changes)
        assert store.next_number() == 2

    @pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="needs a limit on file sizes")
    def test_a_log_that_cannot_grow(self, folder: Path) -> None:
        """A real failed write, in a process of its own: nothing of the batch is seen or kept."""
        code = """
import resource, signal, sys
from ledgerd.store.interface import StoreError
from ledgerd.store.rocks import RocksStore
from tests.helpers.changes import Author, chain_of
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store, author = RocksStore.open(sys.argv[1]), Author()
store.commit(author.batch(chain_of("a")))
resource.setrlimit(resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
try:
    store.commit(author.batch(chain_of("a")))
except StoreError as error:
    print("refused", "File too large" in str(error))
print(store.next_number(), store.receipt(chain_of("a"), 0) is not None)
try:
    store.close()
except StoreError:
    print("closed with an error")
"""
        found = subprocess.run(
            [sys.executable, "-c", code, str(folder)],
            capture_output=True,
            text=True,
            cwd=ROOT,
            check=True,
        )
        assert found.stdout.splitlines()[:2] == ["refused True", "1 True"]
        store = RocksStore.open(folder)
        assert store.next_number() == 1
        store.close()

    def test_close_that_fails_releases_everything(self, folder: Path) -> None:
        store = RocksStore.open(folder)
        store.commit(Author().batch(A))
        store._database = FlushFails(store._database)
        with pytest.raises(StoreError, match=r"closing .* failed"):
            store.close()
        store.close()
        store = RocksStore.open(folder)
        assert store.next_number() == 1
        store.close()


class TestDamage:
    """Whatever is wrong on the disk comes out as StoreError, never as a shorter answer."""

    @pytest.fixture
    def filled(self, store: RocksStore) -> RocksStore:
        author = Author()
        store.commit(author.batch(A, A, A, B))
        store.commit(author.seal())
        return store

    @staticmethod
    def put(store: RocksStore, family: str, key: bytes, value: bytes | None) -> None:
        batch = WriteBatch(raw_mode=True)
        if value is None:
            batch.delete(key, store._handles[family])
        else:
            batch.put(key, value, store._handles[family])
        store._database.write(batch)

    def test_an_entry_missing_in_a_chain(self, filled: RocksStore) -> None:
        self.put(filled, INDEX, schema.encode_place(A, 1), None)
        with pytest.raises(StoreError, match="position 1 is missing"):
            list(filled.entries(A, 0, 2))
        with pytest.raises(StoreError, match="position 1 is missing"):
            list(filled.entries(A, 1, 2))

    @pytest.mark.parametrize("value", [None, b"", b"x"])
    def test_a_receipt_missing_or_torn(self, filled: RocksStore, value: bytes | None) -> None:
        self.put(filled, JOURNAL, schema.encode_number(1), value)
        with pytest.raises(StoreError, match="damaged"):
            filled.receipt(A, 1)

    def test_a_receipt_of_another_place(self, filled: RocksStore) -> None:
        other = filled._get(JOURNAL, schema.encode_number(3))
        self.put(filled, JOURNAL, schema.encode_number(1), other)
        with pytest.raises(StoreError, match=f"1 is not position 1 of {A.hex()}"):
            filled.receipt(A, 1)

    def test_a_leaf_missing(self, filled: RocksStore) -> None:
        self.put(filled, LEAVES, schema.encode_number(0), None)
        with pytest.raises(StoreError, match=r"leaves 0\.\.1 are not all there"):
            filled.leaves(0, 2)
        assert len(filled.leaves(1, 1)) == 1

    def test_records_that_do_not_decode(self, filled: RocksStore) -> None:
        self.put(filled, HEADS, A, b"x")
        self.put(filled, DEFAULT, schema.STATE_KEY, b"x")
        self.put(filled, DEFAULT, b"m" + A, b"")
        self.put(filled, "tiles", schema.tile_key(TileId(0, 0)), b"x")
        reads = [
            lambda: filled.head(A),
            lambda: list(filled.chains()),
            filled.log_state,
            lambda: list(filled.marks()),
            lambda: filled.tile(TileId(0, 0)),
        ]
        for read in reads:
            with pytest.raises(StoreError, match="damaged record"):
                read()

    def test_damaged_files_never_shorten_an_answer(self, folder: Path) -> None:
        store = RocksStore.open(folder)
        store.commit(Author().batch(*[A] * 2000))
        store.close()
        RocksStore.open(folder).close()  # moves the log into files
        for path in sorted(folder.glob("*.sst")):
            data = bytearray(path.read_bytes())
            if len(data) < 20_000:
                continue  # mostly metadata: damage there is found on opening
            data[len(data) // 3] ^= 0xFF
            path.write_bytes(bytes(data))
        store = RocksStore.open(folder)
        refusals = []
        try:
            assert len(list(store.entries(A, 0, 1999))) == 2000
        except StoreError as error:
            refusals.append(str(error))
        for position in range(0, 2000, 50):
            try:
                stored = store.receipt(A, position)
            except StoreError as error:
                refusals.append(str(error))
            else:
                assert stored is not None
                assert stored.position == position
        assert refusals
        assert all("Corruption" in refusal for refusal in refusals)
        store.close()

    def test_looking_back_into_a_damaged_file(self, folder: Path) -> None:
        store = RocksStore.open(folder)
        store.commit(Author().batch(*[A] * 2000))
        store.close()
        RocksStore.open(folder).close()
        store = RocksStore.open(folder)
        whole = {path: path.read_bytes() for path in folder.glob("*.sst")}
        for path, data in whole.items():
            path.write_bytes(b"\xff" * len(data))  # under the open store
        kept = []
        reads = [store.next_number, lambda: list(store.entries(A, 0, 9)), lambda: store.head(A)]
        for read in reads:
            with pytest.raises(StoreError, match="Corruption") as caught:
                read()
            kept.append(caught.value)  # with their tracebacks, which must hold nothing open
        store.close()
        for path, data in whole.items():
            path.write_bytes(data)
        store = RocksStore.open(folder)
        assert store.next_number() == 2000
        store.close()
        assert len(kept) == 3


class TestStats:
    def test_figures(self, folder: Path, store: RocksStore) -> None:
        before = store.stats()
        store.commit(Author().admit(Author().receipt(A, size=1_000_000)))
        after = store.stats()
        assert after.bytes_on_disk >= before.bytes_on_disk + 1_000_000
        assert after.bytes_on_disk == sum(path.stat().st_size for path in folder.iterdir())
        assert 0 < after.free_bytes <= shutil.disk_usage(folder).total
        assert after.background_errors == 0

    def test_a_file_that_goes_meanwhile(self, folder: Path, store: RocksStore) -> None:
        from ledgerd.store.rocks import _size

        (folder / "000999.sst").write_bytes(b"x")
        with os.scandir(folder) as files:
            found = next(file for file in files if file.name == "000999.sst")
        (folder / "000999.sst").unlink()
        assert _size(found) == 0
