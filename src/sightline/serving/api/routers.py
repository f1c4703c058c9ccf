"""All routers of the interface."""

from sightline.serving.api import (
    libretranslate,
    looking,
    openai_chat,
    openai_completions,
    openai_embeddings,
    openai_models,
    reading,
)
from sightline.serving.api.desk import Desk
from sightline.serving.route import Router

MODULES = (
    openai_models,
    openai_completions,
    openai_chat,
    openai_embeddings,
    libretranslate,
    reading,
    looking,
)


def routers(desk: Desk) -> list[Router]:
    """Return the routers, all asking the same desk."""
    return [module.router(desk) for module in MODULES]
