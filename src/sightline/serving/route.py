"""Where endpoints are written: a `Router` whose routes read bodies strictly and stop when the client goes."""

import inspect
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from sightline.serving.body import whole_numbers, with_parsed_body
from sightline.serving.gone import CancelledWhenGone

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class StrictRoute(APIRoute):
    """A route whose body is parsed by `strict_json`, and whose endpoint is cancelled when its client goes."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        if not inspect.iscoroutinefunction(endpoint) and not inspect.isasyncgenfunction(endpoint):
            raise TypeError(f"{path}: write the endpoint as `async def`, or it cannot be cancelled")
        super().__init__(path, endpoint, **options)

    @property
    def accepts_form(self) -> bool:
        """Whether the endpoint may be asked by a form too."""
        return bool(getattr(self.endpoint, "accepts_form", False))

    def get_route_handler(self) -> Handler:
        """Return FastAPI's handler with the body read before and the client watched meanwhile."""
        handler = super().get_route_handler()
        has_body, form = self.body_field is not None, self.accepts_form
        numbers = whole_numbers(self.body_field.field_info.annotation if self.body_field else None)

        async def strict(request: Request) -> Response:
            if has_body:
                request = await with_parsed_body(request, form=form, numbers=numbers)
            else:
                await request.body()
            async with CancelledWhenGone(request):
                return await handler(request)
            raise AssertionError("unreachable")

        return strict


class Router(APIRouter):
    """What endpoints are added to: `@router.post("/v1/…")` as with FastAPI, every route a `StrictRoute`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(route_class=StrictRoute, redirect_slashes=False, **options)
