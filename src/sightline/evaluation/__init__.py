"""Evaluate pipelines on a test set, each with a `Report`. Accuracy and F1 are in percent, as BLEU is."""

from sightline.evaluation.classification import evaluate_classifier
from sightline.evaluation.language_model import evaluate_chat, evaluate_filler, evaluate_text
from sightline.evaluation.report import Report
from sightline.evaluation.translation import evaluate_replies, evaluate_translator, translation_scores

__all__ = [
    "Report",
    "evaluate_chat",
    "evaluate_classifier",
    "evaluate_filler",
    "evaluate_replies",
    "evaluate_text",
    "evaluate_translator",
    "translation_scores",
]
