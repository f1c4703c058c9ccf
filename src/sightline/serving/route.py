"""The router of endpoints: parses bodies strictly, and cancels an endpoint when its client disconnects."""

import inspect
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from sightline.serving.body import integer_fields, parse_body
from sightline.serving.disconnect import CancelOnDisconnect

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class StrictRoute(APIRoute):
    """A route whose body is parsed strictly, and whose endpoint is cancelled when its client disconnects."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        if not inspect.iscoroutinefunction(endpoint) and not inspect.isasyncgenfunction(endpoint):
            raise TypeError(f"{path}: the endpoint must be `async def`, or it cannot be cancelled")
        super().__init__(path, endpoint, **options)

    @property
    def accepts_form(self) -> bool:
        """Whether the endpoint accepts a form as well."""
        return bool(getattr(self.endpoint, "accepts_form", False))

    def get_route_handler(self) -> Handler:
        """Return FastAPI's handler, run after strict parsing and cancelled on disconnect."""
        handler = super().get_route_handler()
        has_body, form = self.body_field is not None, self.accepts_form
        integers = integer_fields(self.body_field.field_info.annotation if self.body_field else None)

        async def strict(request: Request) -> Response:
            if has_body:
                request = await parse_body(request, form=form, integers=integers)
            else:
                await request.body()
            async with CancelOnDisconnect(request):
                return await handler(request)
            raise AssertionError("unreachable")

        return strict


class Router(APIRouter):
    """FastAPI's router with every route a `StrictRoute`: `@router.post("/v1/…")`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(route_class=StrictRoute, redirect_slashes=False, **options)
