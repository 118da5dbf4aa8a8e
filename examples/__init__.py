"""One directory for each kind of system that lazyd serves; each runs by one command and is itself a test.

`stage` is what they share: a private lazyd with the example's own ``lazyd.toml``, and programs beside it.
"""
