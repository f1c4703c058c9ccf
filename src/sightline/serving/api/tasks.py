"""/tasks/NAME: any task by its own request fields, one handler for all of them."""

import json
from collections.abc import Callable, Coroutine
from typing import Annotated, Any

from pydantic import BaseModel, Field, create_model
from starlette.requests import Request

from sightline.errors import InputError
from sightline.serving.api.openai_generation import DecodingFields
from sightline.serving.api.submit import NO_MODEL, Submitter, generic_endpoint
from sightline.serving.http.problem import Problem, without_names
from sightline.serving.http.routing import Body, Router
from sightline.tasks.registry import TASKS
from sightline.tasks.task import REQUIRED, GeneratedText, RequestField, Task

Handler = Callable[[Any, Request], Coroutine[Any, Any, Any]]


def router(submitter: Submitter) -> Router:
    """Return a route for every task."""
    routes = Router(tags=["Sightline"], responses=NO_MODEL)
    for task in TASKS.values():
        routes.add_api_route(
            generic_endpoint(task),
            make_handler(task, submitter),
            methods=["POST"],
            summary=f"Use a model that {task.does}",
            response_model=response_type(task),
        )
    return routes


def make_handler(task: Task, submitter: Submitter) -> Handler:
    """Return the handler of a task's requests."""

    async def handle(body: Any, request: Request) -> Any:
        pipeline = submitter.models.get(body.model, task=task)
        values = {entry.name: getattr(body, entry.name) for entry in task.request}
        param = next((name for name, value in values.items() if value is not None), "input")
        try:
            inputs, options = task.read_request(pipeline, values)
        except InputError as error:
            raise Problem(400, without_names(error.reason), param=error.option, code="invalid_value") from None
        if task.generates:
            return {"data": await generate(submitter, request, task, pipeline, body, inputs, options, param=param)}
        results, _ = await submitter.call_on_texts(
            request,
            pipeline,
            (task.name, json.dumps(options, sort_keys=True)),
            lambda many: task.answer(pipeline, many, **options),
            inputs,
            param=param,
        )
        return {"data": results}

    handle.__annotations__ = {"body": body_type(task), "request": Request}  # FastAPI reads the fields from here
    return handle


async def generate(
    submitter: Submitter,
    request: Request,
    task: Task,
    pipeline: Any,
    body: DecodingFields,
    inputs: list[Any],
    options: dict[str, Any],
    *,
    param: str,
) -> list[list[GeneratedText]]:
    """Return the texts generated for each input, together with what other clients ask of the model."""
    settings = body.settings_for(pipeline, submitter.limits, max_tokens=getattr(body, "max_tokens", None))
    groups = await submitter.create_job_groups(
        pipeline, lambda one: task.create_job_group(pipeline, one, settings, **options), inputs, param=param
    )
    found = await submitter.generate_groups(request, pipeline, groups)
    return [
        [
            GeneratedText(
                one.text,
                one.score,
                one.log_probability,
                one.finish_reason,
                task.confidence(one),
                task.target_language(one),
                list(task.warnings(one)),
            )
            for one in several
        ]
        for several in found
    ]


def body_type(task: Task) -> type[Body]:
    """Return the type of a task's request bodies, made from its request fields."""
    fields: dict[str, Any] = {entry.name: body_field(entry) for entry in task.request}
    fields["model"] = (str | None, Field(None, description="Model id; required if several models do this."))
    if task.generates:
        fields["max_tokens"] = (
            Annotated[int, Field(ge=1)] | None,
            Field(None, description="Maximum number of tokens to generate."),
        )
    base = DecodingFields if task.generates else Body
    made: type[Body] = create_model(f"{type(task).__name__}Body", __base__=base, **fields)
    made.__doc__ = f"A request to a model that {task.does}."
    return made


def body_field(entry: RequestField) -> tuple[Any, Any]:
    """Return the type and default of one request field."""
    kind = entry.type
    if entry.minimum is not None or entry.maximum is not None:
        kind = Annotated[kind, Field(ge=entry.minimum, le=entry.maximum)]
    if entry.max_length is not None:
        kind = Annotated[kind, Field(max_length=entry.max_length)]
    return kind, Field(... if entry.default is REQUIRED else entry.default, description=entry.description)


def response_type(task: Task) -> type[BaseModel]:
    """Return the type of a task's responses: a result for each input."""
    results: Any = list.__class_getitem__(task.result_type())  # known only when the server starts
    made: type[BaseModel] = create_model(f"{type(task).__name__}Response", data=(results, ...))
    made.__doc__ = "The result for each input, in order."
    return made
