"""One URL, by fsspec: what there is, and any range of it. What goes wrong is told as `failures`.

A chunk is read at a time, so that nothing large is in memory and a break costs one chunk. A server that knows no
ranges is read as a stream, from the beginning each time.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lazyd import urls

from . import ranges
from .credentials import cleaned, secrets
from .failures import Failed, NoRanges, Unreachable

CONNECT_S, READ_S = 10, 30
"""A server that says nothing for so long has gone."""
DEEPEST = 16
"""Folders within folders."""
_DENIED = (401, 403)
_GONE = (404, 410)
_MARKS = ("ETag", "etag", "Content-MD5", "md5Hash", "LastModified", "Last-Modified", "mtime")
"""What servers say of a file by which a change is seen, the best first."""


@dataclass(frozen=True)
class Info:
    """What the server says of a file now."""

    bytes: int | None
    """None: it does not say."""
    mark: str
    """Empty: it says nothing by which a change could be seen."""
    ranges: bool = True


_TOLD = {
    **dict.fromkeys(
        ("NoCredentialsError", "PartialCredentialsError", "DefaultCredentialsError", "CredentialRetrievalError"),
        "the fetcher has no credentials for it",
    ),
    "TooManyRedirects": "it is sent from one address to the next without an end",
    **dict.fromkeys(
        ("NonHttpUrlRedirectClientError", "InvalidUrlRedirectClientError"),
        "it is sent on to what is no address of a web server",
    ),
}
"""What errors of libraries mean, by their names: none of their packages need be installed."""


class Remote:
    """Raises `Failed` for a scheme of which the package is missing."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._scheme = urls.scheme(url)
        self._fs, self._path = self._opened(url)

    def info(self) -> Info:
        """Raises `Failed`: there is none, or it may not be read; `Unreachable`."""
        self._fs.invalidate_cache()
        found = self._ask(self._fs.info, self._path)
        if found.get("type") == "directory":
            raise Failed(f"{self._shown} is a folder: with a / at its end all of it is fetched")
        size = found.get("size")
        mark = next((str(found[name]) for name in _MARKS if found.get(name)), "")
        mark = f"{mark} {size}" if mark else ""
        return Info(bytes=size, mark=mark, ranges=size is not None and self._has_ranges(found))

    def read(self, start: int, end: int) -> bytes:
        """So many bytes; fewer are a break. Raises as `info`."""
        if self._is_web:
            return bytes(self._ask(ranges.read, self._fs, self._path, start, end))
        data = bytes(self._ask(self._fs.cat_file, self._path, start=start, end=end))
        if len(data) != end - start:
            raise Unreachable(f"{self._shown}: {len(data)} of {end - start} bytes came")
        return data

    def stream(self, chunk: int) -> Iterator[bytes]:
        """All of it, from the beginning. Raises as `info`."""
        file = self._ask(self._fs.open, self._path, "rb", block_size=0)
        try:
            while data := self._ask(file.read, chunk):
                yield data
        finally:
            file.close()

    def below(self) -> list[str]:
        """The names of all files below it. Raises as `info`."""
        if self._is_web and urls.without_query(self.url) != self.url:
            raise Failed(f"{self._shown}: of a folder on a web server nothing can be asked (?); name its files")
        self._fs.invalidate_cache()
        root = self._path.rstrip("/") + "/"
        found = [str(path) for path in self._ask(self._fs.find, root, maxdepth=DEEPEST + 1)]
        names = [path.removeprefix(root) for path in found if path.startswith(root) and not path.endswith("/")]
        if any(name.count("/") >= DEEPEST for name in names):
            raise Failed(f"{self._shown}: its folders go deeper than {DEEPEST}, perhaps without an end")
        return sorted(names)

    @property
    def _is_web(self) -> bool:
        return self._scheme in ("http", "https")

    @property
    def _shown(self) -> str:
        return urls.masked(self.url)

    def _has_ranges(self, found: dict[str, Any]) -> bool:
        """A web server need not know them. It is asked for the last byte: a refusal costs no more than that."""
        if not self._is_web or not found.get("size"):
            return True
        if found.get("partial") is False:
            return False
        try:
            self.read(found["size"] - 1, found["size"])
        except NoRanges:
            return False
        return True

    def _opened(self, url: str) -> tuple[Any, str]:
        package = {"s3": "s3fs", "oss": "ossfs", "http": "aiohttp"}.get(self._scheme, "gcsfs")
        try:
            from fsspec.core import url_to_fs

            fs, path = url_to_fs(url, skip_instance_cache=True, use_listings_cache=False, **_options(self._scheme))
        except ImportError:
            extra = urls.EXTRAS[self._scheme]
            needs = package if self._scheme != "file" else "fsspec"
            raise Failed(
                f"{self._shown}: nothing here fetches from {self._scheme}:// ({needs} is not installed): "
                f"install lazyd with its extra {extra}, as lazyd[{extra}]"
            ) from None
        except Exception as error:
            raise self._failure(error) from None
        fs.retries = 1  # as in `_options`
        return fs, str(path)

    def _ask(self, what: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return what(*args, **kwargs)
        except NoRanges as error:
            raise NoRanges(f"{self._shown}: {error}") from None
        except Exception as error:
            raise self._failure(error) from None

    def _failure(self, error: BaseException) -> Failed:
        """What is to be told of it, and whether it is worth another try."""
        status = _status_of(error)
        why = error.__cause__ if isinstance(error, FileNotFoundError) and error.__cause__ is not None else error
        said = cleaned(str(why) or type(why).__name__, self.url, secrets(os.environ))
        name = type(why).__name__
        if isinstance(error, PermissionError) or status in _DENIED:
            return Failed(f"{self._shown}: access is denied ({said}): see the fetcher's credentials")
        if status in _GONE or (isinstance(error, FileNotFoundError) and error.__cause__ is None):
            return Failed(f"{self._shown}: there is no such file")
        if name in _TOLD:
            return Failed(f"{self._shown}: {_TOLD[name]}")
        return Unreachable(f"{self._shown}: {said}")


def _status_of(error: BaseException | None) -> int | None:
    """What a web server has answered, if that is why. A library may tell it by the cause of its error alone."""
    while error is not None:
        response = getattr(error, "response", None)
        told = response.get("ResponseMetadata", {}) if isinstance(response, dict) else {}
        status = getattr(error, "status", None) or told.get("HTTPStatusCode")
        if isinstance(status, int):
            return status
        error = error.__cause__
    return None


def _options(scheme: str) -> dict[str, Any]:
    """What its filesystem is made with, beside what it finds in the environment."""
    if scheme == "s3":
        retries = {"max_attempts": 1}  # a try more is made by who reads, and is seen there
        config = {"connect_timeout": CONNECT_S, "read_timeout": READ_S, "retries": retries}
        return {"config_kwargs": config, "anon": not _has_aws_credentials()}
    if scheme in ("http", "https"):
        from aiohttp import ClientTimeout

        timeout = ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=READ_S)
        return {"client_kwargs": {"timeout": timeout, "headers": {"Accept-Encoding": "identity"}}}
    if scheme == "oss":
        given = {"key": "OSS_ACCESS_KEY_ID", "secret": "OSS_ACCESS_KEY_SECRET", "endpoint": "OSS_ENDPOINT"}
        return {name: os.environ[variable] for name, variable in given.items() if variable in os.environ}
    return {}


@functools.lru_cache(maxsize=1)
def _has_aws_credentials() -> bool:
    """As Amazon's own library finds them: in the environment, in files, of the machine. Without any, a bucket that
    everybody may read can be read all the same."""
    from botocore.session import get_session

    return get_session().get_credentials() is not None
