"""`sightline serve`: serve models over HTTP, and open the studio in the browser."""

import dataclasses
import functools
import inspect
import json
import os
import sys
import threading
import webbrowser
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sightline.cli.options import EngineName, replace_keywords
from sightline.errors import RefusedError
from sightline.runtime import release_threads

if TYPE_CHECKING:
    from socket import socket

    from sightline.pipelines import Pipeline
    from sightline.serving.http import ServingSettings


MAX_RUNS_PRINTED = 10


def with_limits(command: Callable[..., None]) -> Callable[..., None]:
    """Replace the `**limits` of a command by one option per field of `Limits`."""
    from sightline.serving.http.settings import Limits

    options = [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=limit_option(field)
        )
        for field in dataclasses.fields(Limits)
    ]

    @functools.wraps(command)
    def called(*given: Any, **named: Any) -> None:
        command(*given, **named)

    return replace_keywords(called, options)


def limit_option(field: "dataclasses.Field[Any]") -> Any:
    """Return the typer annotation of a limit."""
    kind = int if isinstance(field.default, int) else float
    option = typer.Option(
        field.metadata["flag"], metavar="N", help=field.metadata["help"].capitalize(), rich_help_panel="Limits"
    )
    return Annotated[kind, option]


@with_limits
def serve(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MODEL …]",
            help="Model folders, run folders or built-in models (en-de); NAME=FOLDER sets the model's id. None: only "
            "--runs is shown.",
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(metavar="HOST", help="Address to listen on; any but the local host needs a key.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, metavar="N", help="Port; 0 for any free one.")] = 8000,
    api_key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY", envvar="SIGHTLINE_API_KEY", help="API key that requests must send; may be repeated."
        ),
    ] = None,
    read_only_key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY", envvar="SIGHTLINE_READ_ONLY_KEY", help="API key for GET and HEAD only; may be repeated."
        ),
    ] = None,
    allow_unauthenticated: Annotated[
        bool, typer.Option("--allow-unauthenticated", help="Accept requests from other machines without a key.")
    ] = False,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Host name of this server, as clients send it; may be repeated."),
    ] = None,
    allowed_origin: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="CORS: origin of web pages that may call this server; may be repeated."),
    ] = None,
    trusted_proxy: Annotated[
        list[str] | None,
        typer.Option(metavar="ADDRESS", help="Proxy whose X-Forwarded-For header is trusted; may be repeated."),
    ] = None,
    runs: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder of training runs to show in the studio; default: the one that holds the first model's run.",
        ),
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the studio in your browser.")] = True,
    engine: EngineName = "torch",
    **limits: int | float,
) -> None:
    """Serve models over HTTP (OpenAI's and LibreTranslate's API) and open the studio.

    Stop with Ctrl-C.

    \b
    Examples:
      sightline serve runs/demo
      sightline serve runs/en-de chat=runs/dialogues --port 9000
      sightline serve --runs runs
      sightline serve runs/demo --host 0.0.0.0 --api-key "$KEY"
    """
    from sightline.serving.http import Limits, ServingSettings, bind

    if not models and runs is None:
        raise typer.BadParameter(
            "name a MODEL to serve, such as the built-in en-de, or a folder of runs to watch: --runs DIR"
        )
    named = models or []
    settings = ServingSettings(
        host=host,
        port=port,
        keys=tuple(api_key or ()),
        read_only_keys=tuple(read_only_key or ()),
        allow_unauthenticated=allow_unauthenticated,
        allowed_hosts=tuple(allowed_host or ()),
        allowed_origins=tuple(allowed_origin or ()),
        trusted_proxies=tuple(trusted_proxy or ()),
        limits=Limits(**limits),  # type: ignore[arg-type]  # typer has checked the types
    )
    with bind(settings) as taken:  # before models are loaded: a port in use fails at once
        threads = release_threads()
        opened = open_models(named, engine=engine)
        shown = runs if runs is not None else find_sibling_runs(named[0])
        run_studio(taken, settings, opened, threads=threads, runs=shown, browser=browser)


