"""How good translations are: BLEU and chrF, computed and signed by sacreBLEU, so that others can compare."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from sightline.decoding import DecodingSettings
from sightline.errors import InputError
from sightline.evaluation.report import Report
from sightline.pipelines import Chat, Translator

WITHOUT_BLANKS = {"zh": "zh", "ja": "char", "ko": "char", "th": "char"}
"""How sacreBLEU cuts languages into words whose words are not between blanks; all others as mteval-v13a does."""


@dataclass(frozen=True)
class Scores:
    """Scores of a whole test set, from 0 to 100, with the signatures that say how they were computed."""

    bleu: float
    chrf: float
    exact_match: float
    """Share of the sentences that are exactly as in the reference."""
    bleu_signature: str
    chrf_signature: str


Tokenize = Literal["13a", "none", "intl", "zh", "char"]
"""What BLEU takes for words, by sacreBLEU's names; none: what is between blanks, for text that is tokenised already."""


def translation_scores(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    language: str | None = None,
    tokenize: Tokenize | None = None,
) -> Scores:
    """Compare translations with one reference each; the language, if `tokenize` is not given, decides on the words."""
    if len(hypotheses) != len(references):
        raise InputError(f"{len(hypotheses):,} translations cannot be compared with {len(references):,} references")
    if not hypotheses:
        raise InputError("there is nothing to compare: the test set is empty")
    cut = tokenize or WITHOUT_BLANKS.get((language or "").replace("_", "-").partition("-")[0].lower(), "13a")
    # They may come from a tokenizer or a file: that a line ends in a blank is no reason for a warning.
    bleu, chrf = BLEU(tokenize=cut, force=True), CHRF()
    exact = sum(ours == theirs for ours, theirs in zip(hypotheses, references, strict=True))
    return Scores(
        bleu=float(bleu.corpus_score(hypotheses, [references]).score),
        chrf=float(chrf.corpus_score(hypotheses, [references]).score),
        exact_match=100 * exact / len(hypotheses),
        bleu_signature=str(bleu.get_signature()),
        chrf_signature=str(chrf.get_signature()),
    )


def evaluate_translator(
    translator: Translator | Chat,
    sources: Sequence[str],
    targets: Sequence[str],
    *,
    to: str | Sequence[str] | None = None,
    settings: DecodingSettings | None = None,
    tokenize: Tokenize | None = None,
) -> Report:
    """Translate a test set and score it; `to` may name a language for each source.

    What a chat model answers is scored the same way: each line of a source is a turn.
    """
    if isinstance(translator, Chat):
        hypotheses = translator.replies([source.split("\n") for source in sources], settings=settings)
    else:
        found = translator.translations(sources, to=to, settings=settings)
        hypotheses = [translations[0].text for translations in found]
    language = to if to is None or isinstance(to, str) else None
    scores = translation_scores(hypotheses, targets, language=language, tokenize=tokenize)
    return Report(
        {
            "sentences": len(sources),
            "bleu": scores.bleu,
            "chrf": scores.chrf,
            "exact_match": scores.exact_match,
            "bleu_signature": scores.bleu_signature,
            "chrf_signature": scores.chrf_signature,
        }
    )
