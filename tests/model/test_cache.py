"""Decoding with a cache: the same scores as without, whatever rows do in between."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from sightline.errors import InputError
from sightline.model import ActivationCache, Transformer
from sightline.model.cache import KVCache, group_leaders, select_last
from sightline.model.config import BlockConfig

CLOSE = {"atol": 1e-5, "rtol": 0.0}


def cache_of(state):
    return state if isinstance(state, KVCache) else state.cache


def scores_of(subject, batch, histories):
    """What follows each history, (sentence, ids), decoded from scratch."""
    lengths = torch.tensor([len(ids) for _, ids in histories])
    padded = torch.nn.utils.rnn.pad_sequence([torch.tensor(ids) for _, ids in histories], batch_first=True)
    sentences = torch.tensor([sentence for sentence, _ in histories])
    rows = replace(
        batch,
        ids=padded,
        lengths=lengths,
        source=batch.source[sentences],
        source_lengths=batch.source_lengths[sentences],
    )
    return subject.run(rows)[torch.arange(len(histories)), lengths - 1]


@pytest.fixture
def nan_filled_memory():
    """Fill all memory that is allocated without a value with NaN."""
    assert torch.utils.deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@torch.no_grad()
def test_cached_one_by_one_equals_uncached(causal, make_batch):
    """The cache must only save work; room for two tokens grows to nine on the way."""
    batch = make_batch([9, 9, 9], source_lengths=[5, 2, 6])
    expected, state = causal.run(batch), causal.start(batch, capacity=2)
    for position in range(9):
        scores, state = causal.model.step(batch.ids[:, position : position + 1], state)
        assert_close(scores, expected[:, position], **CLOSE)


@torch.no_grad()
def test_cached_in_chunks_equals_uncached(causal, make_batch):
    """A prompt goes in at once, what follows as it comes."""
    batch = make_batch([9, 9, 9], source_lengths=[5, 2, 6])
    expected, state = causal.run(batch), causal.start(batch, capacity=5)
    for begin, end in ((0, 4), (4, 5), (5, 9)):
        scores, state = causal.model.step(batch.ids[:, begin:end], state)
        assert_close(scores, expected[:, end - 1], **CLOSE)


@torch.no_grad()
def test_cached_ragged_prompts_equal_uncached(causal, batch):
    """Right-padded prompts of different lengths are continued together, by tokens and by ragged chunks."""
    histories = [(row, batch.ids[row, : batch.lengths[row]].tolist()) for row in range(3)]
    scores, state = causal.model.step(batch.ids, causal.start(batch, capacity=3), lengths=batch.lengths)
    assert_close(scores, scores_of(causal, batch, histories), **CLOSE)
    for lengths in (None, torch.tensor([1, 2, 3]), None):
        new = torch.randint(20, (3, 1 if lengths is None else 3))
        scores, state = causal.model.step(new, state, lengths=lengths)
        kept = [1, 1, 1] if lengths is None else lengths.tolist()
        histories = [(row, ids + new[row, : kept[row]].tolist()) for row, ids in histories]
        assert_close(scores, scores_of(causal, batch, histories), **CLOSE)


@torch.no_grad()
def test_cached_with_hooks_equals_without(causal, batch):
    """Hooking a step must not change it, nor what is cached."""
    states = [causal.start(batch) for _ in range(2)]
    for position in range(3):
        ids = batch.ids[:, position : position + 1]
        plain, states[0] = causal.model.step(ids, states[0])
        watched, states[1] = causal.model.step(ids, states[1], hooks=ActivationCache("*"))
        assert_close(watched, plain, **CLOSE)


@st.composite
def schedules(draw):
    """Sentences, then several steps, each a new order of the rows (or none) and new tokens (ragged or not)."""
    n_sentences = n_rows = draw(st.integers(1, 3))
    steps = []
    for index in range(draw(st.integers(2, 5))):
        order = None
        if index and draw(st.booleans()):
            order = draw(st.lists(st.integers(0, n_rows - 1), min_size=1, max_size=5))
            n_rows = len(order)
        width = draw(st.integers(1, 3))
        lengths = draw(st.none() | st.lists(st.integers(1, width), min_size=n_rows, max_size=n_rows))
        steps.append((order, width, lengths))
    return n_sentences, steps


@settings(max_examples=12)
@given(schedule=schedules(), seed=st.integers(0, 99))
@torch.no_grad()
def test_any_steps_and_reorders_equal_decoding_from_scratch(decoder, make_batch, schedule, seed):
    """Permuted, duplicated, dropped or ungrouped, rows of any length keep their own history and source."""
    n_sentences, steps = schedule
    batch = make_batch([1] * n_sentences, source_lengths=[3, 1, 4][:n_sentences], seed=seed)
    generator = torch.Generator().manual_seed(seed)
    state, histories = decoder.start(batch, capacity=2), [(row, []) for row in range(n_sentences)]
    for order, width, lengths in steps:
        if order is not None:
            state, histories = state.reorder(torch.tensor(order)), [histories[row] for row in order]
        new = torch.randint(20, (len(histories), width), generator=generator)
        scores, state = decoder.model.step(new, state, lengths=None if lengths is None else torch.tensor(lengths))
        kept = lengths or [width] * len(histories)
        histories = [(row, ids + new[i, : kept[i]].tolist()) for i, (row, ids) in enumerate(histories)]
        assert_close(scores, scores_of(decoder, batch, histories), **CLOSE)


ORDERS = {
    "permute": [2, 0, 1],
    "duplicate": [0, 0, 2],
    "drop": [1],
    "drop_first": [1, 2],
    "expand": [0, 0, 1, 1, 2, 2],
    "expand_ungrouped": [0, 1, 2, 0, 1, 2],
    "expand_unevenly": [0, 0, 0, 1, 2, 2],
    "stay": [0, 1, 2],
}


@pytest.mark.parametrize("ragged", [False, True], ids=["uniform", "ragged"])
@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS.keys())
@torch.no_grad()
def test_reordered_rows_continue_as_the_rows_they_were(decoder, batch, order, ragged):
    """Beam search relies on this."""
    histories = [(row, batch.ids[row, : batch.lengths[row] if ragged else 7].tolist()) for row in range(3)]
    _, state = decoder.model.step(batch.ids, decoder.start(batch), lengths=batch.lengths if ragged else None)
    state, histories = state.reorder(torch.tensor(order)), [histories[row] for row in order]
    for _ in range(2):
        new = torch.randint(20, (len(order), 1))
        scores, state = decoder.model.step(new, state)
        histories = [(row, [*ids, int(new[i])]) for i, (row, ids) in enumerate(histories)]
        assert_close(scores, scores_of(decoder, batch, histories), **CLOSE)


@pytest.mark.usefixtures("nan_filled_memory")
@pytest.mark.parametrize("order", [[0, 1, 2], [2, 2, 0, 1], [2, 0]], ids=["stay", "expand", "drop"])
@torch.no_grad()
def test_ragged_rows_never_attend_to_unwritten_memory(decoder, batch, order):
    """Unwritten room may hold anything, even NaN; a weight of zero does not remove NaN."""
    _, state = decoder.model.step(batch.ids, decoder.start(batch, capacity=8), lengths=batch.lengths)
    state = state.reorder(torch.tensor(order))
    for position in range(4):
        scores, state = decoder.model.step(batch.ids.repeat(2, 1)[: len(order), :1], state)
        assert scores.isfinite().all(), f"step {position}"


@pytest.mark.usefixtures("nan_filled_memory")
@torch.no_grad()
def test_rows_of_one_length_never_attend_to_unwritten_memory(decoder, make_batch):
    """The same for rows of one length, which grow and are reordered."""
    batch = make_batch([4, 4, 4])
    state = decoder.start(batch, capacity=2)
    for order in ([0, 1, 2], [0, 0, 1, 1, 2, 2], [5, 0]):
        scores, state = decoder.model.step(batch.ids.repeat(2, 1)[: len(order), :3], state.reorder(torch.tensor(order)))
        assert scores.isfinite().all()


@torch.no_grad()
@pytest.mark.parametrize(("n_new", "watched"), [(3, False), (1, True)], ids=["fused", "explicit"])
def test_beams_that_share_a_source_equal_rows_with_one_each(transformer, batch, n_new, watched):
    """Sharing must only save memory; the sources are of different lengths."""
    shared = transformer.start(transformer.encode(batch.source, lengths=batch.source_lengths))
    shared.reorder(torch.arange(3).repeat_interleave(4))
    lengths = batch.source_lengths.repeat_interleave(4)
    own = transformer.start(transformer.encode(batch.source.repeat_interleave(4, dim=0), lengths=lengths))
    assert (shared.n_sources, own.n_sources) == (3, 12)
    for _ in range(2):
        ids = torch.randint(20, (12, n_new))
        options = {"hooks": ActivationCache("*")} if watched else {}
        (one, shared), (other, own) = transformer.step(ids, shared, **options), transformer.step(ids, own)
        assert_close(one, other, **CLOSE)


@pytest.mark.parametrize("order", [[0, 0, 1, 1, 2, 2], [0, 0, 0, 1, 1, 1, 2, 2, 2]])
def test_expanding_to_beams_keeps_one_source_per_sentence(make_subject, batch, order):
    """Beams multiply what is decoded, not the encoder's output."""
    state = make_subject("transformer-paper").start(batch)
    cross_kv = state.cross_kv
    assert state.reorder(torch.tensor(order)).cross_kv is cross_kv


