"""The control socket: who may ask what, and who answers it.

`interface.py` is the table of methods; `methods.py` want something done, `looking.py` only look. `naming.py` is about
names that may mean several models, `cached.py` about what was fetched, `ram.py` about files kept in RAM, `recorded.py`
about what was used when, `metrics.py` and `logs.py` have figures and workers' output. `calling.py` carries one call
(`bulk.py`), `reservations.py` hold memory by a connection. `requests.py` are what the core has yet to answer,
`roles.py` who may do what, `sockets.py` where the socket comes from, `descriptors.py` what is said
when there are too many.
"""
