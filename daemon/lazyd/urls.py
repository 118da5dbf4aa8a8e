"""What a URL in a model's `path` is, and how people are shown one: without what is secret in it.

Standard library only; nothing here touches a network. Anybody may import this.
"""

from __future__ import annotations

import os
import re

from .digest import digest_of

EXTRAS = {
    "s3": "s3",
    "gs": "gcs",
    "gcs": "gcs",
    "oss": "oss",
    "http": "http",
    "https": "http",
    "file": "http",
}
"""By scheme: the extra of lazyd that brings what fetches from there."""

_ANYWHERE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"<>]+", re.ASCII)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://", re.ASCII)
HIDDEN = "***"
"""In a text: what nobody may read."""


def is_url(text: str | None) -> bool:
    """Whether it names something by a scheme, and is no path of this machine."""
    return text is not None and _SCHEME.match(text) is not None


def scheme(url: str) -> str:
    """``s3`` of ``s3://bucket/key``."""
    found = _SCHEME.match(url)
    return found[1].lower() if found is not None else ""


def is_folder(url: str) -> bool:
    """Whether all files below it are meant."""
    return without_query(url).endswith("/")


def without_query(url: str) -> str:
    """It alone, without what a web server is asked and told besides. In the key of a bucket ``?`` is a letter."""
    return re.split(r"[?#]", url, maxsplit=1)[0] if EXTRAS.get(scheme(url)) == "http" else url


def name_of(url: str) -> str:
    """The name of the file, or of the folder, that it names: of a file here, whatever it says of other folders."""
    below = without_query(url).rstrip("/").partition("://")[2]
    name = os.path.basename(decoded(os.path.basename(below), url))
    return name if name not in ("", ".", "..") else "model"


def decoded(name: str, url: str) -> str:
    """A part of a URL as the name of a file: ``%20`` is a space, where it means that."""
    from urllib.parse import unquote

    return unquote(name) if EXTRAS.get(scheme(url)) == "http" else name


def masked(url: str) -> str:
    """As people may read it: a user, a password and a signed query are hidden."""
    found = _SCHEME.match(url)
    if found is None:
        return url
    plain = without_query(url)
    host, slash, path = plain[found.end() :].partition("/")
    user, at, host = host.rpartition("@")
    return f"{found[0]}{HIDDEN + at if user else ''}{host}{slash}{path}" + (f"?{HIDDEN}" if plain != url else "")


def masked_in(text: str) -> str:
    """A text in which each URL is as people may read it. A server may have sent one to an address with a secret."""
    return _ANYWHERE.sub(lambda found: masked(found[0]), text)


def secrets_of(url: str) -> list[str]:
    """The parts that `masked` hides, as they may turn up in somebody else's message."""
    from urllib.parse import unquote

    plain = without_query(url)
    user = plain.partition("://")[2].partition("/")[0].rpartition("@")[0]
    query = url[len(plain) :].lstrip("?#")
    values = [part.partition("=")[2] for part in query.split("&")]
    parts = [part for part in (query, *values, *user.split(":", 1)) if len(part) >= 4]
    return list(dict.fromkeys((*parts, *map(unquote, parts))))


def key_of(url: str, sha256: str | None) -> str:
    """Under which name what it names is kept: the same for all models that mean the same."""
    return digest_of(f"{url}\0{sha256 or ''}".encode(), size=12)