def test_reordering_beams_within_a_sentence_does_not_touch_cross_kv(make_subject, batch):
    """The ordinary step of beam search touches the small cache only."""
    state = make_subject("transformer-paper").start(batch).reorder(torch.arange(3).repeat_interleave(2))
    cross_kv = state.cross_kv
    assert state.reorder(torch.tensor([1, 0, 2, 2, 5, 4])).cross_kv is cross_kv


def test_source_of_a_finished_sentence_is_dropped(make_subject, batch):
    """Its source is dropped with its rows; the others continue to share."""
    state = make_subject("transformer-paper").start(batch).reorder(torch.arange(3).repeat_interleave(2))
    assert state.reorder(torch.tensor([0, 1, 4, 5])).n_sources == 2


@pytest.mark.parametrize(
    ("wanted", "leaders"),
    [
        ([0, 0, 1, 1], [0, 1]),
        ([0, 1], [0, 1]),
        ([1, 1, 0, 0], [1, 0]),
        ([0, 0], [0]),
        ([0, 1, 1], [0, 1, 1]),
        ([0, 1, 0, 1], [0, 1, 0, 1]),
        ([2, 3, 0, 0], [2, 0]),
        ([], []),
    ],
)
def test_rows_that_can_share_a_source_are_found(wanted, leaders):
    """Adjacent groups of equal size share, copies (2 and 3) count as one sentence; otherwise each row gets its own."""
    sentences = torch.tensor([0, 1, 7, 7])
    assert group_leaders(torch.tensor(wanted, dtype=torch.long), sentences).tolist() == leaders


