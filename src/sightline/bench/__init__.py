"""Benchmarks: our speed and that of other libraries in one run, interleaved, so that only ratios are claimed."""
