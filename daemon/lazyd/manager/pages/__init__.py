"""Models' files in the page cache: how much of them is there (`sampling`, `known`), and having them read (`warming`,
which gives the host `orders`).

`files` finds them. Nothing here loads a model; what is locked in RAM is decided by the core (`lazyd.core.locks`).
"""
