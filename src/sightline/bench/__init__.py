"""Benchmarks of our speed beside that of other libraries.

    measure  interleaved timing; `sightline bench startup`
    train    a training step on one batch
    corpus   training on real sentences
    trace    the cost of tracing
    serve    the server under load, by many clients of a `load_generator`

All contenders run in one session, interleaved, so that only ratios are claimed.
"""
