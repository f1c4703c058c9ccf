"""The models of a server, by the ids under which clients ask for them."""

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
    404: {"description": "No model of this server has this name, or does this."}
}
"""What every route answers that asks a model."""

WORK = {
    Translator: ("translates", "POST /translate"),
    Chat: ("converses", "POST /v1/chat/completions"),
    Generator: ("goes on with texts", "POST /v1/completions"),
    Filler: ("fills gaps", "POST /fill"),
    Classifier: ("classifies", "POST /classify"),
}
"""What each kind of model does, and where it is asked."""


class Shelf:
    """What there is to be asked. Requests name an id from here, never a path."""

    def __init__(self, models: Mapping[str, Pipeline]) -> None:
        for name in models:
            if not ID.fullmatch(name):
                raise RefusedError(f"{name[:70]!r} is no id for a model: up to 64 of a-z, 0-9, dot, hyphen, underscore")
        self.models = dict(models)

    def named(self, name: str | None, kind: type[SomePipeline]) -> SomePipeline:
        """Return the model of this name that does this kind of work; without a name, the only one that does."""
        if name is None:
            return self._only(kind)
        if name not in self.models:
            raise Problem(404, "there is no model of this name: GET /v1/models lists them", code="model_not_found")
        model = self.models[name]
        if not isinstance(model, kind):
            does, where = WORK.get(type(model), ("gives vectors", "POST /v1/embeddings"))
            raise Problem(400, f"this model {does}: ask it by {where}", param="model", code="wrong_kind_of_model")
        return model

    def of_kind(self, kind: type[SomePipeline]) -> dict[str, SomePipeline]:
        """Return the models that do some kind of work."""
        return {name: model for name, model in self.models.items() if isinstance(model, kind)}

    def _only(self, kind: type[SomePipeline]) -> SomePipeline:
        found = list(self.of_kind(kind).values())
        if len(found) == 1:
            return found[0]
        if found:
            raise Problem(400, "several models could do this: name one as `model`", param="model", code="which_model")
        raise Problem(404, "no model of this server does this: GET /v1/models lists them", code="model_not_found")


def model_id(folder: Path, taken: Mapping[str, object]) -> str:
    """Return an id for the model in a folder: the name of its run, made plain, and a number where that is taken."""
    folder = folder.resolve()
    name = folder.parent.name if folder.name == "model" else folder.name
    plain = re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("-._")[:58] or "model"
    candidates = [plain, *(f"{plain}-{number}" for number in range(2, len(taken) + 2))]
    return next(candidate for candidate in candidates if candidate not in taken)
