"""Build the model card, README.md."""

from collections.abc import Mapping
from datetime import date

import torch

from sightline import __version__
from sightline.model.registry import Model, architecture_of
from sightline.settings import to_mapping
from sightline.text import Tokenizer

FAMILIES = {
    "transformer": "An encoder–decoder Transformer",
    "bert": "An encoder-only Transformer (BERT)",
    "gpt": "A decoder-only Transformer (GPT)",
}


def build_model_card(
    model: Model,
    tokenizer: Tokenizer | None = None,
    *,
    title: str = "A Sightline model",
    created: date | None = None,
    sections: Mapping[str, str] | None = None,
) -> str:
    """Describe a model in Markdown: architecture, size, settings and versions, followed by `sections`."""
    architecture = architecture_of(model.config)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    vocabulary = f", {tokenizer.vocab_size:,} tokens" if tokenizer else ""
    rows = "\n".join(f"| {name} | {format_value(value)} |" for name, value in to_mapping(model.config).items())
    day = f" on {created.isoformat()}" if created else ""
    more = "".join(f"\n## {name}\n\n{text.strip()}\n" for name, text in (sections or {}).items())
    return (
        f"# {title}\n\n"
        f"{FAMILIES[architecture]}: {parameters:,} parameters{vocabulary}.\n\n"
        f"| setting | value |\n|---|---|\n| architecture | {architecture} |\n{rows}\n\n"
        f"Created{day} with Sightline {__version__} and torch {torch.__version__}.\n\n"
        f"Run `sightline info` on this folder for details.\n{more}"
    )


def format_value(value: object) -> str:
    """Format a value for readers."""
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    return f"{value:,}" if isinstance(value, int | float) else str(value)
