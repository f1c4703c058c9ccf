"""Text in, text out: a model with its tokenizer, asked in plain language.

    Translator   translate, translations          an encoder–decoder
    Chat         reply, replies, conversation     an encoder–decoder that was given turns
    Generator    generate, stream, continuations  a GPT
    Filler       fill, fillings                   a BERT with a head for masked words
    Classifier   classify, tag, tags              a BERT with a head for classes

All of them `embed` texts, know the `neighbors` of words, and show by `trace` what the model did with a text. `load`
opens a folder as the pipeline that fits it, and those that write can hand out a `Task` instead of doing it at once.
Many texts at once give the same as one by one, only sooner. Nothing here knows how a model was trained, or draws
anything.
"""

from sightline.pipelines.chat import Chat, Conversation
from sightline.pipelines.classifier import Classification, Classifier
from sightline.pipelines.filler import Candidate, Filler, Filling
from sightline.pipelines.fitting import load, pipeline_for
from sightline.pipelines.generator import Generator
from sightline.pipelines.neighbors import Neighbor
from sightline.pipelines.pipeline import Pipeline
from sightline.pipelines.stream import Unfolding
from sightline.pipelines.task import Author, Task
from sightline.pipelines.translator import Translation, Translator
from sightline.pipelines.writing import Writing
from sightline.tracing import Link, Trace

__all__ = [
    "Author",
    "Candidate",
    "Chat",
    "Classification",
    "Classifier",
    "Conversation",
    "Filler",
    "Filling",
    "Generator",
    "Link",
    "Neighbor",
    "Pipeline",
    "Task",
    "Trace",
    "Translation",
    "Translator",
    "Unfolding",
    "Writing",
    "load",
    "pipeline_for",
]
