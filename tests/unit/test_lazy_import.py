"""`import perdure` stays cheap: what only some users need is imported where they use it."""

import subprocess
import sys

LATER = ("boto3", "botocore", "httpx", "mcp", "opentelemetry", "pytest", "starlette", "uvicorn", "websockets")


def loaded_by(statement: str) -> list[str]:
    """Return which of the packages in LATER a fresh interpreter has loaded after the statement."""
    script = f"{statement}\nimport sys\nprint(*(name for name in {LATER!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_importing_perdure_loads_no_provider_server_or_tracing_package() -> None:
    assert loaded_by("import perdure") == []


def test_only_the_conformance_suites_need_pytest() -> None:
    modules = "fixtures, perdure.testing.gates, perdure.testing.processes, perdure.testing.providers"

    assert loaded_by(f"import perdure.testing.{modules}") == []
    assert "pytest" in loaded_by("import perdure.testing.conformance")


def test_a_package_that_is_loaded_is_seen() -> None:
    assert loaded_by("import httpx") == ["httpx"]
