"""Runs the unit tests of the console's pure modules in Node."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser

FOLDER = Path(__file__).parent


def test_the_pure_modules_of_the_console_pass_their_own_tests() -> None:
    node = shutil.which("node")
    assert node, "the console's unit tests need node 20 or newer on PATH"
    files = sorted(str(file) for file in FOLDER.glob("*.test.mjs"))

    ran = subprocess.run(
        [
            node,
            "--experimental-detect-module",
            "--import",
            str(FOLDER / "served.mjs"),
            "--test",
            "--test-reporter=tap",
            *files,
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    passed = re.search(r"^# pass (\d+)$", ran.stdout, re.MULTILINE)
    assert passed, ran.stdout
    assert int(passed.group(1)) >= 70
