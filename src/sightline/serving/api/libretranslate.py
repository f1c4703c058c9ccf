"""/translate, /languages and /detect: LibreTranslate's API."""

import re
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, Field
from starlette.requests import Request

from sightline.bundle.language_statistics import MAX_DETECTED_LENGTH
from sightline.decoding.settings import DecodingSettings
from sightline.serving.api.submit import NO_MODEL, Submitter, run_off_loop
from sightline.serving.http.app import charge
from sightline.serving.http.problem import Problem
from sightline.serving.http.routing import Body, Router, accepts_form
from sightline.tasks.translation import language_name

if TYPE_CHECKING:
    from sightline.pipelines import Classifier, Pipeline, Translator

LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*")
AUTO = "auto"


class TranslateBody(Body):
    """The text to translate, and the target language."""

    q: str | list[str] = Field(description="A text, or several.")
    source: str = Field(AUTO, description='Language of the text, or "auto"; models need not be told.')
    target: str = Field(description="Target language.")
    format: Literal["text", "html", "markdown", "srt"] = Field(
        "text", description="Plain text, or a document whose markup is kept. (LibreTranslate has text and html.)"
    )
    split: bool | None = Field(
        None,
        description="Whether sentences are translated one by one; default: unless the model was trained on several at "
        "once. (Not in LibreTranslate's API.)",
    )
    alternatives: Annotated[int, Field(ge=0)] = Field(0, description="Number of alternative translations.")
    api_key: Literal[""] = Field("", description="Must be empty: send the key in a header, Authorization: Bearer …")
    model: str | None = Field(
        None, description="Model id; required if several models translate. (Not in LibreTranslate's API.)"
    )


class DetectedLanguage(BaseModel):
    """A language, with the confidence in percent."""

    language: str
    confidence: float


class TranslateResponse(BaseModel):
    """The translation, or a list of them for a list of texts."""

    translatedText: str | list[str]  # noqa: N815 - LibreTranslate's word
    alternatives: list[str] | list[list[str]] | None = None
    detectedLanguage: DetectedLanguage | list[DetectedLanguage] | None = Field(  # noqa: N815
        None, description='For source "auto", where the model knows the languages of its sources.'
    )
    warnings: list[str] | None = Field(None, description="Such as sentences that were too long.")


class Language(BaseModel):
    """A language, and its target languages."""

    code: str
    name: str
    targets: list[str]


class DetectBody(Body):
    """The text whose language to detect."""

    q: str
    api_key: Literal[""] = ""


def router(submitter: Submitter) -> Router:
    """Return the routes of translators and of language detection."""
    routes = Router(tags=["LibreTranslate"], responses=NO_MODEL)
    known = list_languages(submitter.models.at("/translate").values())

    @routes.post("/translate", summary="Translate", response_model_exclude_none=True)
    @accepts_form
    async def translate(body: TranslateBody, request: Request) -> TranslateResponse:
        model = find_translator(submitter, body)
        to = check_language(model, body.target, param="target")
        if body.source != AUTO:
            check_language(model, body.source, param="source")
        settings = settings_for(model, submitter, alternatives=body.alternatives)
        texts = [body.q] if isinstance(body.q, str) else body.q
        options = {"to": to, "split": body.split, "markup": body.format}
        groups = await submitter.create_job_groups(
            model, lambda text: model.create_job_group(text, settings, **options), texts, param="q"
        )
        found = await submitter.generate_groups(request, model, groups)
        detected = [
            best_guess(await run_off_loop(partial(model.detect_language, markup=body.format), text))
            for text in texts
            if body.source == AUTO
        ]
        return build_response(found, detected, is_single=isinstance(body.q, str), alternatives=bool(body.alternatives))

    @routes.get("/languages", summary="List the languages")
    async def languages() -> list[Language]:
        return known

    @routes.post("/detect", summary="Detect the language of a text")
    @accepts_form
    async def detect(body: DetectBody, request: Request) -> list[DetectedLanguage]:
        return rank_languages(await detect_language(submitter, request, body.q))

    return routes


def list_languages(models: "Iterable[Pipeline]") -> list[Language]:
    """Return the languages of all models that name theirs."""
    found: dict[str, set[str]] = {}
    for source, target in (pair for model in models for pair in list_directions(model)):
        found.setdefault(source, set()).add(target)
        found.setdefault(target, set())
    return [Language(code=code, name=language_name(code), targets=sorted(found[code])) for code in sorted(found)]


def list_directions(model: "Pipeline") -> list[tuple[str, str]]:
    """Return the pairs of languages that a model translates; none if it does not name them."""
    direction = getattr(model, "direction", None)
    return [direction] if direction else [(a, b) for a in model.languages for b in model.languages if a != b]