def filled_cache(n_rows=3, n_tokens=2, capacity=5):
    """A cache of random tokens whose unused room holds a mark."""
    config = BlockConfig(vocab_size=5, d_model=8, n_heads=2, d_ff=8)
    cache = KVCache.empty(config, n_layers=2, n_rows=n_rows, capacity=capacity, like=torch.zeros(1))
    cache.buffer.fill_(-7.0)
    cache.buffer[..., :n_tokens, :] = torch.randn(2, 2, n_rows, 2, n_tokens, 4)
    cache.advance(n_tokens)
    return cache


def test_reorder_that_changes_nothing_writes_nothing():
    """Greedy search must not pay for beams."""
    cache = filled_cache()
    pointer, version = cache.buffer.data_ptr(), cache.buffer._version
    cache.reorder(torch.arange(3))
    assert (cache.buffer.data_ptr(), cache.buffer._version) == (pointer, version)


@pytest.mark.parametrize("order", [[2, 1, 0], [0, 0, 1], [1], [0, 2]])
def test_reorder_moves_rows_in_place(order):
    """No new buffer as long as the rows do not become more."""
    cache = filled_cache()
    pointer, before = cache.buffer.data_ptr(), cache.buffer.clone()
    cache.reorder(torch.tensor(order))
    assert cache.buffer.data_ptr() == pointer
    assert torch.equal(cache.buffer[:, :, : len(order), :, :2], before[:, :, order, :, :2])


def test_reorder_copies_only_rows_that_move(monkeypatch):
    """Rows that stay are neither read nor written."""
    cache = filled_cache(n_rows=6)
    written = []
    original = torch.Tensor.index_copy_

    def counted(self, dim, index, source):
        written.extend(index.tolist())
        return original(self, dim, index, source)

    monkeypatch.setattr(torch.Tensor, "index_copy_", counted)
    cache.reorder(torch.tensor([0, 1, 3, 3, 4, 2]))
    assert written == [2, 5]


