"""Many requests in one running batch: each gets the same result as alone, whichever others come, leave or fail."""

import asyncio
import functools
import random
from contextlib import contextmanager

import pytest

from pipelines.tiny import generator_bundle, many_languages_bundle, translator_bundle
from sightline.decoding import DecodingSettings
from sightline.engine.torch_engine import TorchEngine
from sightline.errors import InputError
from sightline.pipelines import Generator, Translator
from sightline.serving.scheduling.jobs import BatchedCall, GenerationRequest
from sightline.serving.scheduling.scheduler import QueueFullError, Scheduler, StoppedError

from .wire import until

WORDS = ("the", "cat", "sat", "on", "mat", "a", "dog", "ran", "to", "house", "März", "2026", "漢字", "où", "est", "la")
SETTINGS = (
    {"max_new_tokens": 8},
    {"max_new_tokens": 12, "beam_size": 3},
    {"max_new_tokens": 6, "do_sample": True, "seed": 3, "n_best": 2},
    {"max_new_tokens": 9, "beam_size": 2, "n_best": 2},
    {"max_new_tokens": 20, "stop": ("a",)},
)


@contextmanager
def running_scheduler(**options):
    scheduler = Scheduler(**options)
    scheduler.start()
    try:
        yield scheduler
    finally:
        scheduler.stop()


async def run_steps(scheduler, *, steps=None):
    """Run the scheduler in place of its thread, alternating with clients: `steps` times, or until nothing is left."""
    while steps is None or steps > 0:
        await asyncio.sleep(0)  # clients submit requests and receive updates
        if not (scheduler._queue or scheduler._running):
            break
        scheduler._run_once()
        steps = None if steps is None else steps - 1
    await asyncio.sleep(0)


def sentence(rng: random.Random) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(1, 9)))


@pytest.fixture(scope="module")
def translator():
    return Translator(translator_bundle())


@pytest.fixture(scope="module")
def generator():
    return Generator(generator_bundle())


def random_requests(pipeline, n, *, seed=0):
    """Return texts, each with decoding settings and the step before which it is submitted."""
    rng = random.Random(seed)  # noqa: S311
    return [(sentence(rng), pipeline.settings(**rng.choice(SETTINGS)), rng.randrange(20)) for _ in range(n)]


@functools.cache  # every text is generated alone once, however often it is compared
def alone(pipeline, text, settings):
    if isinstance(pipeline, Translator):
        return [one.text for one in pipeline.translations([text], settings=settings)[0]]
    return [one.text for one in pipeline.continuations([text], settings=settings)[0]]


async def generate(scheduler, pipeline, text, settings, *, streams=False):
    request = GenerationRequest(pipeline, [pipeline.create_job(text, settings)], streams=streams)
    scheduler.submit(request)
    if not streams:
        return [one.text for one in (await request.results())[0]]
    texts: dict[int, str] = {}
    async for chunk in request.stream():
        texts[chunk.choice] = texts.get(chunk.choice, "") + chunk.text
    return [texts[choice] for choice in sorted(texts)]


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("which", ["translator", "generator"])
def test_batched_equals_alone_equals_streamed(which, streams, request):
    """T19: requests with all kinds of settings, submitted at any time."""
    pipeline = request.getfixturevalue(which)
    wanted = random_requests(pipeline, 24)
    scheduler = Scheduler(max_batch_size=16)

    async def everyone():
        asking = {}
        for step in range(20):
            for number, (text, settings, arrival) in enumerate(wanted):
                if arrival == step:
                    asking[number] = asyncio.create_task(generate(scheduler, pipeline, text, settings, streams=streams))
            await run_steps(scheduler, steps=1)
        await run_steps(scheduler)
        return await asyncio.gather(*(asking[number] for number in range(len(wanted))))

    found = asyncio.run(everyone())
    assert scheduler.counts.rows == 0
    assert scheduler.counts.finished == len(wanted)
    for (text, settings, _), texts in zip(wanted, found, strict=True):
        assert texts == alone(pipeline, text, settings), (text, settings)


def test_two_models_generate_side_by_side(translator, generator):
    settings = DecodingSettings(max_new_tokens=10)

    async def both(scheduler):
        return await asyncio.gather(
            generate(scheduler, translator, "the cat", settings), generate(scheduler, generator, "the cat", settings)
        )

    with running_scheduler() as scheduler:
        found = asyncio.run(both(scheduler))
    assert found == [alone(translator, "the cat", settings), alone(generator, "the cat", settings)]


