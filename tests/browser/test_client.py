"""Runs the JavaScript client's own tests in Node: the shared cases, and a server that is cut and silenced."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser

TESTS = Path(__file__).resolve().parents[2] / "clients" / "js" / "test"


def test_the_javascript_client_passes_its_own_tests() -> None:
    node = shutil.which("node")
    assert node, "the client's tests need node 20 or newer on PATH"
    files = sorted(str(file) for file in TESTS.glob("*.test.mjs"))

    ran = subprocess.run(
        [node, "--test", "--test-reporter=tap", *files], capture_output=True, text=True, timeout=120, check=False
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    passed = re.search(r"^# pass (\d+)$", ran.stdout, re.MULTILINE)
    assert passed, ran.stdout
    assert int(passed.group(1)) >= 55
