"""End to end: a model trained with packed batches, decoded through its cache by every kind of search."""

import pytest
import torch
from torch import Tensor

from sightline.decoding import DecodingSettings, Request, StepOutput, search, search_beams
from sightline.model import GPT, GPTConfig, Transformer, TransformerConfig
from sightline.training.loss import projected_cross_entropy
from sightline.training.optimizer import make_optimizer
from sightline.training.schedule import learning_rate
from sightline.training.settings import TrainingSettings

PAD, START, END, FIRST_LETTER, N_LETTERS = 0, 1, 2, 3, 6


def draw_pairs(n_pairs: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Return words of 2 to 6 letters, the reversed words with an end token, and the lengths of the words."""
    lengths = torch.randint(2, 7, (n_pairs,), generator=generator)
    words = torch.randint(FIRST_LETTER, FIRST_LETTER + N_LETTERS, (n_pairs, 6), generator=generator)
    columns = torch.arange(7)
    reversed_words = words.gather(1, (lengths[:, None] - 1 - columns[:6]).clamp(min=0))
    targets = torch.cat([reversed_words, torch.full((n_pairs, 1), PAD)], dim=1)
    targets = torch.where(columns < lengths[:, None], targets, torch.where(columns == lengths[:, None], END, PAD))
    return torch.where(columns[:6] < lengths[:, None], words, PAD), targets, lengths


@pytest.fixture(scope="module")
def reverser() -> Transformer:
    """A tiny model trained to reverse words: packed, with the chunked loss."""
    torch.manual_seed(0)
    config = TransformerConfig(
        vocab_size=FIRST_LETTER + N_LETTERS,
        d_model=32,
        d_ff=64,
        n_heads=4,
        n_encoder_layers=2,
        n_decoder_layers=2,
        dropout=0.0,
    )
    model = Transformer(config)
    settings = TrainingSettings(optimizer="muon", schedule="linear", learning_rate=0.02, warmup_steps=20, max_steps=120)
    optimizer = make_optimizer(model, settings)
    generator = torch.Generator().manual_seed(1)
    for step in range(1, settings.max_steps + 1):
        words, targets, lengths = draw_pairs(64, generator)
        inputs = torch.cat([torch.full((64, 1), START), targets[:, :-1]], dim=1)
        encoder_output = model.encode(words, lengths=lengths, packed=True)
        hidden = model.decode(inputs, encoder_output, lengths=lengths + 1, packed=True)
        labels = targets[torch.arange(7) < lengths[:, None] + 1]
        loss = projected_cross_entropy(hidden, model.output.weight, labels) / labels.numel()
        optimizer.zero_grad()
        loss.backward()
        optimizer.update(step, learning_rate=learning_rate(settings, step, d_model=config.d_model))
    # In double precision no two words are so nearly alike that the rounding of a kernel could decide between them.
    return model.double().eval()


def make_step(model: Transformer | GPT):
    """Wrap a model's step as a step function for decoding."""

    def step(ids: Tensor, state, needs) -> StepOutput:
        return StepOutput(*model.step(ids[:, None], state))

    return step


@torch.inference_mode()
def decode(model: Transformer, words: Tensor, lengths: Tensor, **settings: object) -> list[list[tuple[int, ...]]]:
    state = model.start(model.encode(words, lengths=lengths), capacity=2)
    chosen = DecodingSettings(max_new_tokens=10, **settings)
    found = search(make_step(model), state, Request([[START]] * len(words), chosen, end_ids=[END]))
    return [[hypothesis.content for hypothesis in hypotheses] for hypotheses in found]


@pytest.mark.parametrize(
    "settings", [{}, {"beam_size": 4}, {"do_sample": True, "temperature": 0.1, "seed": 3}], ids=str
)
def test_reverser_reverses_new_words(reverser, settings):
    """Trained on packed batches, the model gives the right tokens one by one, in every kind of search."""
    words, targets, lengths = draw_pairs(50, torch.Generator().manual_seed(2))
    expected = [tuple(row[:n].tolist()) for row, n in zip(targets, lengths.tolist(), strict=True)]
    found = [best[0] for best in decode(reverser, words, lengths, **settings)]
    assert sum(a == b for a, b in zip(found, expected, strict=True)) > 25  # by chance there would be none


@pytest.mark.parametrize("settings", [{}, {"beam_size": 4, "n_best": 3}, {"do_sample": True, "seed": 3}], ids=str)
def test_search_of_a_batch_equals_search_of_each_sentence(reverser, settings):
    """Padding, shared sources, reordered caches and dropped rows change no result."""
    words, _, lengths = draw_pairs(12, torch.Generator().manual_seed(4))
    together = decode(reverser, words, lengths, **settings)
    alone = [
        decode(reverser, words[i : i + 1, :n], lengths[i : i + 1], **settings)[0]
        for i, n in enumerate(lengths.tolist())
    ]
    assert together == alone


def test_beam_score_is_what_the_model_gives_the_whole_text(reverser):
    """Log-probabilities summed step by step through the cache equal those of one uncached pass."""
    words, _, lengths = draw_pairs(6, torch.Generator().manual_seed(5))
    with torch.inference_mode():
        state = reverser.start(reverser.encode(words, lengths=lengths))
        request = Request([[START]] * 6, DecodingSettings(beam_size=3, n_best=3, max_new_tokens=10), end_ids=[END])
        found = search_beams(make_step(reverser), state, request, keep_history=True)
        for i, (hypotheses, history) in enumerate(zip(found.hypotheses, found.histories, strict=True)):
            for hypothesis, ending in zip(hypotheses, history.endings, strict=True):
                inputs = torch.tensor([[START, *hypothesis.ids[:-1]]])
                logits = reverser(words[i : i + 1], inputs, source_lengths=lengths[i : i + 1])[0]
                whole = logits.log_softmax(-1)[torch.arange(inputs.size(1)), torch.tensor(hypothesis.ids)].sum()
                assert hypothesis.log_probability == pytest.approx(float(whole), abs=1e-4)
                assert tuple(node.token for node in history.path(*ending)) == hypothesis.ids


def test_gpt_continues_prompts_of_mixed_length_as_if_alone():
    """Right-padded prompts, one prefill, then rows of uneven length side by side."""
    torch.manual_seed(0)
    model = GPT(GPTConfig(vocab_size=20, d_model=16, n_heads=2, d_ff=32, n_layers=2, max_length=40)).double().eval()
    prompts = [[5, 6, 7, 8], [9], [3, 4]]
    settings = DecodingSettings(beam_size=3, max_new_tokens=12, include_prompt=True, no_repeat_ngram_size=2)

    @torch.inference_mode()
    def continue_prompts(chosen: list[list[int]]) -> list[tuple[int, ...]]:
        """Prefill all but the last id of each prompt, then search."""
        n_seen = torch.tensor([len(prompt) - 1 for prompt in chosen])
        cache = model.start(len(chosen), capacity=4)
        if n_seen.max() > 0:
            seen = [prompt[:-1] + [0] * (int(n_seen.max()) - len(prompt) + 1) for prompt in chosen]
            _, cache = model.step(torch.tensor(seen), cache, lengths=n_seen)
        return [best[0].ids for best in search(make_step(model), cache, Request(chosen, settings, end_ids=[1]))]

    assert continue_prompts(prompts) == [continue_prompts([prompt])[0] for prompt in prompts]
