"""Which layout of engines fits: a verdict with the numbers behind it."""