def test_several_texts_of_one_request_keep_their_order(translator):
    texts = ["the cat", "", "a dog ran"]

    async def ask(scheduler):
        settings = translator.settings()
        request = GenerationRequest(translator, [translator.create_job(text, settings) for text in texts])
        scheduler.submit(request)
        return await request.results()

    with running_scheduler() as scheduler:
        found = asyncio.run(ask(scheduler))
    assert found[1] == []
    assert [found[0][0].text, found[2][0].text] == translator.translate(["the cat", "a dog ran"])


def test_cancelled_requests_take_no_more_steps(generator):
    """T17: the steps stop when the client disconnects, also for requests still waiting."""
    long = DecodingSettings(max_new_tokens=40, min_new_tokens=40)
    scheduler = Scheduler(max_batch_size=2)

    async def leave():
        waiting = [asyncio.create_task(generate(scheduler, generator, "the", long)) for _ in range(6)]
        await run_steps(scheduler, steps=2)
        assert (scheduler.counts.rows, scheduler.n_waiting) == (2, 4)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await run_steps(scheduler)

    asyncio.run(leave())
    assert scheduler.counts.steps == 2
    assert scheduler.counts.rows == 0
    assert not scheduler._running
    assert not scheduler._queue


@pytest.mark.parametrize("streams", [False, True])
def test_cancelled_requests_do_not_change_the_others(generator, streams, caplog):
    """The rows of the others move up between two steps, which must not change their texts."""
    long = DecodingSettings(max_new_tokens=40, min_new_tokens=40)
    prompts = ["the", "a dog ran", "the cat sat on", "où est"]
    scheduler = Scheduler()

    async def two_leave():
        asking = [asyncio.create_task(generate(scheduler, generator, one, long, streams=streams)) for one in prompts]
        for leaving in (asking[0], asking[2]):
            await run_steps(scheduler, steps=3)
            leaving.cancel()
        await run_steps(scheduler)
        return await asyncio.gather(asking[1], asking[3])

    found = asyncio.run(two_leave())
    assert found == [alone(generator, prompts[1], long), alone(generator, prompts[3], long)]
    assert caplog.records == []


def test_failing_request_does_not_change_the_others(generator):
    """A request with two jobs, of which one fails: both are dropped, other requests stay."""
    nothing = generator.settings(max_new_tokens=8, bad_words=tuple((i,) for i in range(generator.tokenizer.vocab_size)))
    long = generator.settings(max_new_tokens=40, min_new_tokens=40)
    scheduler = Scheduler()

    async def both():
        good = asyncio.create_task(generate(scheduler, generator, "the cat", long))
        await run_steps(scheduler, steps=1)  # another request is running when it is submitted
        bad = GenerationRequest(generator, [generator.create_job("a", long), generator.create_job("the", nothing)])
        scheduler.submit(bad)
        after = asyncio.create_task(generate(scheduler, generator, "a dog", long))
        await run_steps(scheduler)
        with pytest.raises(InputError):
            await bad.results()
        return await asyncio.gather(good, after)

    found = asyncio.run(both())
    assert found == [alone(generator, "the cat", long), alone(generator, "a dog", long)]


def test_closed_stream_is_cancelled(generator):
    scheduler = Scheduler()

    async def leave():
        task = generator.create_job("the", generator.settings(max_new_tokens=40, min_new_tokens=40))
        streamed = GenerationRequest(generator, [task], streams=True)
        scheduler.submit(streamed)
        await run_steps(scheduler, steps=1)
        stream = streamed.stream()
        await anext(stream)
        await stream.aclose()
        await run_steps(scheduler)

    asyncio.run(leave())
    assert scheduler.counts.steps == 1
    assert not scheduler._running


