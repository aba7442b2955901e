"""A client that sends messages to one session as fast as it can: `python flood.py URL SESSION SECONDS CONNECTIONS`.

A process of its own, so that it takes no time of the server's. Prints how often it got each status, what a refusal
said, and that refusal's `Retry-After`, as JSON.
"""

import asyncio
import json
import sys
import time
from collections import Counter
from urllib.parse import urlsplit

statuses: Counter[str] = Counter()
refusal: dict[str, str] = {}


async def sender(host: str, port: int, session: str, ends_at: float) -> None:
    body = json.dumps({"text": "flood"}).encode()
    head = (
        f"POST /v1/sessions/{session}/inputs HTTP/1.1\r\nhost: {host}:{port}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    ).encode()
    reader, writer = await asyncio.open_connection(host, port)
    while time.monotonic() < ends_at:
        writer.write(head + body)
        status, headers, answer = await response(reader)
        statuses[status] += 1
        if status == "429":
            refusal.update(answer=answer.decode(), retry_after=headers.get("retry-after", ""))
    writer.close()


async def response(reader: asyncio.StreamReader) -> tuple[str, dict[str, str], bytes]:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    return first.split()[1], headers, await reader.readexactly(int(headers["content-length"]))


async def main(url: str, session: str, seconds: str, connections: str) -> None:
    address = urlsplit(url)
    ends_at = time.monotonic() + float(seconds)
    senders = (
        sender(str(address.hostname), int(address.port or 80), session, ends_at) for _ in range(int(connections))
    )
    await asyncio.gather(*senders)
    print(json.dumps({"statuses": statuses, **refusal}))


asyncio.run(main(*sys.argv[1:]))
