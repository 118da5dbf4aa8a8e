"""The client for threads: `Client`. It imports no asyncio.

`driver` runs the rules of `lazyd.client` in the calling thread; `control` and `line` are the two kinds of
connection; `proxy` is what a model looks like, `reservation` what memory does.
"""
