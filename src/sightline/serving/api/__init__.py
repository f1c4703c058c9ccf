"""The HTTP API: OpenAI's and LibreTranslate's, for which clients exist, and our own endpoints.

    loaded_models   models by id                 submit      from an HTTP request to the scheduler
    openai_*        /v1/models, completions, chat/completions, embeddings
    libretranslate  /translate, /languages, /detect
    classify_fill   /classify, /fill             trace       /trace

Unknown fields are refused, not ignored, so that no client believes an option took effect that did not.
"""

from sightline.serving.api.submit import LoadedModels, Submitter, model_id

__all__ = ["LoadedModels", "Submitter", "model_id"]
