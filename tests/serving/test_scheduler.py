"""Many requests in one running batch: each gets what it would have got alone, whoever comes, goes or fails."""

import asyncio
import random
import time
from contextlib import contextmanager

import pytest

from pipelines.tiny import generator_bundle, many_languages_bundle, translator_bundle
from sightline.decoding import DecodingSettings
from sightline.errors import InputError
from sightline.pipelines import Generator, Translator
from sightline.serving.running import Running
from sightline.serving.scheduler import FullError, Scheduler, StoppedError
from sightline.serving.work import Call, Work

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


def sentence(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS, k=chance.randint(1, 9)))


@pytest.fixture(scope="module")
def translator():
    return Translator(translator_bundle())


@pytest.fixture(scope="module")
def generator():
    return Generator(generator_bundle())


def jobs(pipeline, n, *, seed=0):
    """Texts, each with a way to write what belongs to it."""
    chance = random.Random(seed)  # noqa: S311
    return [(sentence(chance), pipeline.settings(**chance.choice(WAYS)), chance.random() * 0.05) for _ in range(n)]


def alone(pipeline, text, settings):
    if isinstance(pipeline, Translator):
        return [one.text for one in pipeline.translations([text], settings=settings)[0]]
    return [one.text for one in pipeline.continuations([text], settings=settings)[0]]


async def asked(scheduler, pipeline, text, settings, *, wait=0.0, streams=False):
    await asyncio.sleep(wait)
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
    wanted = jobs(pipeline, 40)

    async def everyone(scheduler):
        return await asyncio.gather(
            *(asked(scheduler, pipeline, text, settings, wait=wait, streams=streams) for text, settings, wait in wanted)
        )

    with at_work(most_rows=16) as scheduler:
        found = asyncio.run(everyone(scheduler))
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

    async def leave(scheduler):
        waiting = [asyncio.create_task(asked(scheduler, generator, "the", long)) for _ in range(6)]
        while scheduler.counts.steps < 2:  # two are being written for, the others wait
            await asyncio.sleep(0.001)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        before = scheduler.counts.steps
        while scheduler.counts.rows:
            await asyncio.sleep(0.001)
        after = scheduler.counts.steps
        await asyncio.sleep(0.1)
        return before, after, scheduler.counts.steps

    with at_work(most_rows=2) as scheduler:
        before, after, later = asyncio.run(leave(scheduler))
        assert not scheduler._running
        assert not scheduler._queue
    assert after - before <= 2
    assert later == after


@pytest.fixture
def unhurried(monkeypatch):
    """Let every step take a while, so that whoever watches is not too late."""
    advance = Running.advance
    monkeypatch.setattr(Running, "advance", lambda running: time.sleep(0.02) or advance(running))


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.usefixtures("unhurried")
def test_who_leaves_takes_nothing_from_those_who_stay(generator, streams, caplog):
    """The rows of the others move up: that happens between two steps, and their texts must not feel it."""
    long = DecodingSettings(max_length=40, min_length=40)
    prompts = ["the", "a dog ran", "the cat sat on", "où est"]

    async def two_leave(scheduler):
        asking = [asyncio.create_task(asked(scheduler, generator, one, long, streams=streams)) for one in prompts]
        for leaving in (asking[0], asking[2]):
            steps = scheduler.counts.steps
            async with asyncio.timeout(60):
                while scheduler.counts.steps < steps + 3:
                    await asyncio.sleep(0.001)
            leaving.cancel()
        return await asyncio.gather(asking[1], asking[3])

    with at_work() as scheduler:
        found = asyncio.run(two_leave(scheduler))
    assert found == [alone(generator, prompts[1], long), alone(generator, prompts[3], long)]
    assert caplog.records == []


def test_one_that_fails_while_others_write_takes_nothing_from_them(generator):
    """A request with two texts, of which one cannot be written: both leave, the neighbours stay."""
    nothing = generator.settings(max_length=8, banned=tuple((i,) for i in range(generator.tokenizer.vocab_size)))
    long = generator.settings(max_length=40, min_length=40)

    async def both(scheduler):
        good = asyncio.create_task(asked(scheduler, generator, "the cat", long))
        async with asyncio.timeout(60):
            while scheduler.counts.steps == 0:  # somebody is being written for when it comes
                await asyncio.sleep(0.001)
        bad = Work(generator, [generator.task("a", long), generator.task("the", nothing)])
        scheduler.submit(bad)
        after = asyncio.create_task(asked(scheduler, generator, "a dog", long))
        with pytest.raises(InputError):
            await bad.results()
        return await asyncio.gather(good, after)

    with at_work() as scheduler:
        found = asyncio.run(both(scheduler))
    assert found == [alone(generator, "the cat", long), alone(generator, "a dog", long)]


def test_a_stream_that_is_closed_leaves(generator):
    async def leave(scheduler):
        task = generator.task("the", generator.settings(max_length=40, min_length=40))
        work = Work(generator, [task], streams=True)
        scheduler.submit(work)
        stream = work.stream()
        await anext(stream)
        await stream.aclose()
        for _ in range(200):
            if not scheduler._running:
                return True
            await asyncio.sleep(0.005)
        return False

    with at_work() as scheduler:
        assert asyncio.run(leave(scheduler))


def test_more_than_may_wait_are_refused_at_once_and_told_when_to_come_back(generator):
    long = DecodingSettings(max_length=30, min_length=30)

    async def crowd(scheduler):
        return await asyncio.gather(
            *(asked(scheduler, generator, "the", long) for _ in range(30)), return_exceptions=True
        )

    with at_work(most_rows=2, most_waiting=4) as scheduler:
        found = asyncio.run(crowd(scheduler))
    refused = [one for one in found if isinstance(one, FullError)]
    assert 24 <= len(refused) <= 28
    assert all(1 <= one.seconds <= 60 for one in refused)
    assert all(one == found[0] for one in found if not isinstance(one, FullError))


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
    seen = []

    def double(items):
        time.sleep(0.02)
        seen.append(list(items))
        if "bad" in items:
            raise InputError("bad")
        return [item * 2 for item in items]

    async def call(scheduler, *items):
        one = Call("double", double, items)
        scheduler.submit(one)
        return await one.results()

    async def everyone(scheduler):
        several = [call(scheduler, 1), call(scheduler, 2, 3), call(scheduler, "bad"), call(scheduler, 4)]
        return await asyncio.gather(*several, return_exceptions=True)

    with at_work() as scheduler:
        found = asyncio.run(everyone(scheduler))
    assert found[:2] == [[2], [4, 6]]
    assert isinstance(found[2], InputError)
    assert found[3] == [8]
    assert any(len(items) > 1 for items in seen)


@pytest.mark.usefixtures("unhurried")
def test_what_is_not_done_when_it_stops_is_told(generator):
    async def stopped(scheduler):
        task = asyncio.create_task(asked(scheduler, generator, "the", DecodingSettings(max_length=40, min_length=40)))
        async with asyncio.timeout(60):
            while scheduler.counts.steps == 0:
                await asyncio.sleep(0.001)
        await asyncio.to_thread(scheduler.stop)
        with pytest.raises(StoppedError):
            await task
        with pytest.raises(StoppedError):
            await asked(scheduler, generator, "the", DecodingSettings())

    with at_work() as scheduler:
        asyncio.run(stopped(scheduler))
