"""A server in a process of its own, for tests of how it ends. Says its address on stdout."""

import asyncio
import sys

from sightline.serving import Limits, ServingSettings, bind, create_app, serve
from sightline.serving.route import Router


def main(stop_seconds: float, work_seconds: float) -> None:
    router = Router()

    @router.get("/v1/work")
    async def work() -> dict[str, str]:
        print("working", flush=True)  # noqa: T201 - for the test
        await asyncio.sleep(work_seconds)
        return {"work": "done"}

    settings = ServingSettings(port=0, limits=Limits(stop_seconds=stop_seconds))
    app = create_app(settings, routers=[router])
    serve(app, bind(settings), started=lambda url: print(url, flush=True))  # noqa: T201 - for the test


main(float(sys.argv[1]), float(sys.argv[2]))
