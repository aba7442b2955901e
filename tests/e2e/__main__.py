"""Deploy the stack to an AWS on this machine and keep it, to try things by hand: `make e2e-stack`. Ctrl-C ends it."""

from __future__ import annotations

import contextlib
import threading

from tests.e2e.emulator import ROOT
from tests.e2e.world import deployed


def main() -> None:
    with contextlib.suppress(KeyboardInterrupt), deployed(ROOT / "build" / "e2e-stack") as world:
        print(f"export HTTPS_PROXY={world.outside.proxy} SSL_CERT_FILE={world.outside.authority}")
        print(f"export URL={world.stack.outputs['HttpUrl']} SOCKET_URL={world.stack.outputs['SocketUrl']}")
        print(f"export AWS_ENDPOINT_URL={world.emulator.url} TOKEN={world.outside.issuer.token()}", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
