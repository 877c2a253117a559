"""`make interop`: foreign tools read a running daemon, and the ledger reads what they make.

Go (golang.org/x/mod/sumdb and the tessera client, in main.go) and Python packages by others
(peers.py) verify checkpoints, rebuild roots from tiles and entry bundles, and prove inclusion and
consistency. Then the other way: what they make is accepted here, every damaged variant refused.
sigstore's timestamp authority (timestamps.py) stamps for us, and its verifier judges our stamps.
One line a check; exits 1 when one failed. Without Go its part is skipped, loudly.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections import defaultdict
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import ours
import timestamps
from item import Item, damaged, same_but_for_spare_bits
from ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

HERE = Path(__file__).resolve().parent
PROGRAM = HERE / "bin" / "interop"
SEED = 20_261_130
# Around every edge: powers of two, one tile, two tiles, and a second level of tiles above them.
SIZES = (2, 3, 4, 7, 8, 100, 255, 256, 257, 511, 512, 513, 700)
BUILD_SECONDS, PIP_SECONDS, RUN_SECONDS = 600, 600, 180

Verdicts = dict[str, str]  # of each tool: "" or why it refused


class Tally:
    """Prints each check and counts."""

    def __init__(self) -> None:
        self.passed = self.failed = self.skipped = 0

    def check(self, what: str, problem: str = "") -> None:
        """One check: passed unless there is a problem."""
        self.failed += bool(problem)
        self.passed += not problem
        print(f"FAILED  {what}: {problem[:2_000]}" if problem else f"ok      {what}", flush=True)

    def skip(self, why: str) -> None:
        """A whole part that cannot run here."""
        self.skipped += 1
        print(f"\n{'!' * 78}\n!!  SKIPPED: {why}\n{'!' * 78}\n", flush=True)

    def accepted(
        self, whose: str, items: Iterable[Item], judge: Callable[[list[Item]], list[Verdicts]]
    ) -> None:
        """One check for each tool and kind: all of these items are accepted."""
        items = list(items)
        refused: dict[str, list[str]] = defaultdict(list)
        counts: dict[str, int] = defaultdict(int)
        for item, verdicts in zip(items, judge(items), strict=True):
            for tool, problem in verdicts.items():
                key = f"{tool} accepts each {item.kind} {whose}"
                counts[key] += 1
                refused[key] += [f"{item.name}: {problem} {item.to_json()}"] if problem else []
        self._groups(counts, refused)

    def refused(
        self, whose: str, items: Iterable[Item], judge: Callable[[list[Item]], list[Verdicts]]
    ) -> None:
        """One check for each tool and kind: every damaged variant of these items is refused."""
        pairs = [(item, variant) for item in items for variant in damaged(item)]
        accepted: dict[str, list[str]] = defaultdict(list)
        counts: dict[str, int] = defaultdict(int)
        for (item, variant), verdicts in zip(pairs, judge([v for _, v in pairs]), strict=True):
            for tool, problem in verdicts.items():
                # x/mod reads base64 laxly, ours does not: the bytes it verified are the same.
                if tool != ours.TOOL and not problem and same_but_for_spare_bits(item, variant):
                    continue
                key = f"{tool} refuses each damaged {item.kind} {whose}"
                counts[key] += 1
                accepted[key] += [] if problem else [f"{variant.name}: {variant.to_json()}"]
        self._groups(counts, accepted)

    def _groups(self, counts: dict[str, int], problems: dict[str, list[str]]) -> None:
        if not counts:
            self.check("there is something to judge", "nothing came")
        for key, count in counts.items():
            bad = problems[key]
            self.check(f"{key} ({count})", f"{len(bad)}, first {bad[0]}" if bad else "")


def go_judge(items: list[Item]) -> list[Verdicts]:
    """Verdicts of the Go tools."""
    lines = "".join(item.to_json() + "\n" for item in items)
    return [json.loads(line) for line in go(["judge"], lines)]


def go(arguments: list[str], lines: str = "") -> Iterator[str]:
    """Run the Go program; lines in, lines out."""
    done = subprocess.run(
        [str(PROGRAM), *arguments],
        input=lines,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=RUN_SECONDS,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"interop {arguments[0]} exited {done.returncode}: {done.stderr}")
    return iter(done.stdout.removesuffix("\n").split("\n"))


def our_judge(items: list[Item]) -> list[Verdicts]:
    """Verdicts of the ledger's own verifier."""
    return [ours.judge(item) for item in items]


