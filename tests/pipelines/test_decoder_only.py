"""Translation and chat with a decoder-only model: source, start token and target are one sequence."""

import asyncio

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from sightline.bundle import Bundle, TaskConfig
from sightline.data.datasets.batch import PairBatch
from sightline.data.tokenizers import Tokenizer, train_characters
from sightline.decoding import DecodingSettings, search_beams
from sightline.errors import InputError
from sightline.model import GPT
from sightline.model.registry import build, read_config
from sightline.pipelines import Chat, Translator
from sightline.pipelines.scoring import target_token_log_probs
from sightline.serving.scheduling.jobs import GenerationRequest
from sightline.serving.scheduling.scheduler import Scheduler
from sightline.training.objective import Objective

from .tiny import BPE, GENERATION, TAGGED, WORDS, precise, tiny_model

TEXTS = ["the cat sat", "a dog ran to the house", "x", "", "où est la gare ?"]
SETTINGS = {
    "greedy": DecodingSettings(max_new_tokens=8),
    "beam": DecodingSettings(beam_size=3, n_best=2, max_new_tokens=8),
    "rules": DecodingSettings(beam_size=2, no_repeat_ngram_size=2, min_new_tokens=3, max_new_tokens=8),
    "sampled": DecodingSettings(do_sample=True, seed=3, top_k=5, max_new_tokens=8),
    "stop": DecodingSettings(stop=("e", "a"), max_new_tokens=12),
}


def gpt_translator(tokenizer: Tokenizer = BPE, *, languages: tuple[str, ...] = (), **settings: object) -> Translator:
    task_config = TaskConfig("translation", languages=languages)
    model = tiny_model("gpt", tokenizer, **settings)
    return Translator(precise(Bundle(model, tokenizer, GENERATION, task_config=task_config, words=WORDS)))


def gpt_chat(**settings: object) -> Chat:
    task_config = TaskConfig("chat", context_turns=2)
    return Chat(precise(Bundle(tiny_model("gpt", BPE, **settings), BPE, GENERATION, task_config=task_config)))


@pytest.fixture(scope="module")
def translator() -> Translator:
    return gpt_translator()


@torch.inference_mode()
def decode_naively(pipeline: Translator, source: list[int], limit: int) -> tuple[list[int], float]:
    """Greedy search by its definition, without cache or batch: the whole sequence again for every token."""
    ids, total = [*source, pipeline.start_id], 0.0
    while len(ids) < len(source) + 1 + limit and ids[-1] != pipeline.end_id:
        likely = pipeline.model.eval()(torch.tensor([ids]))[0, -1].float().log_softmax(dim=0)
        ids.append(int(likely.argmax()))
        total += float(likely.max())
    return ids[len(source) + 1 :], total


def test_greedy_search_continues_source_and_start_token(translator):
    for text in filter(None, TEXTS):
        source = BPE.encode(text)
        expected, total = decode_naively(translator, source, 8)
        [[found]] = translator.decode_sources([source], settings=SETTINGS["greedy"], prefixes=[()], batch_tokens=100)
        assert list(found.ids) == expected
        assert found.log_probability == pytest.approx(total, abs=1e-4)


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_batch_equals_one_by_one(translator, settings):
    alone = [translator.translations([text], settings=settings)[0] for text in TEXTS]
    together = translator.translations(TEXTS, settings=settings)
    assert [[one.text for one in several] for several in together] == [[one.text for one in a] for a in alone]
    for several, others in zip(together, alone, strict=True):
        assert [one.score for one in several] == pytest.approx([one.score for one in others], abs=1e-5)


def test_beam_of_one_is_greedy_search(translator):
    def found(**settings):
        return translator.translations(TEXTS, settings=DecodingSettings(max_new_tokens=8, **settings))

    assert found(beam_size=1) == found()
    rows = [BPE.encode(text) for text in TEXTS if text]
    beams = search_beams(*translator.prepare_search(rows, SETTINGS["greedy"])).hypotheses
    greedy = translator.decode_sources(rows, settings=SETTINGS["greedy"], prefixes=[()] * 4, batch_tokens=4_096)
    assert [one.ids for [one] in beams] == [one.ids for [one] in greedy]


@pytest.mark.parametrize("batch_tokens", [1, 4_096])
def test_teacher_forcing_gives_the_log_probabilities_of_decoding(translator, batch_tokens):
    sources = [BPE.encode(text) for text in TEXTS if text]
    settings = DecodingSettings(max_new_tokens=12, beam_size=2)
    found = translator.decode_sources(sources, settings=settings, prefixes=[()] * 4, batch_tokens=4_096)
    with translator.inference_mode():
        likely = target_token_log_probs(
            translator.model,
            sources,
            [best.ids for best, *_ in found],
            start_id=translator.start_id,
            batch_tokens=batch_tokens,
        )
    for (best, *_), own in zip(found, likely, strict=True):
        assert own.tolist() == pytest.approx(best.token_log_probabilities, abs=1e-4)


