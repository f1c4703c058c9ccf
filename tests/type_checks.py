"""What checks types and shapes while tests run.

Of a list, beartype by itself looks at an item drawn by `random`, also in the thread of a server that lives through many
tests, and Hypothesis finds that somebody drew from `random` inside a strategy. Here it is always the first item.
"""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_random=False))
