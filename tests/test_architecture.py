"""The import rules of the design, enforced: who may know whom, and that nobody knows in circles."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CLIENT = ROOT / "client" / "receiptledger"
DAEMON = ROOT / "ledgerd"

CORE_FORBIDDEN = {
    "asyncio",
    "io",
    "logging",
    "os",
    "pathlib",
    "random",
    "secrets",
    "socket",
    "ssl",
    "subprocess",
    "tempfile",
    "threading",
    "time",
}
CORE_LIBRARIES = {"nacl", "orjson", "rfc8785", "receiptledger"}
# X.509, the signatures of timestamp authorities, and receipts that are not signed with Ed25519.
CRYPTOGRAPHY = re.compile(
    r"receiptledger\.core\.(timestamp|tsa|revocation|renewal|anchor|algorithms)\w*"
)
PROTOBUF = {"grpc", "google", "grpc_health", "grpc_reflection", "grpc_status"}
MAX_LINES = 400
MAX_FUNCTION_LINES = 70


def modules() -> dict[str, Path]:
    """Every hand-written module of the distribution by dotted name."""
    found = {}
    for base, root in ((CLIENT, CLIENT.parent), (DAEMON, ROOT)):
        for path in base.rglob("*.py"):
            parts = path.relative_to(root).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            if not name.startswith("receiptledger.v1"):
                found[name] = path
    return found


MODULES = modules()


def imports(path: Path, *, runtime_only: bool = False) -> set[str]:
    """Dotted names a file imports; with `runtime_only`, without TYPE_CHECKING blocks."""
    tree = ast.parse(path.read_text("utf-8"))
    skipped: set[ast.AST] = set()
    if runtime_only:
        for node in ast.walk(tree):
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                skipped |= {child for stmt in node.body for child in ast.walk(stmt)}
    names: set[str] = set()
    for node in ast.walk(tree):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            base = node.module or ""
            names.add(base)
            names |= {
                f"{base}.{alias.name}" for alias in node.names if f"{base}.{alias.name}" in MODULES
            }
    return names


def top(name: str) -> str:
    return name.partition(".")[0]


def test_there_is_something_to_check() -> None:
    assert "receiptledger.core.merkle" in MODULES
    assert "ledgerd.daemon" in MODULES


@pytest.mark.parametrize("name", [n for n in MODULES if n.startswith("receiptledger.core")])
def test_core_is_pure(name: str) -> None:
    """Core imports the standard library without I/O, its crypto and canonicalisation, and itself."""
    libraries = CORE_LIBRARIES | ({"cryptography"} if CRYPTOGRAPHY.fullmatch(name) else set())
    for used in imports(MODULES[name]):
        assert top(used) not in CORE_FORBIDDEN, f"{name} imports {used}"
        assert top(used) in libraries or top(used) in sys.stdlib_module_names, (
            f"{name} imports {used}"
        )
        if top(used) == "receiptledger":
            assert used.startswith("receiptledger.core"), f"{name} imports {used}"


@pytest.mark.parametrize("name", [n for n in MODULES if n.startswith("receiptledger")])
def test_client_never_imports_the_daemon(name: str) -> None:
    assert "ledgerd" not in {top(used) for used in imports(MODULES[name])}


def test_rocksdb_is_in_one_place() -> None:
    users = {
        name for name, path in MODULES.items() if "rocksdict" in {top(u) for u in imports(path)}
    }
    assert users == {"ledgerd.store.rocks"}


def test_protobuf_is_at_the_edges() -> None:
    users = {
        name
        for name, path in MODULES.items()
        if any(top(u) in PROTOBUF or u.startswith("receiptledger.v1") for u in imports(path))
    }
    edges = ("ledgerd.rpc.", "receiptledger.transport")
    allowed = {name for name in MODULES if name.startswith(edges)}
    assert users <= allowed, users - allowed


PACKAGES = {"ledgerd", "ledgerd.anchoring", "ledgerd.store", "ledgerd.tsa"}
LAYERS = {
    # module prefix -> prefixes of ledgerd it may import
    "ledgerd.store": {"ledgerd.store"},
    "ledgerd.guard": set(),
    "ledgerd.signer": set(),
    "ledgerd.seal": {"ledgerd.store.interface"},
    "ledgerd.keyring": set(),
    "ledgerd.verification": {"ledgerd.keyring"},
    "ledgerd.admission": {
        *("ledgerd.keyring", "ledgerd.parking"),
        *("ledgerd.store.interface", "ledgerd.verification"),
    },
    "ledgerd.board": {"ledgerd.store.interface"},
    "ledgerd.sequencer": {"ledgerd.guard", "ledgerd.seal", "ledgerd.store.interface"},
    "ledgerd.reader": {
        "ledgerd.anchoring.reader",
        "ledgerd.store.interface",
        "ledgerd.subtree_cache",
    },
    "ledgerd.subtree_cache": set(),
    "ledgerd.tsa": {"ledgerd.tsa"},
    "ledgerd.devtsa": {"ledgerd.devtsa"},
    "ledgerd.anchoring": {
        "ledgerd.anchoring",
        "ledgerd.config",
        "ledgerd.store.interface",
        "ledgerd.tsa",
        "ledgerd.writer",
    },
    "ledgerd.anchoring.breaker": {"ledgerd.anchoring"},
    "ledgerd.anchoring.plan": {"ledgerd.anchoring.breaker"},
    "ledgerd.anchoring.choice": {"ledgerd.store.interface"},
    "ledgerd.anchoring.reader": {"ledgerd.anchoring.choice", "ledgerd.store.interface"},
}


@pytest.mark.parametrize("prefix", sorted(LAYERS))
def test_inner_parts_know_only_what_is_below(prefix: str) -> None:
    """Stores are seen through records and small Protocols; nobody but the daemon sees all."""
    for name, path in MODULES.items():
        if name != prefix and not name.startswith(prefix + "."):
            continue
        for used in imports(path):
            if top(used) == "ledgerd" and used not in PACKAGES:
                assert any(used == ok or used.startswith(ok + ".") for ok in LAYERS[prefix]), (
                    f"{name} imports {used}"
                )


def test_only_the_composition_root_opens_the_database() -> None:
    users = {n for n, p in MODULES.items() if "ledgerd.store.rocks" in imports(p)}
    assert users <= {
        "ledgerd.daemon",
        "ledgerd.commands",
        "ledgerd.store.fsck",
        "ledgerd.maintenance",
    }, users


def test_no_import_cycles() -> None:
    """Run-time imports form no circle."""
    graph = {
        name: {
            used for used in imports(path, runtime_only=True) if used in MODULES and used != name
        }
        for name, path in MODULES.items()
    }
    done: set[str] = set()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " -> ".join((*trail[trail.index(name) :], name))
        if name in done:
            return
        for used in sorted(graph[name]):
            visit(used, (*trail, name))
        done.add(name)

    for name in sorted(graph):
        visit(name, ())


@pytest.mark.parametrize("name", sorted(MODULES))
def test_files_and_functions_stay_readable(name: str) -> None:
    text = MODULES[name].read_text("utf-8")
    assert text.count("\n") <= MAX_LINES, f"{name} has {text.count(chr(10))} lines"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = (node.end_lineno or node.lineno) - node.lineno + 1
            assert size <= MAX_FUNCTION_LINES, f"{name}.{node.name} has {size} lines"


@pytest.mark.parametrize("name", sorted(MODULES))
def test_every_module_says_what_it_is(name: str) -> None:
    assert ast.get_docstring(ast.parse(MODULES[name].read_text("utf-8"))), (
        f"{name} has no docstring"
    )
