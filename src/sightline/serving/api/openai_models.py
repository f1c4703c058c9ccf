"""/v1/models: what there is to be asked."""

from typing import Literal

from pydantic import BaseModel, Field

from sightline.pipelines import Chat, Classifier, Filler, Generator, Pipeline, Translator
from sightline.serving.api.desk import Desk
from sightline.serving.api.shelf import WORK
from sightline.serving.problem import Problem
from sightline.serving.route import Router

PROMPTS: dict[type[Pipeline], str] = {
    Chat: "Hi how are you",
    Generator: "Once",
    Filler: "The [MASK] dog",
    Classifier: "What a day",
}
"""What each kind of model may be asked, to see it at work."""


class Example(BaseModel):
    """Something to ask a model."""

    text: str
    to: str | None = Field(default=None, description="Translation: into which language, where there is a choice.")


class ModelCard(BaseModel):
    """One model."""

    id: str
    object: Literal["model"] = "model"
    created: int = Field(default=0, description="Always 0: when a model was made is not told.")
    owned_by: Literal["sightline"] = "sightline"
    task: str | None = Field(description="What it was made for.")
    endpoint: str = Field(description="Where it is asked.")
    parameters: int
    max_length: int | None = Field(description="The most tokens it takes; null for no limit of its own.")
    languages: list[str] = Field(description="Those it translates into, where there is a choice.")
    example: Example = Field(description="Something to ask it.")


class ModelList(BaseModel):
    """All models."""

    object: Literal["list"] = "list"
    data: list[ModelCard]


def router(desk: Desk) -> Router:
    """Return the routes that tell which models there are."""
    routes = Router(tags=["models"])

    @routes.get("/v1/models", summary="List the models")
    async def models() -> ModelList:
        return ModelList(data=[card(name, model) for name, model in desk.shelf.models.items()])

    @routes.get("/v1/models/{name}", summary="Describe a model")
    async def model(name: str) -> ModelCard:
        if name not in desk.shelf.models:
            raise Problem(404, "there is no model of this name: GET /v1/models lists them", code="model_not_found")
        return card(name, desk.shelf.models[name])

    return routes


def card(name: str, model: Pipeline) -> ModelCard:
    """Describe a model."""
    return ModelCard(
        id=name,
        task=model.purpose.task if model.purpose else None,
        endpoint=WORK.get(type(model), ("", "POST /v1/embeddings"))[1],
        parameters=sum(parameter.numel() for parameter in model.model.parameters()),
        max_length=model.max_length,
        languages=list(model.languages) if isinstance(model, Translator) else [],
        example=example_for(model),
    )


def example_for(model: Pipeline) -> Example:
    """Return something to ask a model."""
    if not isinstance(model, Translator):
        return Example(text=PROMPTS.get(type(model), "What a day"))
    if len(model.languages) < 2:
        return Example(text="Good morning")
    return Example(text="March 14, 2026", to="de" if "de" in model.languages else model.languages[1])
