"""Run the peers' bench with Perdure in it:

    PERDURE_PEERS=<their folder> PEERS_HOME=<scratch folder> python bench/peers/run.py --peers perdure,langgraph

The options are those of their `run_peers.py`. It works on a copy of their folder, because each peer's process looks for
its module there. Perdure runs in the Python that runs this, unless `PERDURE_PYTHON` names another one.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from types import ModuleType

ADAPTER = Path(__file__).with_name("peer_perdure.py")
PYTHON = "PERDURE_PYTHON"


def main() -> int:
    """Run their program. Returns its exit code."""
    peers = os.environ.get("PERDURE_PEERS", "")
    if not (Path(peers) / "run_peers.py").is_file():
        print(f"PERDURE_PEERS is {peers!r}: set it to the folder that holds run_peers.py", file=sys.stderr)
        return 2
    os.environ.setdefault(PYTHON, sys.executable)
    with tempfile.TemporaryDirectory(prefix="perdure-peers-") as folder:
        bench = _with_perdure(Path(peers), Path(folder))
        return int(bench.main())


def _with_perdure(peers: Path, folder: Path) -> ModuleType:
    """Return their program, imported from a copy that has our adapter."""
    for file in (*peers.glob("*.py"), ADAPTER):
        shutil.copyfile(file, folder / file.name)
    sys.path.insert(0, str(folder))
    import run_peers  # type: ignore[import-not-found]

    # Theirs: peer -> module, and the name of an environment or of a variable that names a Python.
    run_peers.PEERS = {"perdure": (ADAPTER.stem, PYTHON), **run_peers.PEERS}
    program: ModuleType = run_peers
    return program


if __name__ == "__main__":
    sys.exit(main())
