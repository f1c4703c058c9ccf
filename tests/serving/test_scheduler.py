"""Many requests in one running batch: each gets what it would have got alone, whoever comes, goes or fails."""

import asyncio
import functools
import random
from contextlib import contextmanager

import pytest

from pipelines.tiny import generator_bundle, many_languages_bundle, translator_bundle
from sightline.decoding import DecodingSettings
from sightline.errors import InputError
from sightline.pipelines import Generator, Translator
from sightline.serving.scheduler import FullError, Scheduler, StoppedError
from sightline.serving.work import Call, Work

from .wire import until

WORDS = ("the", "cat", "sat", "on", "mat", "a", "dog", "ran", "to", "house", "März", "2026", "漢字", "où", "est", "la")
WAYS = (
    {"max_length": 8},
    {"max_length": 12, "beam": 3},
    {"max_length": 6, "sample": True, "seed": 3, "n_best": 2},
    {"max_length": 9, "beam": 2, "n_best": 2},
    {"max_length": 20, "stop": ("a",)},
)


@contextmanager
def at_work(**options):
    scheduler = Scheduler(**options)
    scheduler.start()
    try:
        yield scheduler
    finally:
        scheduler.stop()


async def work(scheduler, *, steps=None):
    """Do, in turn with those who ask, what the scheduler's thread would do: so many steps, or until nothing is left."""
    while steps is None or steps > 0:
        await asyncio.sleep(0)  # who has something to ask for asks, who was told something hears it
        if not (scheduler._queue or scheduler._running):
            break
        scheduler._work()
        steps = None if steps is None else steps - 1
    await asyncio.sleep(0)


def sentence(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(1, 9)))


@pytest.fixture(scope="module")
def translator():
    return Translator(translator_bundle())


@pytest.fixture(scope="module")
def generator():
    return Generator(generator_bundle())


def jobs(pipeline, n, *, seed=0):
    """Texts, each with a way to write what belongs to it, and the step before which it comes."""
    chance = random.Random(seed)  # noqa: S311
    return [(sentence(chance), pipeline.settings(**chance.choice(WAYS)), chance.randrange(20)) for _ in range(n)]


@functools.cache  # every text is written alone once, however often it is compared
def alone(pipeline, text, settings):
    if isinstance(pipeline, Translator):
        return [one.text for one in pipeline.translations([text], settings=settings)[0]]
    return [one.text for one in pipeline.continuations([text], settings=settings)[0]]


async def asked(scheduler, pipeline, text, settings, *, streams=False):
    work = Work(pipeline, [pipeline.task(text, settings)], streams=streams)
    scheduler.submit(work)
    if not streams:
        return [one.text for one in (await work.results())[0]]
    texts: dict[int, str] = {}
    async for piece in work.stream():
        texts[piece.choice] = texts.get(piece.choice, "") + piece.text
    return [texts[choice] for choice in sorted(texts)]


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("which", ["translator", "generator"])
def test_batched_is_alone_is_streamed(which, streams, request):
    """T19: requests of all kinds that come at any time."""
    pipeline = request.getfixturevalue(which)
    wanted = jobs(pipeline, 24)
    scheduler = Scheduler(most_rows=16)

    async def everyone():
        asking = {}
        for step in range(20):
            for number, (text, settings, arrival) in enumerate(wanted):
                if arrival == step:
                    asking[number] = asyncio.create_task(asked(scheduler, pipeline, text, settings, streams=streams))
            await work(scheduler, steps=1)
        await work(scheduler)
        return await asyncio.gather(*(asking[number] for number in range(len(wanted))))

    found = asyncio.run(everyone())
    assert scheduler.counts.rows == 0
    assert scheduler.counts.settled == len(wanted)
    for (text, settings, _), texts in zip(wanted, found, strict=True):
        assert texts == alone(pipeline, text, settings), (text, settings)


def test_two_models_write_side_by_side(translator, generator):
    settings = DecodingSettings(max_length=10)

    async def both(scheduler):
        return await asyncio.gather(
            asked(scheduler, translator, "the cat", settings), asked(scheduler, generator, "the cat", settings)
        )

    with at_work() as scheduler:
        found = asyncio.run(both(scheduler))
    assert found == [alone(translator, "the cat", settings), alone(generator, "the cat", settings)]


