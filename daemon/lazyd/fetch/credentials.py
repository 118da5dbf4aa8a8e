"""What the fetcher is let in with: its environment, and the credentials that systemd hands to it.

A credential's name is a scheme (``LoadCredential=s3:/etc/lazyd/s3.env``), its lines are ``NAME=value``; they go into
the environment, where the libraries look. One that ends in ``.json`` is a key file of Google's. Nothing of it is
written anywhere; what a library says in an error is told without it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, MutableMapping

from lazyd.urls import HIDDEN, masked, masked_in, secrets_of

_SECRET = ("SECRET", "TOKEN", "PASSWORD", "KEY", "CREDENTIAL")
LONGEST = 300
"""Characters of a line of somebody else's. A library may quote all that a server has sent."""


def take(environment: MutableMapping[str, str]) -> None:
    """Puts what systemd has handed over into the environment. Raises `OSError`, `ValueError`."""
    folder = environment.get("CREDENTIALS_DIRECTORY")
    if not folder:
        return
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if name.endswith(".json"):
            environment.setdefault("GOOGLE_APPLICATION_CREDENTIALS", path)
            continue
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                _assign(line.strip(), f"the credential {name}, line {number}", environment)


def _assign(line: str, where: str, environment: MutableMapping[str, str]) -> None:
    if not line or line.startswith("#"):
        return
    name, equals, value = line.removeprefix("export ").partition("=")
    if not equals or not name.strip().isidentifier():
        raise ValueError(f"{where}: expected NAME=value")
    environment[name.strip()] = value.strip().strip("\"'")


def secrets(environment: MutableMapping[str, str]) -> list[str]:
    """Values that nobody may read."""
    return [
        value
        for name, value in environment.items()
        if len(value) >= 6 and any(word in name.upper() for word in _SECRET) and not value.startswith("/")
    ]


def cleaned(text: str, url: str, more: Iterable[str] = ()) -> str:
    """A line of somebody else's, without the secrets of a URL and of the environment."""
    text = masked_in(" ".join(text.split()).replace(url, masked(url)))
    for secret in sorted((*secrets_of(url), *more), key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
