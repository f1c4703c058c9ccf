"""`sightline serve`: models that other programs, and people, can ask over HTTP."""

import dataclasses
import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sightline.cli.browser import open_page
from sightline.cli.limit_options import with_limits
from sightline.errors import RefusedError
from sightline.runtime import hand_over_threads

if TYPE_CHECKING:
    from socket import socket

    from sightline.pipelines import Pipeline
    from sightline.serving import ServingSettings


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
    read_key: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", envvar="SIGHTLINE_READ_KEY", help="A key that may only look: GET and HEAD."),
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
    runs: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Training runs to show in the studio; else those beside the first model."),
    ] = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Whether to open the studio in your browser.")
    ] = True,
    **limits: int | float,
) -> None:
    """Open the studio on models, and answer for them over HTTP as OpenAI's and LibreTranslate's clients ask.

    Ends with Ctrl-C.

    \b
    Examples:
      sightline serve runs/demo
      sightline serve runs/en-de chat=runs/dialogues --port 9000
      sightline serve runs/demo --host 0.0.0.0 --api-key "$KEY"
    """
    from sightline.serving import Limits, ServingSettings, bind

    settings = ServingSettings(
        host=host,
        port=port,
        keys=tuple(api_key or ()),
        read_keys=tuple(read_key or ()),
        allow_unauthenticated=allow_unauthenticated,
        allowed_hosts=tuple(allowed_host or ()),
        allowed_origins=tuple(allowed_origin or ()),
        trusted_proxies=tuple(trusted_proxy or ()),
        limits=Limits(**limits),  # type: ignore[arg-type]  # each is what its field asks for
    )
    with bind(settings) as taken:  # before models are loaded: a port in use is said at once
        threads = hand_over_threads()
        opened = open_models(models)
        run_studio(taken, settings, opened, threads=threads, runs=runs or runs_beside(models[0]), browser=browser)


def run_studio(
    taken: "socket",
    settings: "ServingSettings",
    models: "Mapping[str, Pipeline]",
    *,
    runs: Path | None,
    browser: bool,
    view: str = "",
    threads: int | None = None,
) -> None:
    """Answer for models on a bound socket, and show the studio, or one view of it."""
    from sightline.serving import serve as answer
    from sightline.serving.service import service
    from sightline.studio import site

    app = service(
        models,
        dataclasses.replace(settings, port=taken.getsockname()[1]),
        more_routers=functools.partial(site.routers, runs=runs),
        public_paths=site.public_paths(),
        threads=threads,
    )

    def started(url: str) -> None:
        welcome(url, models, with_key=bool(settings.keys))
        if browser:
            open_page(f"{url}/{view}")

    answer(app, taken, started=started)


def runs_beside(named: str) -> Path | None:
    """Return the folder of a run and of its siblings, if that is what was named."""
    from sightline.run.folder import is_run

    folder = Path(named.rpartition("=")[2])
    return folder.resolve().parent if is_run(folder) else None


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
    typer.echo(f"The studio is at {url}  (Ctrl-C ends it)", err=True)
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
    from sightline.serving.api.openai_models import example_for

    text = (example := example_for(model)).text
    if isinstance(model, Translator):
        return "/translate", {"model": name, "q": text, "target": example.to or "de"}
    if isinstance(model, Chat):
        return "/v1/chat/completions", {"model": name, "messages": [{"role": "user", "content": text}]}
    if isinstance(model, Generator):
        return "/v1/completions", {"model": name, "prompt": text, "max_tokens": 40}
    if isinstance(model, Filler | Classifier):
        return "/fill" if isinstance(model, Filler) else "/classify", {"model": name, "input": text}
    return "/v1/embeddings", {"model": name, "input": text}
