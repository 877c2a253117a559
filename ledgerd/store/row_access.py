"""The primitives a driver gives, and reading many rows with them: what all reading stands on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

from ledgerd.store.families import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["LARGE_ROWS", "PAGE_ROWS", "Row", "RowAccess", "count_rows"]

PAGE_ROWS: Final = 256  # read at once by the generators ...
LARGE_ROWS: Final = 16  # ... and where a row may have 1 MiB

Row = tuple[bytes, bytes]  # key, value


class RowAccess(ABC):
    """Sorted rows in families. Methods raise StoreError on damage; see the interface."""

    @abstractmethod
    def _get(self, family: str, key: bytes) -> bytes | None:
        """Value of one key."""

    @abstractmethod
    def _last(self, family: str, key: bytes) -> Row | None:
        """The row with the greatest key that is not above `key`."""

    @abstractmethod
    def _page(self, family: str, begin: bytes, end: bytes, limit: int) -> list[Row]:
        """At most `limit` rows with begin <= key < end, in key order."""

    def _rows(
        self, family: str, begin: bytes, end: bytes, page_rows: int = PAGE_ROWS
    ) -> Iterator[Row]:
        """All rows with begin <= key < end, read page by page."""
        while True:
            page = self._page(family, begin, end, page_rows)
            yield from page
            if len(page) < page_rows:
                return
            begin = page[-1][0] + b"\x00"

    def _scope(self, prefix: bytes, page_rows: int = PAGE_ROWS) -> Iterator[Row]:
        """All rows of the default family whose key begins with `prefix`."""
        return self._rows(DEFAULT, prefix, prefix + b"\xff" * 73, page_rows)


def count_rows(rows: Iterator[Row]) -> int:
    """How many there are."""
    return sum(1 for _ in rows)
