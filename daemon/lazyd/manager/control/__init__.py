"""The control socket: who may ask what, and who answers it.

`interface.py` is the table of methods; `methods.py` want something done, `looking.py` only look, `calling.py`
carries one call, `reservations.py` hold memory by a connection. `requests.py` are what the core has yet to
answer, `roles.py` who may do what, `sockets.py` where the socket comes from.
"""
