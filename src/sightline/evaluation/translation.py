"""Evaluate translations: BLEU and chrF by sacreBLEU, with signatures so that others can compare."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from sightline.bundle.calibration import CLOSE_CHRF, MIN_EXACT, Calibration
from sightline.decoding import DecodingSettings
from sightline.errors import InputError
from sightline.evaluation.report import Report
from sightline.pipelines import Chat, Translation, Translator
from sightline.pipelines.translator import mean_log_probability

UNSPACED_LANGUAGES = {"zh": "zh", "ja": "char", "ko": "char", "th": "char"}
"""sacreBLEU tokenizers of languages written without spaces; all others use 13a."""


@dataclass(frozen=True)
class Scores:
    """Scores of a test set, from 0 to 100, with sacreBLEU signatures."""

    bleu: float
    chrf: float
    exact_match: float
    """Percent of the sentences that equal their reference."""
    bleu_signature: str
    chrf_signature: str


Tokenize = Literal["13a", "none", "intl", "zh", "char"]
"""sacreBLEU's tokenizers; none: split at white space, for text that is tokenized already."""


def translation_scores(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    language: str | None = None,
    tokenize: Tokenize | None = None,
) -> Scores:
    """Compare translations with one reference each; without `tokenize`, the language chooses the tokenizer."""
    if len(hypotheses) != len(references):
        raise InputError(f"{len(hypotheses):,} translations cannot be compared with {len(references):,} references")
    if not hypotheses:
        raise InputError("nothing to evaluate: the test set is empty")
    tokenizer = tokenize or UNSPACED_LANGUAGES.get((language or "").replace("_", "-").partition("-")[0].lower(), "13a")
    # `force`: no warning about lines that end in a space, which may come from a tokenizer or a file.
    bleu, chrf = BLEU(tokenize=tokenizer, force=True), CHRF()
    exact = sum(ours == theirs for ours, theirs in zip(hypotheses, references, strict=True))
    return Scores(
        bleu=float(bleu.corpus_score(hypotheses, [references]).score),
        chrf=float(chrf.corpus_score(hypotheses, [references]).score),
        exact_match=100 * exact / len(hypotheses),
        bleu_signature=str(bleu.get_signature()),
        chrf_signature=str(chrf.get_signature()),
    )


def calibrate(
    found: Sequence[Translation], references: Sequence[str], settings: DecodingSettings
) -> Calibration | None:
    """Compare translations of a validation set with their references, by score; None if that says too little."""
    rows = [
        (score, one.text, theirs)
        for one, theirs in zip(found, references, strict=True)
        if (score := mean_log_probability(one)) is not None
    ]
    exact = [ours == theirs for _, ours, theirs in rows]
    by_exact, chrf = sum(exact) >= MIN_EXACT * len(exact), CHRF()
    right = exact if by_exact else [chrf.sentence_score(a, [b]).score >= CLOSE_CHRF for _, a, b in rows]
    scores = [score for score, *_ in rows]
    return Calibration.fit(scores, right, criterion="exact" if by_exact else "close", decoding=settings)


def evaluate_translator(
    translator: Translator,
    sources: Sequence[str],
    targets: Sequence[str],
    *,
    to: str | Sequence[str] | None = None,
    settings: DecodingSettings | None = None,
    tokenize: Tokenize | None = None,
) -> Report:
    """Translate a test set and score it; `to` may name one language per source."""
    found = translator.translations(sources, to=to, split=False, settings=settings)
    language = to if to is None or isinstance(to, str) else None
    outputs = [translations[0].text for translations in found]
    return score_outputs(outputs, targets, language=language, tokenize=tokenize)


def evaluate_replies(
    chat: Chat,
    sources: Sequence[str],
    targets: Sequence[str],
    *,
    settings: DecodingSettings | None = None,
    tokenize: Tokenize | None = None,
) -> Report:
    """Reply to a test set and score the replies as translations are; each line of a source is a turn."""
    outputs = chat.replies([source.split("\n") for source in sources], settings=settings)
    return score_outputs(outputs, targets, tokenize=tokenize)


def score_outputs(
    outputs: Sequence[str], targets: Sequence[str], *, language: str | None = None, tokenize: Tokenize | None = None
) -> Report:
    """Compare generated texts with their references."""
    scores = translation_scores(outputs, targets, language=language, tokenize=tokenize)
    return Report({"sentences": len(outputs), **vars(scores)}, tuple(outputs))
