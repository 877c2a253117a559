"""The store on RocksDB, embedded: the default. The only module that knows rocksdict.

What the library does, and what follows from it (tests hold each):

- `write(sync=True)` keeps the interpreter lock during fsync, `flush_wal(True)` does not. So a
  commit is an unsynced write, then `flush_wal(True)`, and only then an acknowledgement.
- After a failed fsync the kernel may drop the dirty pages and report success the next time. So the
  store refuses every later commit until it is opened again, which replays the log and rewrites it.
- Snapshots iterate over live data, `items()` ends silently at a damaged block, lower bounds are
  ignored. So there are no snapshots, and rows are read by `_page`, which seeks to where they begin
  and asks for the status when they end.
- A live iterator or column family handle keeps the database open after `close()`. So an iterator
  lives within one call, and generators read page by page.
- Its exceptions are plain `Exception`: all become StoreError here.
"""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rocksdict import (
    BlockBasedIndexType,
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    DBRecoveryMode,
    Options,
    Rdict,
    ReadOptions,
    WriteBatch,
)

from ledgerd.store import anchor_changes, anchor_schema, schema
from ledgerd.store.families import (
    DEFAULT,
    FAMILIES,
    FORMAT_FAMILY,
    HASHES,
    HEADS,
    INDEX,
    JOURNAL,
    LEAVES,
    SEGMENTS,
    TILES,
)
from ledgerd.store.folder import DATABASE_NAME, LOCK_NAME, FolderLock, in_use, is_new, list_names
from ledgerd.store.interface import StoreError, StoreFailedError, StoreStats
from ledgerd.store.rows import RowReader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ledgerd.store.interface import Admitted, Changes, Sealed
    from ledgerd.store.rows import Row

__all__ = ["RocksStore"]

_MIB: Final = 1024 * 1024

BLOCK_CACHE_BYTES: Final = 64 * _MIB  # shared by all families, holds their filters too
MEMTABLES_BYTES: Final = 128 * _MIB  # of all families together
WAL_BYTES: Final = 128 * _MIB  # replayed after a crash: about a second
OPEN_FILES: Final = 512  # half of the usual limit of 1,024 descriptors
WRITE_BUFFER_BYTES: Final = {JOURNAL: 32 * _MIB, INDEX: 16 * _MIB, HASHES: 16 * _MIB}
OTHER_WRITE_BUFFER_BYTES: Final = 4 * _MIB  # small, so that the tombstones of marks go soon
FILTERED: Final = {INDEX, HEADS, HASHES}  # read by exact key, often in vain
INCOMPRESSIBLE: Final = {HASHES, TILES}  # almost only hashes