def test_full_queue_refuses_at_once_with_the_time_to_wait(generator):
    settings = DecodingSettings(max_new_tokens=3, min_new_tokens=3)
    scheduler = Scheduler(max_batch_size=2, max_waiting=4)
    scheduler.counts.busy_seconds, scheduler.counts.finished = 12.0, 4  # three seconds each, until now

    async def submit_many(n):
        asking = [asyncio.create_task(generate(scheduler, generator, "the", settings)) for _ in range(n)]
        await run_steps(scheduler, steps=1)
        return asking

    async def come_twice():
        asking = [
            *await submit_many(30),
            *await submit_many(5),
        ]  # meanwhile two of the four that waited are running
        await run_steps(scheduler)
        return await asyncio.gather(*asking, return_exceptions=True)

    found = asyncio.run(come_twice())
    refused = [number for number, one in enumerate(found) if isinstance(one, QueueFullError)]
    assert refused == [*range(4, 30), *range(32, 35)]
    assert {found[number].retry_after for number in refused} == {12}
    assert all(one == alone(generator, "the", settings) for one in found if not isinstance(one, QueueFullError))


@pytest.mark.parametrize(("busy_seconds", "estimate"), [(0, 1), (0.1, 1), (5, 5), (1e9, 60)])
def test_estimated_wait_is_one_second_to_one_minute(busy_seconds, estimate):
    scheduler = Scheduler()
    scheduler.counts.busy_seconds, scheduler.counts.finished = busy_seconds, 3

    async def three_wait():
        for _ in range(3):
            scheduler.submit(BatchedCall("one", list, [1]))
        return scheduler.estimate_wait()

    assert asyncio.run(three_wait()) == estimate


def test_failing_request_fails_alone(generator):
    nothing = generator.settings(max_new_tokens=8, bad_words=tuple((i,) for i in range(generator.tokenizer.vocab_size)))
    settings = generator.settings(max_new_tokens=8)

    async def both(scheduler):
        return await asyncio.gather(
            generate(scheduler, generator, "the", nothing),
            generate(scheduler, generator, "the cat", settings),
            return_exceptions=True,
        )

    with running_scheduler() as scheduler:
        bad, good = asyncio.run(both(scheduler))
    assert isinstance(bad, InputError)
    assert good == alone(generator, "the cat", settings)


class Broken(TorchEngine):
    """An engine that fails at prefill."""

    def prefill(self, prompts):
        raise RuntimeError("no memory")


def test_failing_model_does_not_affect_the_others(translator):
    broken, settings = Translator(many_languages_bundle()), translator.settings()
    broken.engine = Broken(broken.model)

    async def one_after_another(scheduler):
        request = GenerationRequest(broken, [broken.create_job("the cat", settings, to="de")])
        scheduler.submit(request)
        with pytest.raises(RuntimeError):
            await request.results()
        return await generate(scheduler, translator, "the cat", settings)

    with running_scheduler() as scheduler:
        assert asyncio.run(one_after_another(scheduler)) == alone(translator, "the cat", settings)


def test_calls_with_the_same_key_are_merged():
    """And if the merged call fails, each gets its own result or error."""
    seen = []
    scheduler = Scheduler()

    def double(items):
        seen.append(list(items))
        if "bad" in items:
            raise InputError("bad")
        return [item * 2 for item in items]

    async def call(*items):
        one = BatchedCall("double", double, items)
        scheduler.submit(one)
        return await one.results()

    async def everyone(*several):
        asking = [asyncio.create_task(call(*items)) for items in several]
        await run_steps(scheduler)
        return await asyncio.gather(*asking, return_exceptions=True)

    assert asyncio.run(everyone((1,), (2, 3))) == [[2], [4, 6]]
    assert seen == [[1, 2, 3]]
    seen.clear()
    found = asyncio.run(everyone((1,), (2, 3), ("bad",), (4,)))
    assert [*found[:2], found[3]] == [[2], [4, 6], [8]]
    assert isinstance(found[2], InputError)
    assert seen == [[1, 2, 3, "bad", 4], [1], [2, 3], ["bad"], [4]]


def test_unfinished_requests_fail_on_stop(generator, gate):
    async def stopped(scheduler):
        task = asyncio.create_task(
            generate(scheduler, generator, "the", DecodingSettings(max_new_tokens=40, min_new_tokens=40))
        )
        await asyncio.to_thread(gate.until_reached)
        stopping = asyncio.create_task(asyncio.to_thread(scheduler.stop))
        assert await asyncio.to_thread(until, lambda: scheduler._is_stopping)
        gate.open()
        await stopping
        with pytest.raises(StoppedError):
            await task
        with pytest.raises(StoppedError):
            await generate(scheduler, generator, "the", DecodingSettings())

    with running_scheduler() as scheduler:
        asyncio.run(stopped(scheduler))
    assert scheduler.counts.steps == 1