def test_several_texts_of_one_request_keep_their_order(translator):
    texts = ["the cat", "", "a dog ran"]

    async def ask(scheduler):
        settings = translator.settings()
        work = Work(translator, [translator.task(text, settings) for text in texts])
        scheduler.submit(work)
        return await work.results()

    with at_work() as scheduler:
        found = asyncio.run(ask(scheduler))
    assert found[1] == []
    assert [found[0][0].text, found[2][0].text] == translator.translate(["the cat", "a dog ran"])


def test_who_leaves_is_not_written_for_any_more(generator):
    """T17: the steps stop when the client goes, also for one who never got in."""
    long = DecodingSettings(max_length=40, min_length=40)
    scheduler = Scheduler(most_rows=2)

    async def leave():
        waiting = [asyncio.create_task(asked(scheduler, generator, "the", long)) for _ in range(6)]
        await work(scheduler, steps=2)
        assert (scheduler.counts.rows, scheduler.n_waiting) == (2, 4)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await work(scheduler)

    asyncio.run(leave())
    assert scheduler.counts.steps == 2
    assert scheduler.counts.rows == 0
    assert not scheduler._running
    assert not scheduler._queue


@pytest.mark.parametrize("streams", [False, True])
def test_who_leaves_takes_nothing_from_those_who_stay(generator, streams, caplog):
    """The rows of the others move up: that happens between two steps, and their texts must not feel it."""
    long = DecodingSettings(max_length=40, min_length=40)
    prompts = ["the", "a dog ran", "the cat sat on", "où est"]
    scheduler = Scheduler()

    async def two_leave():
        asking = [asyncio.create_task(asked(scheduler, generator, one, long, streams=streams)) for one in prompts]
        for leaving in (asking[0], asking[2]):
            await work(scheduler, steps=3)
            leaving.cancel()
        await work(scheduler)
        return await asyncio.gather(asking[1], asking[3])

    found = asyncio.run(two_leave())
    assert found == [alone(generator, prompts[1], long), alone(generator, prompts[3], long)]
    assert caplog.records == []


def test_one_that_fails_while_others_write_takes_nothing_from_them(generator):
    """A request with two texts, of which one cannot be written: both leave, the neighbours stay."""
    nothing = generator.settings(max_length=8, banned=tuple((i,) for i in range(generator.tokenizer.vocab_size)))
    long = generator.settings(max_length=40, min_length=40)
    scheduler = Scheduler()

    async def both():
        good = asyncio.create_task(asked(scheduler, generator, "the cat", long))
        await work(scheduler, steps=1)  # somebody is being written for when it comes
        bad = Work(generator, [generator.task("a", long), generator.task("the", nothing)])
        scheduler.submit(bad)
        after = asyncio.create_task(asked(scheduler, generator, "a dog", long))
        await work(scheduler)
        with pytest.raises(InputError):
            await bad.results()
        return await asyncio.gather(good, after)

    found = asyncio.run(both())
    assert found == [alone(generator, "the cat", long), alone(generator, "a dog", long)]


def test_a_stream_that_is_closed_leaves(generator):
    scheduler = Scheduler()

    async def leave():
        task = generator.task("the", generator.settings(max_length=40, min_length=40))
        streamed = Work(generator, [task], streams=True)
        scheduler.submit(streamed)
        await work(scheduler, steps=1)
        stream = streamed.stream()
        await anext(stream)
        await stream.aclose()
        await work(scheduler)

    asyncio.run(leave())
    assert scheduler.counts.steps == 1
    assert not scheduler._running