def find_translator(submitter: Submitter, body: TranslateBody) -> "Translator":
    """Return the model of a request; without an id, the only one that may translate these languages."""
    able = [
        model
        for model in submitter.models.at("/translate").values()
        if not (pairs := list_directions(model))
        or any(target == body.target and body.source in (source, AUTO) for source, target in pairs)
    ]
    if body.model is None and len(able) == 1:
        return able[0]  # type: ignore[return-value]  # only translators are at this path
    found: Translator = submitter.models.get(body.model, path="/translate")
    return found


def check_language(model: "Translator", code: str, *, param: str) -> str | None:
    """Return the language for the model's tag; None for a model of one direction, which has no tags."""
    if model.direction is not None:
        if code != model.direction[param == "target"]:
            source, target = model.direction
            raise Problem(
                400, f"{param}: this model translates {source} to {target}", param=param, code="invalid_value"
            )
        return None
    if not model.languages:
        if not LANGUAGE.fullmatch(code):
            raise Problem(
                400, f"{param} must be a language code such as en or pt-BR", param=param, code="invalid_value"
            )
        return None
    if code not in model.languages:
        known = ", ".join(model.languages)
        raise Problem(
            400, f"{param}: unsupported language; the model supports {known}", param=param, code="invalid_value"
        )
    return code


def settings_for(model: "Translator", submitter: Submitter, *, alternatives: int) -> DecodingSettings:
    """Return the model's decoding settings, with a beam wide enough for the alternatives."""
    n_best = alternatives + 1
    submitter.limits.check("choices", n_best, param="alternatives")
    defaults = model.generation
    beam: dict[str, Any] = {"beam_size": max(defaults.beam_size, n_best), "do_sample": False} if n_best > 1 else {}
    max_new_tokens = min(defaults.max_new_tokens, submitter.limits.new_tokens)
    return model.settings(n_best=n_best, max_new_tokens=max_new_tokens, **beam)


def rank_languages(probabilities: dict[str, float]) -> list[DetectedLanguage]:
    """Return the likeliest languages, the best first."""
    ranked = sorted(probabilities.items(), key=lambda pair: -pair[1])
    return [DetectedLanguage(language=code, confidence=round(100 * value, 2)) for code, value in ranked[:5]]


def best_guess(probabilities: dict[str, float]) -> DetectedLanguage | None:
    """Return the likeliest language; None where none is known."""
    return next(iter(rank_languages(probabilities)), None)


def build_response(
    found: "list[list[Any]]", detected: list[DetectedLanguage | None], *, is_single: bool, alternatives: bool
) -> TranslateResponse:
    """Return the translations; a blank text stays empty."""
    best = [several[0].text if several else "" for several in found]
    languages = [one for one in detected if one is not None]
    others = [[one.text for one in several[1:]] for several in found]
    messages = dict.fromkeys(message for several in found for one in several[:1] for message in one.warnings)
    return TranslateResponse(
        translatedText=best[0] if is_single else best,
        alternatives=None if not alternatives else others[0] if is_single else others,
        detectedLanguage=None if not languages else languages[0] if is_single else languages,
        warnings=list(messages) or None,
    )


async def detect_language(submitter: Submitter, request: Request, text: str) -> dict[str, float]:
    """Return the probability of each language, by a classifier or else the translator whose languages suit the text.

    A translator of few phrases in many languages finds every other text unlikely in all of them.
    """
    classifiers, translators = find_detectors(submitter.models.models.values())
    if classifiers:
        classifier = classifiers[0]
        classify = classifier.classify
        [found], _ = await submitter.call_on_texts(request, classifier, "classify", classify, [text], param="q")
        probabilities: dict[str, float] = found.probabilities
        return probabilities
    if translators:
        charge(request, sum(len(one.tokenizer.encode(text[:MAX_DETECTED_LENGTH])) for one in translators))
        return min(translators, key=lambda one: one.bits_per_character(text)).detect_language(text)
    raise Problem(
        404,
        "no model of this server detects languages: serve a translator into several languages, such as en-de, or a "
        "classifier whose labels are codes such as en, de",
        code="model_not_found",
    )


def find_detectors(models: "Iterable[Pipeline]") -> "tuple[list[Classifier], list[Translator]]":
    """Return the models that tell languages apart: classifiers whose labels are language codes, and translators."""
    classifiers: list[Any] = []
    translators: list[Any] = []
    for model in models:
        labels = getattr(model, "labels", ())
        if labels and not getattr(model, "per_word", False) and all(map(LANGUAGE.fullmatch, labels)):
            classifiers.append(model)
        elif model.languages and model.bundle.training.languages is not None:
            translators.append(model)
    return classifiers, translators
