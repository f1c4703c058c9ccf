"""`sightline serve`: models that other programs, and people, can ask over HTTP."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sightline.cli.limit_options import with_limits
from sightline.errors import RefusedError

if TYPE_CHECKING:
    from sightline.pipelines import Pipeline


@with_limits
def serve(
    models: Annotated[
        list[str], typer.Argument(metavar="MODEL", help="Model folders or runs; NAME=FOLDER gives one an id.")
    ],
    host: Annotated[str, typer.Option(metavar="HOST", help="Where to listen; others need a key.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, metavar="N", help="The port; 0 for any free one.")] = 8000,
    api_key: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", envvar="SIGHTLINE_API_KEY", help="Every request then needs it, or another one."),
    ] = None,
    allow_unauthenticated: Annotated[
        bool, typer.Option("--allow-unauthenticated", help="Let other machines ask without a key.")
    ] = False,
    allowed_host: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A name under which this server is reached.")
    ] = None,
    allowed_origin: Annotated[
        list[str] | None, typer.Option(metavar="URL", help="A web page elsewhere that may ask.")
    ] = None,
    trusted_proxy: Annotated[
        list[str] | None, typer.Option(metavar="ADDRESS", help="A proxy whose X-Forwarded-For is believed.")
    ] = None,
    **limits: int | float,
) -> None:
    """Answer for models over HTTP, as OpenAI's and LibreTranslate's clients ask, until Ctrl-C.

    \b
    Examples:
      sightline serve runs/demo
      sightline serve runs/en-de chat=runs/dialogues --port 9000
      sightline serve runs/demo --host 0.0.0.0 --api-key "$KEY"
    """
    from sightline.serving import Limits, ServingSettings, bind
    from sightline.serving import serve as answer
    from sightline.serving.service import service
    from sightline.studio import site

    settings = ServingSettings(
        host=host,
        port=port,
        keys=tuple(api_key or ()),
        allow_unauthenticated=allow_unauthenticated,
        allowed_hosts=tuple(allowed_host or ()),
        allowed_origins=tuple(allowed_origin or ()),
        trusted_proxies=tuple(trusted_proxy or ()),
        limits=Limits(**limits),  # type: ignore[arg-type]  # each is what its field asks for
    )
    with bind(settings) as taken:  # before models are loaded: a port in use is said at once
        opened = open_models(models)
        app = service(
            opened,
            dataclasses.replace(settings, port=taken.getsockname()[1]),
            more_routers=site.routers,
            public_paths=site.public_paths(),
        )
        answer(app, taken, started=lambda url: welcome(url, opened, with_key=bool(settings.keys)))


def open_models(named: list[str]) -> "dict[str, Pipeline]":
    """Open the models, each under an id of its own."""
    from sightline.pipelines import load
    from sightline.serving.api import model_id

    found: dict[str, Pipeline] = {}
    for text in named:
        name, equals, folder = text.partition("=")
        if equals and name in found:
            raise RefusedError(f"two models are called {name[:60]!r}: give one another name")
        path = Path(folder if equals else text)
        found[name if equals else model_id(path, found)] = load(path)
    return found


def welcome(url: str, models: "Mapping[str, Pipeline]", *, with_key: bool) -> None:
    """Say where the server is, and how to ask it."""
    typer.echo(f"Sightline answers at {url}  (Ctrl-C ends it)", err=True)
    for name, model in models.items():
        typer.echo(f"  {name}: {type(model).__name__.lower()}, {model.purpose.task if model.purpose else ''}", err=True)
    key = ' -H "Authorization: Bearer $SIGHTLINE_API_KEY"' if with_key else ""
    typer.echo("Try:", err=True)
    for line in examples(url, models):
        typer.echo(f"  curl{key} {line}", err=True)


def examples(url: str, models: "Mapping[str, Pipeline]") -> list[str]:
    """Return three ways to ask that work with these models."""
    asked = [asking(name, model) for name, model in models.items()][:2]
    lines = [f"{url}{path} -H 'Content-Type: application/json' -d '{json.dumps(body)}'" for path, body in asked]
    return [*lines, f"{url}/v1/models", f"{url}/health"][:3]


def asking(name: str, model: "Pipeline") -> tuple[str, dict[str, object]]:
    """Return a path and a body that this model answers."""
    from sightline.pipelines import Chat, Classifier, Filler, Generator, Translator

    if isinstance(model, Translator):
        target = model.languages[1] if len(model.languages) > 1 else "de"
        text = "March 14, 2026" if model.languages else "Good morning"
        return "/translate", {"model": name, "q": text, "target": target}
    if isinstance(model, Chat):
        return "/v1/chat/completions", {"model": name, "messages": [{"role": "user", "content": "Hi how are you"}]}
    if isinstance(model, Generator):
        return "/v1/completions", {"model": name, "prompt": "Once", "max_tokens": 40}
    if isinstance(model, Filler):
        return "/fill", {"model": name, "input": "The [MASK] dog"}
    if isinstance(model, Classifier):
        return "/classify", {"model": name, "input": "What a day"}
    return "/v1/embeddings", {"model": name, "input": "What a day"}
