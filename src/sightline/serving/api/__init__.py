"""What the server answers: the interfaces that people already have clients for, and our own.

    shelf        the models by their ids         desk        from a request to an errand of the scheduler
    openai_*     /v1/models, completions, chat/completions, embeddings
    libretranslate                               /translate, /languages, /detect
    reading      /classify, /fill                looking     /trace

A field that is not listed is refused, not ignored: a client shall not believe that something was done that was not.
"""

from sightline.serving.api.desk import Desk
from sightline.serving.api.routers import routers
from sightline.serving.api.shelf import Shelf, model_id

__all__ = ["Desk", "Shelf", "model_id", "routers"]