def test_reorder_leaves_unused_room_alone():
    """Only the positions in use are moved: each row's room keeps its own mark."""
    cache = filled_cache()
    cache.buffer[..., 2:, :] = torch.arange(3.0)[:, None, None, None]
    cache.reorder(torch.tensor([2, 1, 0]))
    assert torch.equal(cache.buffer[0, 0, :, 0, 2, 0], torch.arange(3.0))


def test_reserve_keeps_the_cached_tokens():
    """Growing copies the tokens so far."""
    cache = filled_cache(n_tokens=2, capacity=3)
    before = cache.buffer[..., :2, :].clone()
    cache.reserve(4)
    assert torch.equal(cache.buffer[..., :2, :], before)


@pytest.mark.parametrize(("capacity", "n_new", "expected"), [(4, 2, 4), (4, 3, 8), (2, 9, 11)])
def test_reserve_doubles_or_takes_what_is_needed(capacity, n_new, expected):
    """Growth by doubling copies each token a constant number of times."""
    assert filled_cache(n_tokens=2, capacity=capacity).reserve(n_new).buffer.size(4) == expected


def test_cache_of_rows_of_one_length_needs_no_mask_for_one_token():
    """The newest token attends to everything: the kernel gets no mask to read."""
    assert filled_cache().mask(1, torch.float32) is None


def test_cache_is_uniform_again_when_lengths_are_equal():
    """Rows that have caught up take the fast path again."""
    cache = filled_cache()
    cache.reserve(9).advance(3, torch.tensor([1, 2, 3]))
    assert not cache.is_uniform
    cache.advance(3, torch.tensor([3, 2, 1]))
    assert cache.is_uniform


def test_cache_is_uniform_again_when_only_rows_of_one_length_are_kept():
    """A dropped straggler must not slow those that stay, nor a dropped long row keep its room in use."""
    cache = filled_cache()
    cache.reserve(9).advance(3, torch.tensor([1, 1, 3]))
    cache.reorder(torch.tensor([1, 0]))
    assert cache.is_uniform
    assert cache.longest == 3


def test_cache_holds_the_heads_of_the_groups_only(make_subject, batch):
    """Grouped keys are cached once per group: that is their purpose."""
    assert cache_of(make_subject("gpt-llama").start(batch)).buffer.size(3) == 2


def test_step_refuses_more_tokens_than_the_model_can_take(make_subject, batch):
    """Step by step, too, learned positions end somewhere."""
    subject = make_subject("gpt-gpt2", max_length=8)
    _, cache = subject.model.step(batch.ids, subject.start(batch))
    _, cache = subject.model.step(batch.ids[:, :1], cache)
    with pytest.raises(InputError, match=r"9 tokens are more than this model can take \(8\)"):
        subject.model.step(batch.ids[:, :1], cache)


def test_last_of_takes_each_row_s_last_real_token():
    """Scores after the padding would be scores of nothing."""
    hidden = torch.arange(6.0).view(2, 3, 1)
    assert select_last(hidden, torch.tensor([1, 3])).flatten().tolist() == [0, 5]


def test_start_keeps_nothing_on_the_model(decoder, batch):
    """State is handed in and out: two decodings at once do not meet."""
    with torch.no_grad():
        one, other = decoder.start(batch), decoder.start(batch)
        alone, _ = decoder.model.step(batch.ids[:, 1:2], decoder.start(batch))
        decoder.model.step(batch.ids[:, :1], one)
        scores, _ = decoder.model.step(batch.ids[:, 1:2], other)
    assert torch.equal(scores, alone)


def test_start_projects_the_source_once(make_subject, batch, monkeypatch):
    """The keys and values of the source are not computed again at each step."""
    subject = make_subject("transformer-paper")
    assert isinstance(subject.model, Transformer)
    state = subject.start(batch)
    monkeypatch.setattr(subject.model.decoder, "project_cross_kv", None)
    subject.model.step(batch.ids[:, :1], state)


def test_step_keeps_no_graph(decoder, batch):
    """A cache that kept the graph of each key would grow with every step."""
    state = decoder.start(batch)
    _, state = decoder.model.step(batch.ids[:, :1], state)
    assert not (state if isinstance(state, KVCache) else state.cache).buffer.requires_grad
