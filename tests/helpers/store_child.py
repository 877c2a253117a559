"""A process that commits to a store for ever and says so after each commit, to be killed.

python -m tests.helpers.store_child FOLDER FROM
"""

from __future__ import annotations

import itertools
import sys

from ledgerd.store.rocks import RocksStore
from tests.helpers.changes import commits


def main(folder: str, done: int) -> None:
    store = RocksStore.open(folder)
    print("open", flush=True)
    for count, changes in enumerate(itertools.islice(commits(), done, None), done + 1):
        store.commit(changes)
        print(count, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
