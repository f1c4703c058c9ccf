"""`sightline bench trace`: the cost of tracing, compared with the same translation untraced, here and in transformers.

Thirty tokens are translated into thirty tokens by a model with random weights.
"""

from typing import Any

from sightline.bench.contenders import Contender, Plan, Setting
from sightline.bench.limits import describe_machine
from sightline.bench.memory import read_memory, reset_peak_memory
from sightline.bench.report import Report
from sightline.bench.shapes import SIZES, Shape
from sightline.bench.worker import Job
from sightline.bundle import Bundle
from sightline.data.tokenizers import train_characters
from sightline.decoding import DecodingSettings
from sightline.model.registry import build, preset
from sightline.pipelines import Translator
from sightline.runtime import limit_spinning
from sightline.tracing import EVERYTHING

N_TOKENS = 30
SENTENCE = "abcdefghijklmnopqrstuvwxyzabcd"

VARIANTS: dict[str, dict[str, Any] | None] = {
    "untraced": None,
    "attention": {"logit_lens": False},
    "attention, logit lens": {},
    "all activations, logit lens": {"activations": EVERYTHING},
    "attention, head ablation": {"logit_lens": False, "head_ablation": True},
}
"""Contender → its trace options; None: no trace."""


def contenders() -> list[Contender]:
    """Return our ways to trace, and transformers without and with `output_attentions`."""
    theirs = {"HF generate": False, "HF generate, output_attentions": True}
    return [
        *(
            Contender(name, "sightline.bench.trace:our_job", settings=(Setting("", {"variant": name}),))
            for name in VARIANTS
        ),
        *(
            Contender(
                name,
                "sightline.bench.peers.huggingface:traced_job",
                ("transformers",),
                (Setting("", {"traced": traced}),),
            )
            for name, traced in theirs.items()
        ),
    ]


def translator(size: str) -> Translator:
    """Return a translator of a known size that always generates thirty tokens."""
    known = SIZES[size]
    tokenizer = train_characters([SENTENCE])
    settings = DecodingSettings(max_new_tokens=N_TOKENS, min_new_tokens=N_TOKENS)
    return Translator(Bundle(build(preset(known.preset, vocab_size=known.vocab_size)), tokenizer, settings))


def our_job(shape: dict[str, Any], *, variant: str) -> Job:
    """Translate the sentence as one of the variants."""
    limit_spinning()
    model = translator(Shape.of(shape).size)
    options = VARIANTS[variant]
    if options is None:
        return Job(lambda: model.translate(SENTENCE), memory_growth(model, None))
    growth = memory_growth(model, options)
    recorded = model.trace(SENTENCE, **options).size

    def run() -> None:
        model.trace(SENTENCE, **options)

    return Job(run, {"recorded_bytes": recorded, **growth})


def memory_growth(model: Translator, options: dict[str, Any] | None) -> dict[str, int]:
    """Return by how much the memory of this process grows during one translation; nothing if the system is silent."""
    model.translate(SENTENCE)  # one-time costs do not count
    before = read_memory("VmRSS")
    if not reset_peak_memory():
        return {}
    result = model.translate(SENTENCE) if options is None else model.trace(SENTENCE, **options)
    return {"growth_bytes": max(0, read_memory("VmHWM") - before)} if result is not None else {}


def bench_trace(size: str, plan: Plan) -> Report:
    """Time all variants, and tell what each records and by how much it makes memory grow."""
    machine = describe_machine()
    results = plan.run(contenders(), Shape(size).as_arguments())
    remarks = [
        f"  {what}: {told}"
        for what, name in (("recorded", "recorded_bytes"), ("peak memory growth", "growth_bytes"))
        if (told := ", ".join(f"{one.name} {one.facts[name] / 1e6:,.1f} MB" for one in results if name in one.facts))
    ]
    return Report("trace", f"Tracing, {size}: {N_TOKENS} tokens into {N_TOKENS}", results, machine, remarks=remarks)