def find_sibling_runs(named: str) -> Path | None:
    """Return the parent of a run folder, or None for a model folder."""
    from sightline.runs.folder import is_run

    folder = Path(named.rpartition("=")[2])
    return folder.resolve().parent if is_run(folder) else None


def open_models(named: list[str], *, engine: str = "torch") -> "dict[str, Pipeline]":
    """Open the models, each under a unique id; those that generate text do it with this engine."""
    from sightline.serving.api import model_id
    from sightline.tasks import load

    found: dict[str, Pipeline] = {}
    for text in named:
        name, equals, folder = text.partition("=")
        if equals and name in found:
            raise RefusedError(f"two models are called {name[:60]!r}: give one another name")
        path = Path(folder if equals else text)
        pipeline = load(path)
        if pipeline.generates and engine != "torch":
            pipeline.use_engine(engine)
        found[name if equals else model_id(path, found)] = pipeline
    return found


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
    """Serve models and the studio on a bound socket; `view` is the page to open."""
    from sightline.serving.http import serve as answer
    from sightline.serving.service import service
    from sightline.studio import routes

    app = service(
        models,
        dataclasses.replace(settings, port=taken.getsockname()[1]),
        more_routers=functools.partial(routes.routers, runs=runs),
        public_paths=routes.public_paths(),
        threads=threads,
    )

    def started(url: str) -> None:
        print_welcome(url, models, with_key=bool(settings.keys))
        if not models and runs is not None:
            print_runs(runs)
        if browser:
            open_page(f"{url}/{view}")

    answer(app, taken, started=started)


def print_welcome(url: str, models: "Mapping[str, Pipeline]", *, with_key: bool) -> None:
    """Print the address and example requests."""
    typer.echo(f"The studio is at {url}  (Ctrl-C stops it)", err=True)
    for name, model in models.items():
        typer.echo(
            f"  {name}: {type(model).__name__.lower()}, {model.task_config.task if model.task_config else ''}", err=True
        )
    key = ' -H "Authorization: Bearer $SIGHTLINE_API_KEY"' if with_key else ""
    typer.echo("Try:", err=True)
    for line in example_requests(url, models):
        typer.echo(f"  curl{key} {line}", err=True)


def print_runs(root: Path) -> None:
    """Print the runs in a folder, and how to use the models that they have saved."""
    from sightline.runs.folder import has_best_model, is_run
    from sightline.studio.runs_table import candidates

    found = [folder for folder in candidates(root) if is_run(folder)]
    typer.echo(
        f"No model is served. {len(found):,} runs in {root}; new ones appear in the studio by themselves", err=True
    )
    for folder in found[:MAX_RUNS_PRINTED]:
        does = f"to use its model: sightline serve {folder}" if has_best_model(folder) else "has no model yet"
        typer.echo(f"  {folder.name}: {does}", err=True)


def example_requests(url: str, models: "Mapping[str, Pipeline]") -> list[str]:
    """Return the arguments of three curl commands that work with these models."""
    requests = [example_request(name, model) for name, model in models.items()][:2]
    lines = [f"{url}{path} -H 'Content-Type: application/json' -d '{json.dumps(body)}'" for path, body in requests]
    return [*lines, f"{url}/v1/models", f"{url}/health"][:3]


def example_request(name: str, model: "Pipeline") -> tuple[str, dict[str, object]]:
    """Return the path and body of a request to this model."""
    from sightline.serving.api.submit import endpoint_of
    from sightline.tasks import task_of
    from sightline.tasks.task import EXAMPLE

    task = task_of(model)
    body = task.example_request(model) if task else {"input": EXAMPLE["text"]}
    return endpoint_of(model).path, {"model": name, **body}


def open_page(url: str) -> bool:
    """Open a page if a user is there to see it; return whether that was tried.

    Without a display, Python would start a text browser, which takes over the terminal. Some browsers return only when
    they are closed, so they run in a thread.
    """
    has_display = sys.platform in ("darwin", "win32") or any(
        map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
    )
    if not has_display or not sys.stdout.isatty() or os.environ.get("CI"):
        return False
    threading.Thread(target=webbrowser.open, args=(url,), name="browser", daemon=True).start()
    return True
