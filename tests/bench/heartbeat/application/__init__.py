"""The application of the benchmark: a trading system of 200 strategies, and a language model for moods.

- `book` which strategies there are, and what they must answer
- `strategies` what they compute
- `__main__` the process that every commit starts anew

Run from the directory above: ``python -m application SIDE BEAT [MODEL]``.
"""
