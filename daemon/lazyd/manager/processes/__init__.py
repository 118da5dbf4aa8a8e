"""The worker host and the workers: what is ordered of them, and what they say.

`hostkeeper.py` finds or starts the host, `hostlink.py` is the connection to it, `workers.py` are the workers that live,
with a `channel.py` each. `messages.py` are turned into events; `adoption.py` (with `catching_up.py`) and `keeping.py`
are for the next manager. `environment.py` is a spec as they are told it, `placing.py` a place on a GPU. `preparing.py`
and `proxies.py` are what the host is told of the configuration. `packets.py` is the connection itself, `detached.py`
how they are started.
"""
