"""Short names for what something was made from."""

from __future__ import annotations

try:
    # ``hashlib`` has the same function, and brings OpenSSL with it: 4 MB and 3 ms that the manager need not pay.
    from _blake2 import blake2s
except ImportError:  # another Python
    from hashlib import blake2s


def digest_of(data: bytes, size: int = 8) -> str:
    """The same bytes always get the same `2 * size` hexadecimal digits; others get others."""
    return blake2s(data, digest_size=size).hexdigest()
