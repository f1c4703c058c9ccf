"""A server in a process of its own, for tests of shutdown. Prints its URL; its endpoint runs until it reads a line."""

import asyncio
import sys

from sightline.serving.http import Limits, ServingSettings, bind, create_app, serve
from sightline.serving.http.routing import Router

HOUR = 3600


def main() -> None:
    router = Router()

    @router.get("/v1/work")
    async def work() -> dict[str, str]:
        loop, line_read = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(sys.stdin, line_read.set)
        print("working", flush=True)  # noqa: T201 - for the test
        await line_read.wait()
        loop.remove_reader(sys.stdin)
        return {"work": "done"}

    limits = Limits(header_timeout=HOUR, keep_alive_timeout=HOUR, request_timeout=HOUR, shutdown_timeout=HOUR)
    settings = ServingSettings(port=0, limits=limits)
    app = create_app(settings, routers=[router])
    serve(app, bind(settings), started=lambda url: print(url, flush=True))  # noqa: T201 - for the test


main()
