"""Path traversal: three hundred payloads in every field a client can set, none of which works (T25)."""

import functools
import os
import sys
import threading
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.staticfiles import StaticFiles

from pipelines.tiny import filler_bundle, generator_bundle, many_languages_bundle
from sightline.bundle import save
from sightline.pipelines import Filler, Generator, Translator
from sightline.serving.http import ServingSettings
from sightline.serving.service import service
from sightline.studio import routes

from .example import example_app
from .standing import standing
from .wire import all_at_once, asking, statuses

STEPS = [
    "..", "%2e%2e", ".%2e", "..%2f", "%2e%2e%2f", "%252e%252e", "%25252e%25252e", "..\\", "..%5c", "..%255c",
    "....//", "....\\\\", "./..", ".%00.", "..%00", "..%09", "..%20", "..;", "..;a=b", "%c0%ae%c0%ae", "..%c0%af",
    "%e0%80%ae%e0%80%ae", "․․", "．．", "..∕", "..⁄", "..／", "%uff0e%uff0e", "..%u2215",
]  # fmt: skip
"""One folder up: plain, encoded once, twice, wrongly, and with characters that only look alike."""
FILES = ["secret.txt", "etc/passwd", "proc/self/environ", "%00/secret.txt", "C:/windows/win.ini"]
CLIMBS = [f"{'/'.join([step] * depth)}/{file}" for step in STEPS for depth in (1, 8) for file in FILES]
OTHERS = [
    "/etc/passwd", "//etc/passwd", "///etc/passwd", "/%2fetc/passwd", "%2fetc%2fpasswd", "/etc/passwd%00.txt",
    "/etc/./passwd", "/etc//passwd", "/proc/self/fd/0", "/proc/self/cwd/secret.txt", "/proc/1/root/etc/passwd",
    "/dev/zero", "/dev/stdin", "~/.ssh/id_rsa", "~root/.profile", "$HOME/.ssh/id_rsa", "${HOME}", "%HOME%",
    "file:///etc/passwd", "file://localhost/etc/passwd", "http://127.0.0.1:1/secret.txt", "ftp://x/secret.txt",
    "C:\\windows\\win.ini", "C:secret.txt", "c:/secret.txt", "\\\\server\\share\\secret.txt", "//server/share/x",
    "\\\\?\\C:\\secret.txt", "\\\\.\\PhysicalDrive0", "CON", "NUL", "secret.txt::$DATA", "secret.txt%20", "secret.txt.",
    "link", "link/secret.txt", "link/../secret.txt", "link/..%2fsecret.txt", "file-link", "loop", "loop/loop/loop",
    "page.txt/../../secret.txt", "page.txt%00", "page.txt\x00../../secret.txt", "%00", "%0a/secret.txt",
    "a" * 300, "a/" * 300, "../" * 300 + "secret.txt", "a" * 3000, "%2e%2e%2f" * 200, "\u202etxt.terces",
    "\ufeff../secret.txt",
]  # fmt: skip
"""Absolute ones, other protocols, other systems, links, ends of strings, and long ones."""
PAYLOADS = CLIMBS + OTHERS
OPENED: list[str] = []
WATCHED = ("sightline-server", "sightline-models", "AnyIO", "asyncio")


