"""The console's files and those of the JavaScript client beside it: from a checkout, and from the wheel."""

import os
import posixpath
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from perdure.embedded.pages import CLIENT_SOURCE, client_folder, read_pages
from perdure.errors import ConfigurationError

ROOT = Path(__file__).resolve().parents[3]
IMPORT = re.compile(r'^(?:import|export)\b[^;]*?\bfrom "(?P<name>[^"]+)";', re.MULTILINE)


def test_every_module_that_a_page_imports_is_served() -> None:
    pages = read_pages()

    imported = [
        (path, match["name"])
        for path, (content, _) in pages.items()
        if path.startswith("/console/") and path.endswith(".js")
        for match in IMPORT.finditer(content.decode())
    ]

    assert any(name == "../client/reducer.js" for _, name in imported)
    resolved = {posixpath.normpath(posixpath.join(posixpath.dirname(path), name)) for path, name in imported}
    assert resolved - set(pages) == set()


def test_a_wheel_serves_what_a_checkout_serves(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    [wheel] = tmp_path.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")

    program = (
        "from perdure.embedded.pages import client_folder, read_pages; print(client_folder()); print(len(read_pages()))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "installed")},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr
    folder, count = ran.stdout.split()
    assert Path(folder) == tmp_path / "installed" / "perdure" / "embedded" / "client"
    assert int(count) == len(read_pages())


def test_without_the_client_the_error_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        client_folder(tmp_path / "installed", tmp_path / "source")

    assert str(tmp_path / "installed") in str(caught.value)
    assert client_folder(tmp_path / "installed") == CLIENT_SOURCE
