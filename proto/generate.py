"""Regenerate the committed stubs, or check that they are fresh.

Usage: python proto/generate.py [--check]
"""

from __future__ import annotations

import filecmp
import sys
import tempfile
from importlib import resources
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = Path("receiptledger/v1")
TARGET = ROOT / "client" / PACKAGE
SOURCES = sorted(
    str(path.relative_to(ROOT / "proto")) for path in (ROOT / "proto" / PACKAGE).glob("*.proto")
)


def generate(into: Path) -> None:
    """Write all stubs below `into`."""
    include = str(resources.files("grpc_tools") / "_proto")
    plugin = Path(sys.executable).parent
    code = protoc.main(
        [
            "protoc",
            f"--proto_path={ROOT / 'proto'}",
            f"--proto_path={include}",
            f"--plugin=protoc-gen-mypy={plugin / 'protoc-gen-mypy'}",
            f"--plugin=protoc-gen-mypy_grpc={plugin / 'protoc-gen-mypy_grpc'}",
            f"--python_out={into}",
            f"--grpc_python_out={into}",
            f"--mypy_out=quiet:{into}",
            f"--mypy_grpc_out=quiet:{into}",
            *SOURCES,
        ]
    )
    if code != 0:
        sys.exit(code)
    (into / PACKAGE / "__init__.py").write_text(
        '"""Generated from proto/; `make proto` writes it anew."""\n'
    )


def main() -> None:
    """Generate in place, or compare with what is committed."""
    if "--check" not in sys.argv[1:]:
        generate(ROOT / "client")
        return
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder)
        generate(fresh)
        names = sorted(path.name for path in (fresh / PACKAGE).iterdir())
        committed = sorted(path.name for path in TARGET.iterdir() if path.is_file())
        _, differ, missing = filecmp.cmpfiles(fresh / PACKAGE, TARGET, names, shallow=False)
        if differ or missing or names != committed:
            stale = {*differ, *missing, *(set(names) ^ set(committed))}
            sys.exit(f"stale stubs: {sorted(stale)}; run `make proto`")
    print("stubs are fresh")


if __name__ == "__main__":
    main()
