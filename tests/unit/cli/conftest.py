import pytest

from tests.unit.cli import talkers


@pytest.fixture(autouse=True)
def fresh_talkers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test talkers that nobody has talked to, whichever test ran before it in this process."""
    monkeypatch.setattr(talkers, "gate", talkers.Gate())
    monkeypatch.setattr(talkers, "wiped", [])
    monkeypatch.setattr(talkers, "mended", [])