def test_log_probs_of_targets_are_those_of_the_whole_sequence(translator):
    sources, target = [BPE.encode(text) for text in ("the cat", "a dog ran")], "die Katze"
    for source, own in zip(sources, translator.token_log_probs(sources, [target] * 2), strict=True):
        goal = [*BPE.encode(target), translator.end_id]
        with torch.inference_mode():
            logits = translator.model.eval()(torch.tensor([[*source, translator.start_id, *goal[:-1]]]))
        expected = logits[0, len(source) :].log_softmax(dim=-1)[range(len(goal)), goal]
        assert_close(own, expected, check_dtype=False)


@pytest.mark.parametrize("options", [{}, {"beam_size": 3, "hypotheses": True}, {"target": "die Katze"}])
def test_trace_shows_what_was_generated(translator, options):
    trace = translator.trace("the cat sat", **options, activations=("*",))
    assert (trace.family, trace.task) == ("gpt", "translation")
    ids = [token.id for token in trace.inputs.tokens]
    source = BPE.encode("the cat sat")
    goal = [token.id for token in trace.target.tokens]
    assert ids == [*source, translator.start_id, *goal[:-1]]
    assert trace.source.text == "the cat sat"
    assert [token.id for token in trace.source.tokens] == [*source, translator.start_id]
    assert [step.row for step in trace.steps] == list(range(len(source), len(ids)))
    assert [step.choice.id for step in trace.steps] == goal
    assert trace.alignment is None
    if "target" in options:
        assert trace.forced
        [likely] = translator.token_log_probs([source], ["die Katze"])
        assert [step.log_probability for step in trace.steps] == pytest.approx(likely.tolist(), abs=1e-4)
    else:
        settings = translator.settings(**{k: v for k, v in options.items() if k == "beam_size"})
        [[best, *_]] = translator.translations(["the cat sat"], settings=settings)
        assert trace.target.text == best.text
        assert trace.log_probability == pytest.approx(best.log_probability, abs=1e-4)
    if "hypotheses" in options:
        assert trace.tree.attention


def test_trace_under_an_ablation_generates_with_it(translator):
    ablated = translator.trace("the cat sat", ablate_heads={"decoder.0.self_attention": [0, 1]})
    assert ablated.log_probability != pytest.approx(translator.trace("the cat sat").log_probability)
    found = sum(step.log_probability for step in ablated.steps)
    assert ablated.log_probability == pytest.approx(found, abs=1e-6)


def test_pass_of_the_ids_of_a_trace_is_the_traced_one(translator):
    trace = translator.trace("the cat sat", activations=("decoder.1.feed_forward.output",))
    given = ([token.id for token in text.tokens] for text in (trace.source, trace.inputs))
    with translator.inference_mode():
        hidden = translator.forward_pass(*given).run()
        expected = translator.model(torch.tensor([[token.id for token in trace.inputs.tokens]]))
        assert_close(translator.model.logits(hidden), expected)


def test_language_tags_come_first():
    translator = gpt_translator(TAGGED, languages=("en", "de"))
    assert translator.languages == ("en", "de")
    [job] = [translator.create_job("the cat", SETTINGS["greedy"], to="de")]
    assert job.ids == job.prompt == [*translator.language_tag("de"), *TAGGED.encode("the cat")]
    assert translator.translate("the cat", to="de")


def test_prefix_begins_the_target(translator):
    assert translator.translate("the cat", prefix="die").startswith("die")


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda t: t.translations(["the cat"], alignment=True), "a GPT has no cross-attention, which alignment"),
        (lambda t: t.translate("the cat", coverage_penalty=0.3), "a GPT has no cross-attention, which alignment and"),
        (lambda t: t.create_job("a", t.settings(coverage_penalty=0.3)), "a GPT has no cross-attention"),
        (lambda t: t.trace("a", coverage_penalty=0.3), "a GPT has no cross-attention"),
        (lambda t: t.translate("y" * 48, split=False), r"the text has 48 tokens, more than the 47 this model can take"),
        (
            lambda t: t.translate("y" * 45, prefix="yyyy", split=False),
            r"has 4 tokens, but after the text only 3 fit into the 48",
        ),
        (
            lambda t: t.token_log_probs([[9] * 40, [9] * 30], ["y" * 7, "y" * 18]),
            "text 2 and its target have 49 tokens with the start token, more than the 48",
        ),
        (lambda t: t.trace("y" * 40, target="y" * 8), "the text and its target have 49 tokens"),
    ],
)
def test_what_the_model_cannot_do_is_refused_in_a_sentence(translator, call, sentence):
    with pytest.raises(InputError, match=sentence):
        call(translator)


@pytest.mark.parametrize("n_source", [40, 44, 47])
def test_source_and_target_fill_all_positions_and_no_more(translator, n_source):
    """The last token needs no position: nothing is predicted from it."""
    settings = DecodingSettings(max_new_tokens=30, min_new_tokens=30)
    source = BPE.encode("y" * n_source)
    [[alone]] = translator.decode_sources([source], settings=settings, prefixes=[()], batch_tokens=100)
    assert len(alone.ids) == 48 - n_source
    assert alone.finish_reason == "length"
    both = translator.decode_sources([source, [7]], settings=settings, prefixes=[(), ()], batch_tokens=4_096)
    assert [len(one.ids) for [one] in both] == [48 - n_source, 30]
    assert both[0][0].ids == alone.ids
    [likely] = translator.token_log_probs([source], ["y" * (47 - n_source)])
    assert len(likely) == 48 - n_source