def test_more_than_may_wait_are_refused_at_once_and_told_when_to_come_back(generator):
    settings = DecodingSettings(max_length=3, min_length=3)
    scheduler = Scheduler(most_rows=2, most_waiting=4)
    scheduler.counts.busy_seconds, scheduler.counts.settled = 12.0, 4  # three seconds each, until now

    async def crowd(n):
        asking = [asyncio.create_task(asked(scheduler, generator, "the", settings)) for _ in range(n)]
        await work(scheduler, steps=1)
        return asking

    async def come_twice():
        asking = [*await crowd(30), *await crowd(5)]  # meanwhile two of the four that waited are being written for
        await work(scheduler)
        return await asyncio.gather(*asking, return_exceptions=True)

    found = asyncio.run(come_twice())
    refused = [number for number, one in enumerate(found) if isinstance(one, FullError)]
    assert refused == [*range(4, 30), *range(32, 35)]
    assert {found[number].seconds for number in refused} == {12}
    assert all(one == alone(generator, "the", settings) for one in found if not isinstance(one, FullError))


@pytest.mark.parametrize(("busy_seconds", "told"), [(0, 1), (0.1, 1), (5, 5), (1e9, 60)])
def test_time_to_come_back_is_never_none_and_never_longer_than_a_minute(busy_seconds, told):
    scheduler = Scheduler()
    scheduler.counts.busy_seconds, scheduler.counts.settled = busy_seconds, 3

    async def three_wait():
        for _ in range(3):
            scheduler.submit(Call("one", list, [1]))
        return scheduler.seconds_to_wait()

    assert asyncio.run(three_wait()) == told


def test_one_that_cannot_be_written_fails_alone(generator):
    nothing = generator.settings(max_length=8, banned=tuple((i,) for i in range(generator.tokenizer.vocab_size)))
    settings = generator.settings(max_length=8)

    async def both(scheduler):
        return await asyncio.gather(
            asked(scheduler, generator, "the", nothing),
            asked(scheduler, generator, "the cat", settings),
            return_exceptions=True,
        )

    with at_work() as scheduler:
        bad, good = asyncio.run(both(scheduler))
    assert isinstance(bad, InputError)
    assert good == alone(generator, "the cat", settings)


class Broken(Translator):
    """A model that breaks as soon as it reads."""

    def prefilled(self, *_args, **_options):
        raise RuntimeError("no memory")


def test_a_model_that_breaks_does_not_break_the_others(translator):
    broken, settings = Broken(many_languages_bundle()), translator.settings()

    async def one_after_another(scheduler):
        work = Work(broken, [broken.task("the cat", settings, to="de")])
        scheduler.submit(work)
        with pytest.raises(RuntimeError):
            await work.results()
        return await asked(scheduler, translator, "the cat", settings)

    with at_work() as scheduler:
        assert asyncio.run(one_after_another(scheduler)) == alone(translator, "the cat", settings)


def test_calls_of_one_kind_become_one():
    """And if that one goes wrong, each bears its own fault."""
    seen = []
    scheduler = Scheduler()

    def double(items):
        seen.append(list(items))
        if "bad" in items:
            raise InputError("bad")
        return [item * 2 for item in items]

    async def call(*items):
        one = Call("double", double, items)
        scheduler.submit(one)
        return await one.results()

    async def everyone(*several):
        asking = [asyncio.create_task(call(*items)) for items in several]
        await work(scheduler)
        return await asyncio.gather(*asking, return_exceptions=True)

    assert asyncio.run(everyone((1,), (2, 3))) == [[2], [4, 6]]
    assert seen == [[1, 2, 3]]
    seen.clear()
    found = asyncio.run(everyone((1,), (2, 3), ("bad",), (4,)))
    assert [*found[:2], found[3]] == [[2], [4, 6], [8]]
    assert isinstance(found[2], InputError)
    assert seen == [[1, 2, 3, "bad", 4], [1], [2, 3], ["bad"], [4]]


def test_what_is_not_done_when_it_stops_is_told(generator, gate):
    async def stopped(scheduler):
        task = asyncio.create_task(asked(scheduler, generator, "the", DecodingSettings(max_length=40, min_length=40)))
        await asyncio.to_thread(gate.until_reached)
        stopping = asyncio.create_task(asyncio.to_thread(scheduler.stop))
        assert await asyncio.to_thread(until, lambda: scheduler._is_stopping)
        gate.open()
        await stopping
        with pytest.raises(StoppedError):
            await task
        with pytest.raises(StoppedError):
            await asked(scheduler, generator, "the", DecodingSettings())

    with at_work() as scheduler:
        asyncio.run(stopped(scheduler))
    assert scheduler.counts.steps == 1
