"""The worker host and the workers: what is ordered of them, and what they say.

`hostkeeper.py` finds or starts the host, `hostlink.py` is the connection to it, `workers.py` are the workers that live,
with a `channel.py` each. `messages.py` are turned into events; `adoption.py` and `keeping.py` are for the next manager.
"""
