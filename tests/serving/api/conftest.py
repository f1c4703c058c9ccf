"""A server with a small model of every kind, and clients for it."""

from collections.abc import Iterator

import httpx
import openai
import pytest

from pipelines.tiny import (
    chat_bundle,
    classifier_bundle,
    filler_bundle,
    generator_bundle,
    many_languages_bundle,
    translator_bundle,
)
from sightline.pipelines import Chat, Classifier, Filler, Generator, Pipeline, Translator
from sightline.serving.http import ServingSettings
from sightline.serving.service import service

from ..standing import standing
from ..wire import PATIENCE, asking


@pytest.fixture(scope="session")
def models() -> dict[str, Pipeline]:
    return {
        "phrases": Translator(many_languages_bundle()),
        "one-way": Translator(translator_bundle()),
        "talk": Chat(chat_bundle()),
        "gpt": Generator(generator_bundle()),
        "bert": Filler(filler_bundle()),
        "classes": Classifier(classifier_bundle()),
        "tags": Classifier(classifier_bundle(per_word=True)),
    }


@pytest.fixture(scope="session")
def url(models) -> Iterator[str]:
    with standing(service(models, ServingSettings(port=0))) as server:
        yield server.url


@pytest.fixture(scope="session")
def http(url) -> Iterator[httpx.Client]:
    with asking(url) as client:
        yield client


@pytest.fixture(scope="session")
def client(url) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="not-needed", max_retries=0, timeout=PATIENCE) as client:
        yield client
