"""All routers of the API."""

from sightline.serving.api import (
    classify_fill,
    libretranslate,
    openai_chat,
    openai_completions,
    openai_embeddings,
    openai_models,
    trace,
)
from sightline.serving.api.submit import Submitter
from sightline.serving.route import Router

MODULES = (
    openai_models,
    openai_completions,
    openai_chat,
    openai_embeddings,
    libretranslate,
    classify_fill,
    trace,
)


def routers(submitter: Submitter) -> list[Router]:
    """Return the routers, all with the same submitter."""
    return [module.router(submitter) for module in MODULES]