@pytest.fixture
def opened() -> list[str]:
    """Every file that the server's threads open. An audit hook cannot be removed, so it is added once."""
    if not hasattr(sys, "_sightline_hook"):
        sys._sightline_hook = True

        def note(event: str, arguments: tuple) -> None:
            by_name = event == "open" and not isinstance(arguments[0], int)  # a number is a file that is open already
            if by_name and threading.current_thread().name.startswith(WATCHED):
                OPENED.append(str(arguments[0]))

        sys.addaudithook(note)
    OPENED.clear()
    return OPENED


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder to be served, with links that lead out of it, and a secret beside it."""
    outside = tmp_path_factory.mktemp("outside")
    made = outside / "static"
    made.mkdir()
    (outside / "secret.txt").write_text("secret")
    (made / "page.txt").write_text("page")
    (made / "link").symlink_to(outside)
    (made / "file-link").symlink_to(outside / "secret.txt")
    (made / "loop").symlink_to("loop")
    run = made / "x"
    save(many_languages_bundle(), run / "model")
    (run / "run.json").write_text("{}")
    (run / "metrics.jsonl").write_text('{"step": 1, "loss": 2.0}\n')
    return made


@pytest.fixture(scope="module")
def studio_url(folder) -> Iterator[str]:
    """The real service with the studio, whose runs are in the folder."""
    pipelines = {"gpt": Generator(generator_bundle()), "phrases": Translator(many_languages_bundle())}
    pipelines["bert"] = Filler(filler_bundle())
    routers = functools.partial(routes.routers, runs=folder)
    app = service(pipelines, ServingSettings(port=0), more_routers=routers, public_paths=routes.public_paths())
    with standing(app) as server:
        yield server.url


def quoted(payload: str) -> str:
    """Return a payload as it can stand in a request line; what is percent-encoded already stays unchanged."""
    return urllib.parse.quote(payload, safe="/%\\;:$~")


def ask_all(url: str, targets: list[str]) -> list[tuple[str, bytes]]:
    """Request raw paths."""
    answers = []
    for begin in range(0, len(targets), 150):
        some = targets[begin : begin + 150]
        heads = [f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode() for target in some]
        answers += [(target, answer or b"") for target, answer in zip(some, all_at_once(url, heads), strict=True)]
    return answers


def assert_nothing_found(answers: list[tuple[str, bytes]]) -> None:
    """Every response is a refusal that reveals nothing; an ETag, which is only compared, may be any few letters."""
    for target, answer in answers:
        body = answer.partition(b"\r\n\r\n")[2]
        right = (200, 400, 404) if target.startswith(TAGGED) else (400, 404)
        assert statuses(answer)[0] in right, (target, answer[:200])
        assert b"secret" not in body, target
        assert b"root:" not in body, target


def test_t25_there_are_three_hundred_and_no_two_are_alike():
    assert len(set(PAYLOADS)) == len(PAYLOADS) >= 300


def test_t25_no_address_leads_out_of_a_served_folder(folder, opened):
    app = example_app()
    app.mount("/static", StaticFiles(directory=folder))
    with standing(app) as server, asking(server.url) as client:
        assert client.get("/static/page.txt").text == "page"
        client.get("/v1/things/a?size=x")  # FastAPI looks up where an endpoint stands, once
        client.post("/v1/echo", json={})
        opened.clear()
        places = ("/static/{}", "/v1/things/../{}", "/v1/things/a?size={}")
        payloads = [one for one in PAYLOADS if "loop" not in one]  # Starlette's files, mounted here only, would fail
        assert_nothing_found(ask_all(server.url, [place.format(quoted(one)) for one in payloads for place in places]))
        for payload in PAYLOADS[::10]:
            assert client.post("/v1/echo", json={"text": payload, "kind": payload}).status_code == 400
    assert outside(opened, folder) == []


FIELDS = [
    ("/v1/completions", lambda text: {"model": text, "prompt": "a"}),
    ("/v1/embeddings", lambda text: {"model": text, "input": "a"}),
    ("/translate", lambda text: {"q": "a", "target": text, "model": "phrases"}),
    ("/translate", lambda text: {"q": "a", "target": "de", "source": text, "model": text}),
    ("/tasks/masked-language-model", lambda text: {"input": text}),
    ("/trace", lambda text: {"model": "gpt", "input": "the", "activations": [text]}),
    ("/studio-api/runs/x/trace", lambda text: {"input": text, "to": text, "step": None}),
]
"""Body fields of the models' routes and of the studio's: names, languages, activations, texts without a mask."""


TAGGED = "/studio-api/runs/x/metrics?tag="
PLACES = (
    *("/v1/models/{}", "/studio/{}", "/page/{}"),
    *("/studio-api/runs/{}/settings", "/studio-api/runs/{}/metrics", f"{TAGGED}{{}}"),
)
"""Every path of the service that has a parameter."""


def test_t25_no_address_of_the_service_leads_to_a_file(studio_url, folder, opened):
    no_address_leads_to_a_file(studio_url, folder, opened, each_at=1)


@pytest.mark.slow
def test_t25_every_payload_in_every_address(studio_url, folder, opened):
    no_address_leads_to_a_file(studio_url, folder, opened, each_at=len(PLACES))


def no_address_leads_to_a_file(url: str, folder: Path, opened: list[str], *, each_at: int) -> None:
    """Put every payload into this many of the places, each time into others."""
    places = [PLACES[(number + n) % len(PLACES)] for number in range(len(PAYLOADS)) for n in range(each_at)]
    payloads = [quoted(payload) for payload in PAYLOADS for _ in range(each_at)]
    ask_all(url, ["/v1/models/gpt", "/studio/x", "/page/x", "/studio-api/runs"])
    with asking(url) as client:
        assert client.get(TAGGED).json()["records"]
    opened.clear()
    assert_nothing_found(ask_all(url, [place.format(payload) for place, payload in zip(places, payloads, strict=True)]))
    assert outside(opened, folder) == []


def test_t25_no_field_of_the_service_leads_to_a_file(studio_url, folder, opened):
    with asking(studio_url) as client:
        for path, body in FIELDS:
            client.post(path, json=body("first"))
        assert client.post("/studio-api/runs/x/trace", json={"input": "a", "to": "de", "step": None}).status_code == 200
        opened.clear()
        for number, payload in enumerate(PAYLOADS):
            path, body = FIELDS[number % len(FIELDS)]
            answer = client.post(path, json=body(payload))
            assert answer.status_code in (400, 404), (path, payload, answer.text)
            assert "secret" not in answer.text
            assert "root:" not in answer.text
    assert outside(opened, folder) == []


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(FIELDS)))
def test_t25_every_payload_in_every_field(studio_url, folder, opened, number):
    path, body = FIELDS[number]
    with asking(studio_url) as client:
        client.post(path, json=body("first"))
        opened.clear()
        for payload in PAYLOADS:
            answer = client.post(path, json=body(payload))
            assert answer.status_code in (400, 404), (path, payload, answer.text)
            assert "secret" not in answer.text
    assert outside(opened, folder) == []


def outside(opened: list[str], folder: Path) -> list[str]:
    """Return the files opened outside the folder that are not part of the program itself."""
    program = [os.path.realpath(root) for root in (sys.prefix, sys.base_prefix, str(Path(routes.__file__).parents[1]))]
    real = [os.path.realpath(path) for path in opened]
    return [path for path in real if not path.startswith((str(folder.resolve()), *program))]
