"""A server in a process of its own, for tests of how it ends. Says its address on stdout; its work ends with a line."""

import asyncio
import sys

from sightline.serving import Limits, ServingSettings, bind, create_app, serve
from sightline.serving.route import Router

HOUR = 3600


def main() -> None:
    router = Router()

    @router.get("/v1/work")
    async def work() -> dict[str, str]:
        loop, told = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(sys.stdin, told.set)
        print("working", flush=True)  # noqa: T201 - for the test
        await told.wait()
        loop.remove_reader(sys.stdin)
        return {"work": "done"}

    limits = Limits(header_seconds=HOUR, keep_alive_seconds=HOUR, request_seconds=HOUR, stop_seconds=HOUR)
    settings = ServingSettings(port=0, limits=limits)
    app = create_app(settings, routers=[router])
    serve(app, bind(settings), started=lambda url: print(url, flush=True))  # noqa: T201 - for the test


main()