class RocksStore(RowReader):
    """A Store in one folder. Make one with :meth:`open`.

    `commit` and `close` may be called from different threads; a read that meets `close` raises
    StoreError.
    """

    def __init__(self, path: Path, lock: FolderLock, database: Rdict) -> None:
        self._path = path
        self._lock = lock
        self._database = database
        self._families = {
            name: database if name == DEFAULT else database.get_column_family(name)
            for name in FAMILIES
        }
        self._handles = {name: database.get_column_family_handle(name) for name in FAMILIES}
        self._writing = threading.Lock()
        self._failure: str | None = None  # why no commit can be trusted any more

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, create: bool = True) -> RocksStore:
        """Open the store in a folder.

        Args:
            path: folder of its own; made when missing.
            create: make a new store when the folder is missing or empty.

        Raises:
            StoreInUseError: this or another process has it open.
            ChangedFormatError: it holds something else, or a newer format; nothing was written.
            StoreError: there is no store and `create` is False, or it cannot be opened.
        """
        path = Path(path).absolute()
        names = list_names(path)
        # A foreign folder gets no lock file; in one of ours nothing is read before it is locked.
        lock = FolderLock(path) if LOCK_NAME in names else None
        try:
            families = _list_families(path) if DATABASE_NAME in names else None
            new = is_new(path, names, families)
            _check_exists(path, create or not new)
            lock = lock or FolderLock(path)
            return cls(path, lock, _open_database(path))
        except BaseException:
            if lock is not None:
                lock.release()
            raise

    def close(self) -> None:
        """Flush, release every handle and the folder's lock. Idempotent.

        Raises:
            StoreError: the last flush failed. Everything is released all the same, and nothing that
                was acknowledged is at risk: `commit` had flushed it.
        """
        with self._writing:
            database, self._database = self._database, None
            if database is None:
                return
            self._families.clear()
            self._handles.clear()
            try:
                database.flush_wal(True)
                database.close()
            except Exception as error:
                raise StoreError(f"closing {self._path} failed: {error}") from error
            finally:
                del database  # the last handle: with it goes the database
                self._lock.release()

    # Writing.

    def commit(self, changes: Changes) -> None:
        """Apply atomically and durably; see :class:`ledgerd.store.interface.Store`.

        A write that fails changes nothing and leaves the store usable: after a full disk RocksDB
        goes on by itself, some 5 s after 32 MiB (the largest write buffer) are free again; after
        other errors of the disk its writes fail until the store is opened again. A flush that fails
        leaves a batch that readers see and a crash may lose: no later commit succeeds here.

        Raises:
            StoreError: outcome unknown.
        """
        with self._writing:
            if self._failure is not None:
                raise StoreFailedError(f"{self._path} must be opened again: {self._failure}")
            if self._database is None:
                raise StoreError(f"{self._path} is closed")
            batch = self._batch(changes)
            try:
                self._database.write(batch)  # an empty one too: it fails where a full one would
            except Exception as error:
                raise self._error("writing", error) from error
            self._flush()
            # Commit point: the batch and all before it are on stable storage.

    def _flush(self) -> None:
        self._failure = "a flush did not end"  # if not even an exception comes back
        try:
            self._database.flush_wal(True)
        except Exception as error:
            self._failure = f"an earlier flush failed: {error}"
            failed = f"{self._path} must be opened again: {self._failure}"
            raise StoreFailedError(failed) from error
        self._failure = None

    def _batch(self, changes: Changes) -> WriteBatch:
        batch = WriteBatch(raw_mode=True)
        put = batch.put
        default = self._handles[DEFAULT]
        if changes.admitted:
            self._put_admitted(batch, changes.admitted)
        heads = self._handles[HEADS]
        for chain, head in changes.heads.items():
            put(schema.head_key(chain), schema.encode_head(head), heads)
        for mark in changes.marks:
            put(*schema.encode_mark(mark), default)
        for key in changes.keys:
            put(*schema.encode_key(key), default)
        for fork in changes.forks:
            put(*schema.encode_fork(fork), default)
        if changes.has_anchoring:
            self._put_anchoring(batch, changes)
        if changes.sealed is not None:
            self._put_sealed(batch, changes.sealed)
        return batch

    def _put_admitted(self, batch: WriteBatch, admitted: Sequence[Admitted]) -> None:
        """The hot path: four to six records for each receipt."""
        put = batch.put
        journal, index, hashes = (self._handles[name] for name in (JOURNAL, INDEX, HASHES))
        # Kind by kind, not receipt by receipt: encoders run faster while they are in the caches.
        places = [schema.encode_place(one.chain, one.position) for one in admitted]
        for one in admitted:
            put(schema.encode_number(one.entry.number), schema.encode_stored(one), journal)
        for one, place in zip(admitted, places, strict=True):
            put(place, schema.encode_entry(one.entry), index)
        for one, place in zip(admitted, places, strict=True):
            entry = one.entry
            own, content, link = entry.receipt_hash, entry.content_hash, entry.link_hash
            put(schema.receipt_key(own), place, hashes)
            if own != content or own != link:
                for digest in {content, link} - {own}:
                    put(schema.alias_key(one.chain, digest), place[32:], hashes)

    def _put_sealed(self, batch: WriteBatch, sealed: Sealed) -> None:
        put = batch.put
        default, segments = self._handles[DEFAULT], self._handles[SEGMENTS]
        for index, leaf in enumerate(sealed.leaves, sealed.first_leaf):
            put(schema.encode_number(index), schema.encode_leaf(leaf), self._handles[LEAVES])
        for tile, row in sealed.tiles.items():
            put(schema.tile_key(tile), schema.encode_row(row), self._handles[TILES])
        for segment in sealed.segments:
            put(*schema.encode_segment(segment), segments)
        for key in sealed.keys:
            put(*schema.encode_key(key), default)
        for mark in sealed.cleared:
            batch.delete(schema.encode_mark(mark)[0], default)
        for anchor in sealed.anchors:
            for key_, value in anchor_changes.sealed_rows(anchor):
                put(key_, value, default)
            batch.delete(anchor_schema.unsealed_key(anchor.number), default)
        state = sealed.state
        put(schema.STATE_KEY, schema.encode_state(state), default)
        put(schema.checkpoint_key(state.size), state.note, default)

    def _put_anchoring(self, batch: WriteBatch, changes: Changes) -> None:
        """The only commit that reads: an anchor changes after it was written."""
        default = self._handles[DEFAULT]
        merged = anchor_changes.merge(changes.anchors, self.anchor, self.next_anchor_number)
        anchor_changes.check_following(changes.quarantined, self.next_quarantine_number)
        for key in anchor_changes.dropped_keys(changes, merged):
            batch.delete(key, default)
        for key, value in anchor_changes.put_rows(changes, merged):
            batch.put(key, value, default)

    # Reading.

    def stats(self) -> StoreStats:
        """Bytes of the files in the folder, free bytes of its volume, RocksDB's failed jobs."""
        try:
            with os.scandir(self._path) as files:
                sizes = [_size(file) for file in files]
            free = shutil.disk_usage(self._path).free
            errors = self._families[DEFAULT].property_int_value("rocksdb.background-errors")
        except Exception as error:
            raise self._error("measuring", error) from error
        return StoreStats(sum(sizes), free, errors or 0)

    def _get(self, family: str, key: bytes) -> bytes | None:
        try:
            value: bytes | None = self._families[family].get(key)
        except Exception as error:
            raise self._error("reading", error) from error
        return value

    def _last(self, family: str, key: bytes) -> Row | None:
        """The row with the greatest key that is not above `key`."""
        rows = None
        try:
            rows = self._families[family].iter()
            rows.seek_for_prev(key)
            if rows.valid():
                return rows.key(), rows.value()
            rows.status()
        except Exception as error:
            raise self._error("reading", error) from error
        finally:
            del rows  # a kept traceback must not keep the database open
        return None

    def _page(self, family: str, begin: bytes, end: bytes, limit: int) -> list[Row]:
        """At most `limit` rows with begin <= key < end. Raises StoreError on damage."""
        found: list[Row] = []
        rows = None
        try:
            bound = ReadOptions()
            bound.set_iterate_upper_bound(end)
            rows = self._families[family].iter(bound)
            rows.seek(begin)
            while len(found) < limit and rows.valid():
                found.append((rows.key(), rows.value()))
                rows.next()
            rows.status()  # an iterator that met damage looks like one at its end
        except Exception as error:
            raise self._error("reading", error) from error
        finally:
            del rows
        return found

    def _error(self, doing: str, error: Exception) -> StoreError:
        if self._database is None:
            return StoreError(f"{self._path} is closed")
        return StoreError(f"{doing} {self._path} failed: {error}")


