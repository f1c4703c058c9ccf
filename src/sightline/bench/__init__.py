"""Side-by-side speed: ours and its peers in one run, interleaved, so that only ratios are claimed."""
