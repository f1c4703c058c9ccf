"""Pipelines: a model with its tokenizer, text in and text out.

    Translator   translate, translations          an encoder–decoder, or a GPT, trained on pairs
    Chat         reply, replies, conversation     an encoder–decoder, or a GPT, trained on dialogues
    Generator    generate, stream, continuations  a GPT
    Filler       fill, fillings                   a BERT with a masked-language-model head
    Classifier   classify, tag, tags              a BERT with a classification head

Each of them can also `embed` texts, find the `neighbors` of a word, and `trace` what the model does with a text.
`sightline.load` opens a model folder as the right pipeline. Pipelines that generate can also return a `GenerationJob`,
to be run later. A batch gives the same results as one text at a time, only faster. Nothing here knows how a model was
trained, or draws anything.
"""

from sightline.pipelines.chat import Chat, Conversation
from sightline.pipelines.classifier import Classification, ClassifiedWord, Classifier
from sightline.pipelines.filler import Candidate, Filler, Filling
from sightline.pipelines.generation import Generation, GenerationJob, GenerativePipeline, TextStreamer
from sightline.pipelines.generator import Generator
from sightline.pipelines.neighbors import Neighbor
from sightline.pipelines.pipeline import Pipeline
from sightline.pipelines.translator import TranslatedSentence, Translation, Translator
from sightline.tracing import Link

__all__ = [
    "Candidate",
    "Chat",
    "Classification",
    "ClassifiedWord",
    "Classifier",
    "Conversation",
    "Filler",
    "Filling",
    "Generation",
    "GenerationJob",
    "GenerativePipeline",
    "Generator",
    "Link",
    "Neighbor",
    "Pipeline",
    "TextStreamer",
    "TranslatedSentence",
    "Translation",
    "Translator",
]
