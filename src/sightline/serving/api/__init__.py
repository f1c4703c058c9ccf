"""The HTTP API: OpenAI's and LibreTranslate's, for which clients exist, and our own endpoints.

    submit             models by id; from an HTTP request to the scheduler
    openai_generation  /v1/completions, /v1/chat/completions
    openai_models      /v1/models, /v1/embeddings
    libretranslate     /translate, /languages, /detect
    tasks              /tasks/NAME: any task by its request fields
    trace              /trace

Unknown fields are refused, not ignored, so that no client believes an option took effect that did not.
"""

from sightline.serving.api.submit import LoadedModels, Submitter, model_id

__all__ = ["LoadedModels", "Submitter", "model_id"]
