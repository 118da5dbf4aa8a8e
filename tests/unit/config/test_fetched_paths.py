"""Paths that are URLs: which are understood, and that nobody is shown what is secret in one."""

from __future__ import annotations

import pytest

from lazyd.config.kinds import Path, Sha256
from lazyd.config.problems import Wrong
from lazyd.config.shown import shown
from lazyd.core.spec import ModelSpec
from lazyd.urls import is_folder, key_of, masked, name_of, scheme, secrets_of

SIGNED = "https://ana:hunter22@models.example/a%20b.gguf?X-Amz-Signature=deadbeef&x=1#top"


@pytest.mark.parametrize("url", ["s3://b/a.gguf", "gs://b/a", "oss://b/a/", SIGNED, "file:///srv/a.gguf"])
def test_a_url_is_kept_as_it_is_written(url: str) -> None:
    assert Path(urls=True).read(url, "/etc/lazyd") == url


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("ftp://host/a", 'nothing is fetched from "ftp://"'),
        ("s3://", "names no file"),
        ("https://", "names no file"),
    ],
)
def test_what_cannot_be_fetched_is_an_error(url: str, says: str) -> None:
    with pytest.raises(Wrong) as wrong:
        Path(urls=True).read(url, "/etc/lazyd")
    assert says in wrong.value.faults[0].what


def test_another_key_takes_no_url_and_does_not_repeat_its_secrets() -> None:
    with pytest.raises(Wrong) as wrong:
        Path().read(SIGNED, "/etc/lazyd")
    assert "hunter22" not in str(wrong.value.faults)
    assert "deadbeef" not in str(wrong.value.faults)


def test_a_spec_is_shown_without_what_is_secret_in_its_url() -> None:
    spec = ModelSpec(name="m", runtime="llama_cpp", path=SIGNED, fetched="/var/lib/lazyd/fetched/models/x/a.gguf")
    assert shown(spec)["path"] == "https://***@models.example/a%20b.gguf?***"
    assert "fetched" not in shown(spec)


def test_a_checksum_has_64_digits() -> None:
    assert Sha256().read("AB" * 32, "") == "ab" * 32
    with pytest.raises(Wrong):
        Sha256().read("abc", "")


def test_what_was_fetched_for_a_model_is_not_what_it_is() -> None:
    one = ModelSpec(name="m", runtime="onnx", path="s3://b/a")
    assert one.identity == ModelSpec(name="m", runtime="onnx", path="s3://b/a", fetched="/x").identity
    assert one.identity != ModelSpec(name="m", runtime="onnx", path="s3://b/a", sha256="ab" * 32).identity


def test_names_and_parts_of_urls() -> None:
    assert [scheme(url) for url in ("S3://b/a", "/a", SIGNED)] == ["s3", "", "https"]
    assert [name_of(url) for url in (SIGNED, "s3://b/d/", "s3://b/what?.gguf")] == ["a b.gguf", "d", "what?.gguf"]
    assert [is_folder(url) for url in ("s3://b/d/", "s3://b/d", "https://h/d/?sig=1")] == [True, False, True]
    assert masked("s3://bucket/a.gguf") == "s3://bucket/a.gguf"
    assert {"hunter22", "deadbeef"} <= set(secrets_of(SIGNED))
    assert key_of("s3://b/a", None) != key_of("s3://b/a", "ab" * 32)
