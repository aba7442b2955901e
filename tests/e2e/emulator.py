"""AWS on this machine: ministack, and microburst in front of it for everything that our functions call.

Both live in `.venv-e2e`. Functions are real processes of that Python; they see the injector as AWS
(`AWS_ENDPOINT_URL`), while tests and `sam deploy` talk to ministack itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from perdure.testing.processes import free_port

ROOT = Path(__file__).resolve().parents[2]
E2E_BIN = ROOT / ".venv-e2e" / "bin"

REGION = "us-east-1"
ACCOUNT = "000000000000"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": REGION}

START_SECONDS = 60
ROOM_BYTES = 8 * 1024**3

JsonObject = dict[str, Any]

_COUNTER = re.compile(r'^microburst_faults_total\{service="(.*)",operation="(.*)",action="(.*)"\} (\d+)$', re.MULTILINE)

GOOD = "match"
"""What the injector calls it when nothing was done to a call."""

OBSERVED: JsonObject = {"service": "*", "latency": 0}
"""The last rule of every set: nothing happens, and the injector's counters know of every call."""


class Emulator:
    """The two processes. What they log is in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        # Every container unpacks its layers: some 100 MB, forty times over.
        memory = Path("/dev/shm")
        roomy = memory.is_dir() and shutil.disk_usage(memory).free > ROOM_BYTES
        self.temporary = Path(tempfile.mkdtemp(prefix="perdure-e2e-", dir=memory if roomy else None))
        """What functions see as their temporary folder; it is removed at the end."""
        self.port = free_port()
        self.injector_port = free_port()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._environment: dict[str, str] = {}

    @property
    def environment(self) -> dict[str, str]:
        """What functions have in theirs beside what the template gives them."""
        return dict(self._environment)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def injector(self) -> str:
        return f"http://127.0.0.1:{self.injector_port}"

    def start(self, *, proxy: str, authority: Path, guarded: bool = False) -> None:
        """Start both and return when they answer.

        Args:
            proxy: Through which functions and the gateway reach hosts with TLS.
            authority: Whose certificates they trust.
            guarded: Signatures and roles are checked, and there is no injector: requests that it hands on are signed
                for another host.
        """
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "OPENAI_"))},
            **CREDENTIALS,
            "TMPDIR": str(self.temporary),
            "HTTPS_PROXY": proxy,
            "SSL_CERT_FILE": str(authority),
            "AWS_CA_BUNDLE": str(authority),
            "AWS_ENDPOINT_URL": self.injector,
            "BIND_HOST": "127.0.0.1",
            "GATEWAY_PORT": str(self.port),
            "MINISTACK_HOST": f"{REGION}.amazonaws.com",
            "MINISTACK_REGION": REGION,
            "IOT_MTLS_ENABLED": "0",
            "SFTP_ENABLED": "0",
            "LOG_LEVEL": "INFO",
        }
        if guarded:
            self._environment |= {"AUTH": "true", "AWS_ENDPOINT_URL": self.url}
            self._run("ministack", "ministack")
            _wait_for(f"{self.url}/_ministack/health")
            return
        self._run("injector", "microburst", "--upstream", self.url, "--port", str(self.injector_port), "--no-resign")
        self._run("ministack", "ministack")
        _wait_for(f"{self.url}/_ministack/health")
        _wait_for(f"{self.injector}/_microburst/health")
        self.inject()

    def kill_handlers(self, function: str = "") -> int:
        """Kill every process in which functions run, or one function by its name, and return how many there were."""
        ministack = str(self._processes["ministack"].pid)
        listed = subprocess.run(["ps", "-axww", "-o", "pid=,pgid=,args="], capture_output=True, text=True, check=True)
        rows = [line.split(maxsplit=2) for line in listed.stdout.splitlines()]
        handlers = [row[0] for row in rows if row[1] == ministack != row[0] and f"-{function}" in row[2]]
        for pid in handlers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        return len(handlers)

    def stop(self) -> None:
        """End everything."""
        for name in list(self._processes):
            self._end(name)
        shutil.rmtree(self.temporary, ignore_errors=True)

    # --- faults ----------------------------------------------------------------------------------------------------

    def inject(self, *rules: JsonObject) -> None:
        """Have exactly these faults from now on; none: all calls go through."""
        self._control("POST", "rules", [*rules, OBSERVED])

    def counted(self) -> dict[tuple[str, str, str], int]:
        """Return how often each (service, operation, what was done to it) was seen since the start; see `OBSERVED`."""
        with urllib.request.urlopen(f"{self.injector}/_microburst/metrics", timeout=10) as reply:
            text = reply.read().decode()
        return {(found[1], found[2], found[3]): int(found[4]) for found in _COUNTER.finditer(text)}

    def _control(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.injector}/_microburst/{path}", data, method=method)
        with urllib.request.urlopen(request, timeout=10) as reply:
            return json.load(reply)

    # --- processes -------------------------------------------------------------------------------------------------

    def _run(self, name: str, program: str, *arguments: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [E2E_BIN / program, *arguments],
                cwd=self.folder,
                env=self._environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _end(self, name: str) -> None:
        process = self._processes.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # handlers are in the group of ministack
        process.wait()


def _wait_for(url: str) -> None:
    give_up = time.monotonic() + START_SECONDS
    while True:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except (urllib.error.URLError, OSError) as error:
            if time.monotonic() > give_up:
                raise AssertionError(f"{url} gave no answer in {START_SECONDS} s: {error}") from error
            time.sleep(0.1)
