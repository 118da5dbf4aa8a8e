"""The client for asyncio: `AsyncClient`.

`driver` runs the rules of `lazyd.client` in the calling task; `control` and `line` are the two kinds
of connection; `proxy` is what a model looks like, `reservation` what memory does. Works with any event loop that has
``add_reader``, uvloop's too.
"""