def test_chat_leaves_room_for_the_reply():
    chat = gpt_chat()
    assert chat.max_context == 48 - 8
    assert chat.encode_source(["z" * 20, "y" * 20]) == BPE.encode("y" * 20)
    assert chat.encode_source(["z" * 15, "y" * 20]) == BPE.encode("z" * 15 + "\n" + "y" * 20)
    assert chat.encode_source(["y" * 45]) == BPE.encode("y" * 45)  # one turn is not shortened


def test_chat_replies_alone_as_in_a_batch_and_as_served():
    chat = gpt_chat()
    histories = [["the cat"], ["a dog ran", "où", "est la gare"], ["the", "house"]]
    replies = chat.replies(histories)
    assert replies == [chat.reply(history) for history in histories]
    served = serve(chat, histories, [chat.generation] * 3)
    assert [several[0].text for several in served] == replies
    assert chat.trace(histories[1]).target.text == replies[1]


def serve(pipeline, inputs, all_settings):
    """Generate everything in one running batch, one request each."""

    async def submit(scheduler):
        requests = [
            GenerationRequest(pipeline, [pipeline.create_job(one, settings)])
            for one, settings in zip(inputs, all_settings, strict=True)
        ]
        for request in requests:
            scheduler.submit(request)
        return [(await request.results())[0] for request in requests]

    scheduler = Scheduler()
    scheduler.start()
    try:
        return asyncio.run(submit(scheduler))
    finally:
        scheduler.stop()


def test_served_together_with_all_kinds_of_searches_equals_alone(translator):
    texts = [text for text in TEXTS if text] + ["the mat"]
    served = serve(translator, texts, SETTINGS.values())
    for text, settings, found in zip(texts, SETTINGS.values(), served, strict=True):
        alone = translator.translations([text], settings=settings)[0]
        assert [one.text for one in found] == [one.text for one in alone]
        assert [one.score for one in found] == pytest.approx([one.score for one in alone], abs=1e-5)


def test_loss_is_that_of_the_targets_alone(translator):
    rows = [np.array(ids) for ids in ([9, 10, 11], [12], [13, 14])], [np.array(ids) for ids in ([20], [21, 22, 23], [])]
    batch = PairBatch.of(*rows, source_pad_id=0, pad_id=0, start_id=translator.start_id, end_id=translator.end_id)
    model = translator.model.eval()
    loss, expected = Objective()(model, batch), 0.0
    for source, target in zip(*rows, strict=True):
        goal = [*target.tolist(), translator.end_id]
        with torch.inference_mode():
            logits = model(torch.tensor([[*source.tolist(), translator.start_id, *target.tolist()]]))
        expected -= float(logits[0, len(source) :].log_softmax(dim=-1)[range(len(goal)), goal].sum())
    assert loss.count == 7
    assert float(loss.total.detach()) == pytest.approx(expected, rel=1e-5)
    doubled = Objective(r_drop=1.0)(model, batch)  # the two passes are equal without dropout
    assert float(doubled.total.detach()) == pytest.approx(expected, rel=1e-5)


def test_gpt_learns_a_mapping_from_pairs():
    """Each letter becomes the next one, backwards: a few seconds on one core."""
    letters = "abcdefgh"
    tokenizer = train_characters([letters + " "])
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list(letters), size=rng.integers(2, 5))) for _ in range(600)]
    torch.manual_seed(0)
    model = build(
        read_config(
            "gpt",
            {
                "vocab_size": tokenizer.vocab_size,
                "d_model": 48,
                "n_heads": 4,
                "d_ff": 96,
                "n_layers": 2,
                "max_length": 12,
                "dropout": 0.0,
            },
        )
    )
    assert isinstance(model, GPT)
    bundle = Bundle(model, tokenizer, DecodingSettings(max_new_tokens=8), task_config=TaskConfig("translation"))
    translator = Translator(bundle)

    def answer(word: str) -> str:
        return "".join(letters[(letters.index(letter) + 1) % len(letters)] for letter in reversed(word))

    sources, targets = ([np.array(tokenizer.encode(text)) for text in texts] for texts in (words, map(answer, words)))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(300):
        chosen = rng.integers(0, 500, size=64)
        batch = PairBatch.of(
            [sources[i] for i in chosen], [targets[i] for i in chosen],
            source_pad_id=0, pad_id=0, start_id=translator.start_id, end_id=translator.end_id,
        )  # fmt: skip
        loss = Objective()(model.train(), batch)
        optimizer.zero_grad()
        (loss.total / loss.count).backward()
        optimizer.step()
        if step == 0:
            first = float(loss.total.detach()) / loss.count
    assert float(loss.total.detach()) / loss.count < 0.3 * first
    held_out = words[500:]
    right = [ours == answer(word) for word, ours in zip(held_out, translator.translate(held_out), strict=True)]
    assert sum(right) > 80
