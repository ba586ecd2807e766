#!/usr/bin/env bash
# Expected: Python's garbage collector looks at the youngest objects once 700 more were created than freed, so a look is
#   at about 700 objects and takes well under a millisecond, however many requests a server has open.
# Happens: freeing an old object counts against the creation of new ones. A server with 2,000 waiting requests frees one
#   request for each that it accepts, so the count stays near 0 while the objects of all open requests pile up in the
#   youngest generation. The next look is at tens of thousands of objects, in the middle of a burst, and stops all threads.
# Version: starlette 1.10.0, CPython 3.11 to 3.13 (3.14 counts differently), Linux.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q starlette==1.10.0
"$folder/venv/bin/python" - <<'PY'
import asyncio
import gc
import sys
from collections import deque

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

OPEN, SERVED, BURST = 2_000, 20_000, 100
turns = deque()


async def answer(request):
    turns.append(asyncio.get_running_loop().create_future())
    await turns[-1]
    return PlainTextResponse("done")


app = Starlette(routes=[Route("/", answer)])


async def request():
    headers = [(b"host", b"localhost"), (b"accept", b"*/*"), (b"user-agent", b"client")]
    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": headers, "root_path": ""}

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        pass

    await app(scope | {"server": ("localhost", 80), "client": ("localhost", 1), "scheme": "http"}, receive, send)


async def main():
    tasks = {asyncio.create_task(request()) for _ in range(OPEN)}
    await asyncio.sleep(0.1)
    gc.collect()
    looked = []

    def note(phase, facts):
        if phase == "start" and facts["generation"] == 0:
            looked.append(len(gc.get_objects(generation=0)))

    gc.callbacks.append(note)
    for number in range(SERVED):  # one request leaves, the next one comes
        turns.popleft().set_result(None)
        tasks.add(asyncio.create_task(request()))
        tasks = {task for task in tasks if not task.done()} if number % 100 == 0 else tasks
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    tasks |= {asyncio.create_task(request()) for _ in range(BURST)}
    await asyncio.sleep(0.1)
    gc.callbacks.remove(note)
    for turn in turns:
        turn.set_result(None)
    await asyncio.gather(*tasks)
    return looked


threshold = gc.get_threshold()[0]
looked = asyncio.run(main())
largest = max(looked, default=0)
print(f"CPython {sys.version.split()[0]}: {SERVED:,} requests, {OPEN:,} open at any time, threshold {threshold:,}")
print(f"the youngest generation was looked through {len(looked):,} times, {largest:,} objects at most")
if sys.version_info >= (3, 14):
    sys.exit(0)
if largest < 10 * threshold:
    sys.exit("The behavior changed: the youngest generation stays near its threshold.")
PY
