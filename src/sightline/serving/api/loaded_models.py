"""The loaded models of a server, by id."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from sightline.errors import RefusedError
from sightline.pipelines import Chat, Classifier, Filler, Generator, Pipeline, Translator
from sightline.serving.problem import Problem

ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
SomePipeline = TypeVar("SomePipeline", bound=Pipeline)

NO_MODEL: dict[int | str, dict[str, Any]] = {
    404: {"description": "The server has no model with this id, or none for this endpoint."}
}
"""The additional response of every route that uses a model."""

ENDPOINTS = {
    Translator: ("translates", "POST /translate"),
    Chat: ("replies to conversations", "POST /v1/chat/completions"),
    Generator: ("continues prompts", "POST /v1/completions"),
    Filler: ("fills masks", "POST /fill"),
    Classifier: ("classifies", "POST /classify"),
}
"""What each kind of model does, and its endpoint."""


class LoadedModels:
    """The models by id. Requests give an id, never a path."""

    def __init__(self, models: Mapping[str, Pipeline]) -> None:
        for name in models:
            if not ID.fullmatch(name):
                raise RefusedError(
                    f"model id {name[:70]!r} is invalid: use up to 64 of a-z, 0-9, dot, hyphen, underscore"
                )
        self.models = dict(models)

    def get(self, name: str | None, kind: type[SomePipeline]) -> SomePipeline:
        """Return the model with this id, which must be of this kind; without an id, the only one of this kind."""
        if name is None:
            return self._only(kind)
        if name not in self.models:
            raise Problem(404, "model not found: GET /v1/models lists the models", code="model_not_found")
        model = self.models[name]
        if not isinstance(model, kind):
            does, where = ENDPOINTS.get(type(model), ("computes embeddings", "POST /v1/embeddings"))
            raise Problem(400, f"model: this one {does}: use {where}", param="model", code="wrong_kind_of_model")
        return model

    def of_kind(self, kind: type[SomePipeline]) -> dict[str, SomePipeline]:
        """Return the models of one kind, by id."""
        return {name: model for name, model in self.models.items() if isinstance(model, kind)}

    def _only(self, kind: type[SomePipeline]) -> SomePipeline:
        found = list(self.of_kind(kind).values())
        if len(found) == 1:
            return found[0]
        if found:
            raise Problem(400, "model is required: several models support this", param="model", code="which_model")
        raise Problem(404, "no model of this server supports this: GET /v1/models lists them", code="model_not_found")


def model_id(folder: Path, taken: Mapping[str, object]) -> str:
    """Return an id for the model in a folder: the name of its run in plain characters, numbered if it is taken."""
    folder = folder.resolve()
    name = folder.parent.name if folder.name == "model" else folder.name
    plain = re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("-._")[:58] or "model"
    candidates = [plain, *(f"{plain}-{number}" for number in range(2, len(taken) + 2))]
    return next(candidate for candidate in candidates if candidate not in taken)