def build(tally: Tally, folder: Path, program: Path, what: str) -> bool:
    """Build a Go program; False when its part, which is `what`, cannot run."""
    command = shutil.which("go")
    if command is None:
        tally.skip(f"Go is not installed: {what}")
        return False
    environment = os.environ | {"GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
    version = run([command, "env", "GOVERSION"], environment, 60, folder)
    found = re.match(r"go(\d+)\.(\d+)", version.stdout)
    needed = re.search(r"(?m)^go (\d+)\.(\d+)", (folder / "go.mod").read_text())
    if found and needed and [int(n) for n in found.groups()] < [int(n) for n in needed.groups()]:
        tally.skip(f"{needed[0]} or newer is needed, not {version.stdout.strip()}: {what}")
        return False
    arguments = [command, "build", "-buildvcs=false", "-trimpath", "-o", str(program), "."]
    built = run(arguments, environment, BUILD_SECONDS, folder)
    problem = built.stderr or f"exit code {built.returncode}"
    tally.check(
        f"{program.name} builds with {version.stdout.strip()}", problem if built.returncode else ""
    )
    return not built.returncode


def install_peers(tally: Tally) -> bool:
    """Install the Python peers; asks no registry when they are there already."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = run([*pip, "--requirement", str(HERE / "requirements.txt")], os.environ, PIP_SECONDS)
    tally.check("the Python peers install", done.stderr if done.returncode else "")
    return not done.returncode


def run(
    command: list[str],
    environment: os._Environ[str] | dict[str, str],
    seconds: float,
    folder: Path = HERE,
) -> subprocess.CompletedProcess[str]:
    """Run a tool of the build in a folder."""
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def go_side(tally: Tally, ledger: Ledger, items: list[Item]) -> None:
    """Go reads the daemon and judges ours; we judge Go's."""
    trees = [item for item in items if item.kind == "checkpoint"]
    lines = "".join(tree.to_json() + "\n" for tree in trees)
    for line in go(["read", ledger.url], lines):
        check = json.loads(line)
        tally.check("Go: " + check["check"], check["detail"])
    made = list(ours.make(SEED))
    tally.accepted("of the daemon", items, go_judge)
    tally.accepted("of ours", made, go_judge)
    # Names are left out: what is no tile name to us may be one to a tool that allows more.
    tally.refused("of ours", (item for item in made if item.kind != "tile"), go_judge)
    theirs = [Item.from_json(line) for line in go(["make", str(SEED)])]
    tally.accepted("of Go", theirs, our_judge)
    tally.refused("of Go", theirs, our_judge)


def python_side(tally: Tally, ledger: Ledger, items: list[Item], folder: Path) -> None:
    """The same with the Python packages."""
    import peers  # not before they are installed

    def judge(items: list[Item]) -> list[Verdicts]:
        return [peers.judge(item) for item in items]

    trees = [item for item in items if item.kind == "checkpoint"]
    for what, problem in peers.read(ledger.url, trees):
        tally.check("Python: " + what, problem)
    made = list(ours.make(SEED))
    tally.accepted("of the daemon", items, judge)
    tally.accepted("of ours", made, judge)
    proofs = [item for item in made if item.kind in ("inclusion", "consistency")]
    tally.refused("of ours", proofs, judge)
    theirs = list(peers.make(SEED, folder))
    tally.accepted("of the Python peers", theirs, our_judge)
    tally.refused("of the Python peers", theirs, our_judge)


@contextmanager
def part(tally: Tally, what: str) -> Iterator[None]:
    """Whatever else goes wrong fails this part, and the next one still runs."""
    try:
        yield
    except Exception as error:
        traceback.print_exc()
        tally.check(what, repr(error))


def main() -> int:
    """Run everything; the last line counts."""
    tally = Tally()
    has_go = has_peers = False
    with part(tally, "building the Go program"):
        has_go = build(tally, HERE, PROGRAM, "x/mod and tessera did not look at the log")
    has_tsa = False
    with part(tally, "building sigstore's timestamp authority"):
        why = "sigstore's timestamp authority did not stamp"
        has_tsa = build(tally, timestamps.FOLDER, timestamps.PROGRAM, why)
    with part(tally, "installing the Python peers"):
        has_peers = install_peers(tally)
    with tempfile.TemporaryDirectory() as name, part(tally, "running the daemon"):
        folder = Path(name)
        with Ledger(folder / "data") as ledger:
            grown = [ledger.grow(size).checkpoint.size for size in SIZES]
            wrong = "" if tuple(grown) == SIZES else f"want {SIZES}, got {grown}"
            tally.check(f"the daemon publishes a checkpoint at each of {len(SIZES)} sizes", wrong)
            items = list(ledger.items())
            if has_go:
                with part(tally, "holding the ledger against Go"):
                    go_side(tally, ledger, items)
            if has_peers:
                with part(tally, "holding the ledger against the Python peers"):
                    python_side(tally, ledger, items, folder)
        if has_tsa:
            with part(tally, "stamping with sigstore"):
                (folder / "timestamps").mkdir()
                timestamps.check(tally.check, folder / "timestamps")
        tally.check("the daemon stops cleanly", f"{ledger.exit_code}" if ledger.exit_code else "")
    print(f"\n{tally.passed} passed, {tally.failed} failed, {tally.skipped} skipped")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
