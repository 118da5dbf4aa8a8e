"""What travels between processes, as bytes. Nothing here sends or receives: that is done by those who have a loop.

- `varlink`: messages of the control socket, JSON ended by NUL.
- `frames`: frames of a worker's data socket, a JSON header and raw buffers.
- `values`: what may stand in a call or an answer: JSON, bytes, arrays, not-a-number.
- `packets`: what manager, host and worker say to each other, with descriptors.

Client, host, worker and manager import this; it imports `lazyd.errors` and the standard library
(numpy where there is one), and runs on Python 3.9.
"""
