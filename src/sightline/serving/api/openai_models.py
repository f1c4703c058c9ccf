"""/v1/models and /v1/embeddings: the models of the server, and texts as vectors."""

import base64
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import BaseModel, Field
from starlette.requests import Request

from sightline.serving.api.submit import NO_MODEL, Submitter, endpoint_of, join_texts, run_off_loop
from sightline.serving.http.routing import Body, Router
from sightline.tasks.registry import task_of
from sightline.tasks.task import EXAMPLE, StudioView

if TYPE_CHECKING:
    from sightline.pipelines import Pipeline


class Example(BaseModel):
    """An example input."""

    text: str
    second: str | None = Field(default=None, description="The second text of a pair.")
    to: str | None = Field(default=None, description="Translation: target language, if the model has several.")
    reference: str = Field(default="", description="What the validation set says is right.")


class About(BaseModel):
    """What the model does and was trained on, as far as its folder says."""

    does: str | None = Field(description="What a model of its task does, as in a sentence about it.")
    files: list[str] = Field(description="Names of the training files.")
    n_examples: int | None = Field(description="Number of training examples.")
    n_validation: int | None = Field(description="Number of validation examples, which it was not trained on.")
    scores: dict[str, float] = Field(description="Scores on the validation set.")
    checks_inputs: bool = Field(description="Whether it is known what its inputs looked like: see `unfamiliar`.")


class Code(BaseModel):
    """Where the model is implemented."""

    name: str = Field(description="Its class.")
    file: str = Field(description="The file of the class, within its package.")


class ModelCard(BaseModel):
    """One model."""

    id: str
    object: Literal["model"] = "model"
    created: int = Field(default=0, description="Always 0: the creation time is not published.")
    owned_by: Literal["sightline"] = "sightline"
    task: str | None = Field(description="Task the model was trained for.")
    endpoint: str = Field(description="Endpoint for this model.")
    parameters: int
    max_length: int | None = Field(description="Maximum length in tokens; null if the model has none.")
    languages: list[str] = Field(description="Target languages, if the model has several.")
    chooses_target: bool = Field(
        description="Whether /tasks/translation may be asked without the target language: the other of two."
    )
    source_language: str | None = Field(description="Language of its sources, if it translates in one direction.")
    target_language: str | None = Field(description="Language of its targets, if it translates in one direction.")
    about: About = Field(description="What the model does and was trained on.")
    example: Example = Field(description="An example input.")
    examples: list[Example] = Field(description="Inputs of its validation set; empty if its folder has none.")
    code: Code = Field(description="Where the model is implemented.")
    generates: bool = Field(description="Whether the model generates text.")
    view: StudioView = Field(description="How the studio shows the model.")


class ModelList(BaseModel):
    """All models."""

    object: Literal["list"] = "list"
    data: list[ModelCard]


class UnfamiliarBody(Body):
    """The input to check."""

    input: str | list[str] = Field(description="A text, or the parts of one input.")


class Unfamiliar(BaseModel):
    """Whether an input is unlike anything the model was trained to read."""

    note: str | None = Field(description="A sentence for people; null if the input is like the validation set.")
    unseen_words: list[str] = Field(description="Words that the training inputs did not contain.")
    n_words: int = Field(description="Words of the input.")


def models_router(submitter: Submitter) -> Router:
    """Return the routes that list and describe models."""
    routes = Router(tags=["models"])

    @routes.get("/v1/models", summary="List the models")
    async def models() -> ModelList:
        return ModelList(data=[build_card(name, model) for name, model in submitter.models.models.items()])

    @routes.get("/v1/models/{name}", summary="Describe a model")
    async def model(name: str) -> ModelCard:
        return build_card(name, submitter.models.get(name))

    @routes.post("/v1/models/{name}/unfamiliar", summary="Tell whether an input is unlike the training data")
    async def unfamiliar(name: str, body: UnfamiliarBody) -> Unfamiliar:
        pipeline: Pipeline = submitter.models.get(name)
        found = await run_off_loop(pipeline.find_unfamiliar, join_texts(body.input))
        if found is None:
            return Unfamiliar(note=None, unseen_words=[], n_words=0)
        return Unfamiliar(note=found.note, unseen_words=list(found.unseen_words), n_words=found.n_words)

    return routes


def build_card(name: str, model: "Pipeline") -> ModelCard:
    """Describe a model."""
    task, facts = task_of(model), model.bundle.training
    examples = [Example(**vars(one)) for one in facts.examples]
    return ModelCard(
        id=name,
        task=model.task,
        endpoint=f"POST {endpoint_of(model).path}",
        parameters=sum(parameter.numel() for parameter in model.model.parameters()),
        max_length=model.max_length,
        languages=list(model.languages),
        chooses_target=model.chooses_target,
        source_language=model.task_config.source_language if model.task_config else None,
        target_language=model.task_config.target_language if model.task_config else None,
        about=About(
            does=task.describe(model.task_config, facts) if task else None,
            files=list(facts.files),
            n_examples=facts.n_examples,
            n_validation=facts.n_validation,
            scores=dict(facts.scores),
            checks_inputs=facts.inputs is not None,
        ),
        example=examples[0] if examples else Example(**(task.example(model) if task else EXAMPLE)),
        examples=examples,
        code=find_code(type(model.model)),
        generates=model.generates,
        view=task.view_of(model) if task else StudioView(),
    )


def find_code(kind: type) -> Code:
    """Return the class of a model and its file, as the documents name it: model/gpt.py."""
    return Code(name=kind.__name__, file="/".join(kind.__module__.removeprefix("sightline.").split(".")) + ".py")


class EmbeddingBody(Body):
    """The texts to embed."""

    model: str
    input: str | list[str]
    encoding_format: Literal["float", "base64"] | None = None


class Embedding(BaseModel):
    """One embedding: numbers, or their bytes (float32, little-endian) in base64."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class EmbeddingUsage(BaseModel):
    """Token counts of a request."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingList(BaseModel):
    """All embeddings."""

    object: Literal["list"] = "list"
    data: list[Embedding]
    model: str
    usage: EmbeddingUsage


def embeddings_router(submitter: Submitter) -> Router:
    """Return the route that embeds texts."""
    routes = Router(tags=["OpenAI"], responses=NO_MODEL)

    @routes.post("/v1/embeddings", summary="Embed texts")
    async def embeddings(body: EmbeddingBody, request: Request) -> EmbeddingList:
        model = submitter.models.get(body.model)
        texts = [body.input] if isinstance(body.input, str) else body.input
        vectors, n_tokens = await submitter.call_on_texts(
            request, model, "embed", lambda many: list(model.embed(many)), texts, param="input"
        )
        data = [
            Embedding(index=number, embedding=encode_vector(vector.numpy(), body.encoding_format))
            for number, vector in enumerate(vectors)
        ]
        usage = EmbeddingUsage(prompt_tokens=n_tokens, total_tokens=n_tokens)
        return EmbeddingList(data=data, model=body.model, usage=usage)

    return routes


def encode_vector(vector: np.ndarray, encoding_format: str | None) -> list[float] | str:
    """Return an embedding in the requested format."""
    if encoding_format == "base64":
        return base64.b64encode(vector.astype("<f4").tobytes()).decode("ascii")
    return [float(number) for number in vector]
