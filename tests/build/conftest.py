"""What `make build` made, for the tests that look at it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.build.cloudformation import ROOT, Template, read_template

BUILT = ROOT / ".aws-sam" / "build"


@pytest.fixture(scope="session")
def built() -> Path:
    if not (BUILT / "template.yaml").is_file():
        pytest.fail("nothing is built: run make build before pytest -m build")
    return BUILT


@pytest.fixture(scope="session")
def template() -> Template:
    return Template(read_template())
