"""/translate, /languages and /detect, as LibreTranslate's clients ask them."""

import re
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field
from starlette.requests import Request

from sightline.decoding import DecodingSettings
from sightline.pipelines import Classifier, Translator, Writing
from sightline.serving.api.desk import Desk
from sightline.serving.api.shelf import NO_MODEL
from sightline.serving.body import Body, accepts_form
from sightline.serving.problem import Problem
from sightline.serving.route import Router

LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*")
AUTO = "auto"


class TranslateBody(Body):
    """What to translate, and into what."""

    q: str | list[str] = Field(description="A text, or several.")
    source: str = Field(AUTO, description='The language of the text, or "auto": the models see that for themselves.')
    target: str = Field(description="The language to translate into.")
    format: Literal["text"] = Field("text", description="Plain text; HTML is not taken.")
    alternatives: Annotated[int, Field(ge=0)] = Field(0, description="So many other translations.")
    api_key: Literal[""] = Field("", description="Send the key as a header: Authorization: Bearer …")
    model: str | None = Field(None, description="Which model, where several translate. (Not LibreTranslate's.)")


class Translated(BaseModel):
    """The translation of the text, or a list for a list."""

    translatedText: str | list[str]  # noqa: N815 - LibreTranslate's word
    alternatives: list[str] | list[list[str]] | None = None


class Language(BaseModel):
    """A language, and those it is translated into."""

    code: str
    name: str
    targets: list[str]


class DetectBody(Body):
    """Whose language is asked."""

    q: str
    api_key: Literal[""] = ""


class Detected(BaseModel):
    """A language, and how sure that is, in percent."""

    language: str
    confidence: float


def router(desk: Desk) -> Router:
    """Return the routes that translate."""
    routes = Router(tags=["LibreTranslate"], responses=NO_MODEL)
    known = languages_of(desk.shelf.of_kind(Translator).values())

    @routes.post("/translate", summary="Translate", response_model_exclude_none=True)
    @accepts_form
    async def translate(body: TranslateBody, request: Request) -> Translated:
        model = desk.shelf.named(body.model, Translator)
        to = language_of(model, body.target, param="target")
        if body.source != AUTO:
            language_of(model, body.source, param="source")
        settings = settings_for(model, desk, alternatives=body.alternatives)
        texts = [body.q] if isinstance(body.q, str) else body.q
        tasks = await desk.tasks(model, lambda text: model.task(text, settings, to=to), texts, param="q")
        found = await desk.write(request, model, tasks).results()
        return translated(found, alone=isinstance(body.q, str), alternatives=bool(body.alternatives))

    @routes.get("/languages", summary="List the languages")
    async def languages() -> list[Language]:
        return known

    @routes.post("/detect", summary="Tell the language of a text")
    @accepts_form
    async def detect(body: DetectBody, request: Request) -> list[Detected]:
        model = detector(desk)
        [[one]] = [(await desk.read(request, model, "classify", model.classify, [body.q], param="q"))[0]]
        ranked = sorted(one.probabilities.items(), key=lambda pair: -pair[1])
        return [Detected(language=code, confidence=round(100 * value, 2)) for code, value in ranked[:5]]

    return routes


def languages_of(models: Iterable[Translator]) -> list[Language]:
    """Return the languages that models have names for."""
    found: dict[str, set[str]] = {}
    for model in models:
        for code in model.languages:
            found.setdefault(code, set()).update(other for other in model.languages if other != code)
    return [Language(code=code, name=name_of(code), targets=sorted(found[code])) for code in sorted(found)]


def language_of(model: Translator, code: str, *, param: str) -> str | None:
    """Return a language the model knows; None where it knows no names, having learned one direction only."""
    if not model.languages:
        if not LANGUAGE.fullmatch(code):
            raise Problem(400, f"{param} is not the code of a language", param=param, code="invalid_value")
        return None
    if code not in model.languages:
        known = ", ".join(model.languages)
        raise Problem(
            400, f"{param}: the model does not know this language, but {known}", param=param, code="invalid_value"
        )
    return code


def settings_for(model: Translator, desk: Desk, *, alternatives: int) -> DecodingSettings:
    """Return the model's own settings, with a beam that has so many results."""
    n_best = alternatives + 1
    desk.limits.check("choices", n_best, param="alternatives")
    own = model.generation
    beam = max(own.beam, n_best)
    more: dict[str, Any] = {"beam": beam, "sample": False} if n_best > 1 else {}
    return model.settings(n_best=n_best, max_length=min(own.max_length, desk.limits.new_tokens), **more)


def translated(found: list[list[Writing]], *, alone: bool, alternatives: bool) -> Translated:
    """Return the answer; what had nothing to be translated stays empty."""
    best = [several[0].text if several else "" for several in found]
    others = [[one.text for one in several[1:]] for several in found]
    if alone:
        return Translated(translatedText=best[0], alternatives=others[0] if alternatives else None)
    return Translated(translatedText=best, alternatives=others if alternatives else None)


def detector(desk: Desk) -> Classifier:
    """Return the model that tells languages apart: a classifier whose classes are all codes of languages."""
    for model in desk.shelf.of_kind(Classifier).values():
        if not model.per_word and all(LANGUAGE.fullmatch(label) for label in model.labels):
            return model
    raise Problem(
        404,
        "no model of this server tells languages apart: serve a classifier whose labels are codes such as en, de",
        code="model_not_found",
    )


def name_of(code: str) -> str:
    """Return the English name of a language, or its code where it has none."""
    from babel import Locale, UnknownLocaleError

    try:
        return Locale.parse(code, sep="-").get_display_name("en") or code
    except (UnknownLocaleError, ValueError):
        return code
