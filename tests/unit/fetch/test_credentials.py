"""What the fetcher is let in with, and that nobody hears of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from lazyd.fetch import credentials


def test_what_systemd_hands_over_goes_into_the_environment(tmp_path: Path) -> None:
    (tmp_path / "s3").write_text("# for the bucket\nAWS_ACCESS_KEY_ID=AKID\nexport AWS_SECRET_ACCESS_KEY='s3cr3t!'\n\n")
    (tmp_path / "gs.json").write_text("{}")
    environment = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    credentials.take(environment)
    assert environment["AWS_SECRET_ACCESS_KEY"] == "s3cr3t!"
    assert environment["GOOGLE_APPLICATION_CREDENTIALS"] == str(tmp_path / "gs.json")


def test_a_line_that_is_no_assignment_is_told_without_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "s3").write_text("hunter22\n")
    with pytest.raises(ValueError, match="the credential s3, line 1") as wrong:
        credentials.take({"CREDENTIALS_DIRECTORY": str(tmp_path)})
    assert "hunter22" not in str(wrong.value)


def test_what_a_library_says_is_told_without_secrets() -> None:
    url = "https://ana:hunter22@host/a?sig=deadbeef"
    secrets = credentials.secrets(
        {"AWS_SECRET_ACCESS_KEY": "wJalrXUtn", "PATH": "/usr/bin:/bin", "TOKEN_FILE": "/etc/x"}
    )
    assert secrets == ["wJalrXUtn"]
    told = credentials.cleaned(f"cannot read {url}\nwith ana hunter22 deadbeef wJalrXUtn", url, secrets)
    assert told == "cannot read https://***@host/a?*** with ana *** *** ***"