def _size(file: os.DirEntry[str]) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:  # compacted away meanwhile
        return 0


def _check_exists(path: Path, found: bool) -> None:
    if not found:
        raise StoreError(f"there is no ledger in {path}")


def _list_families(path: Path) -> list[str]:
    """Column families by the MANIFEST; does not write."""
    try:
        families: list[str] = Rdict.list_cf(str(path))
    except Exception as error:
        raise StoreError(f"cannot read the database in {path}: {error}") from error
    return families


def _open_database(path: Path) -> Rdict:
    cache = Cache(BLOCK_CACHE_BYTES)
    families = {name: _options(name, cache) for name in (*FAMILIES, FORMAT_FAMILY)}
    try:
        return Rdict(str(path), families.pop(DEFAULT), column_families=families)
    except Exception as error:
        if "/LOCK" in str(error):  # opened by a tool that does not know our own lock
            raise in_use(path) from error
        raise StoreError(f"cannot open the database in {path}: {error}") from error


def _options(family: str, cache: Cache) -> Options:
    options = Options(raw_mode=True)
    # Of the family.
    table = BlockBasedOptions()
    table.set_block_cache(cache)
    table.set_cache_index_and_filter_blocks(True)  # bounds memory as the ledger grows
    table.set_pin_l0_filter_and_index_blocks_in_cache(True)
    table.set_block_size(16 * 1024 if family == JOURNAL else 4 * 1024)
    if family in FILTERED:
        table.set_bloom_filter(10, False)
        # In parts: a look-up brings a 4 KiB part of a filter into the cache, not a whole one.
        table.set_index_type(BlockBasedIndexType.two_level_index_search())
        table.set_partition_filters(True)
    options.set_block_based_table_factory(table)
    none, zstd = DBCompressionType.none(), DBCompressionType.zstd()
    options.set_compression_type(none if family in INCOMPRESSIBLE else zstd)
    options.set_write_buffer_size(WRITE_BUFFER_BYTES.get(family, OTHER_WRITE_BUFFER_BYTES))
    options.set_max_write_buffer_number(4)
    options.set_target_file_size_base((256 if family == JOURNAL else 64) * _MIB)
    options.set_level_compaction_dynamic_level_bytes(True)
    # A stalled write holds the interpreter lock: let compaction fall far behind before that.
    options.set_level_zero_slowdown_writes_trigger(40)
    options.set_level_zero_stop_writes_trigger(80)
    # Of the database; RocksDB takes these from the default family.
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_db_write_buffer_size(MEMTABLES_BYTES)
    options.set_max_total_wal_size(WAL_BYTES)
    options.set_max_open_files(OPEN_FILES)
    options.set_max_background_jobs(max(2, min(4, os.cpu_count() or 2)))
    options.set_bytes_per_sync(_MIB)  # spreads writeback: the log's fsync does not wait behind it
    options.set_keep_log_file_num(5)
    options.set_max_log_file_size(8 * _MIB)
    # After power loss the log may end in a torn batch, which was not acknowledged. Everything up to
    # it is replayed. Damage further up ends replay too: what is lost then shows as a database
    # behind the guard, and the log refuses to sign.
    options.set_wal_recovery_mode(DBRecoveryMode.point_in_time())
    return options
