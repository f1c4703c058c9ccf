"""What every test runs under."""

from hypothesis import settings

# The same examples on every run, however slow the machine: a failure is always the code's.
settings.register_profile("sightline", deadline=None, derandomize=True, database=None, max_examples=20)
settings.load_profile("sightline")
