"""What travels between processes, as bytes: codecs without any I/O.

- `varlink`: messages of the control socket, JSON ended by NUL.
- `frames`: frames of a worker's data socket, a JSON header and raw buffers.
- `values`: what may stand in a call or an answer: JSON, bytes, arrays, not-a-number.

Client, worker and manager import this; it imports `lazyd.errors` and the standard library
(numpy where there is one), and runs on Python 3.9.
"""
