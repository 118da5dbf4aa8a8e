"""A spec in the form that host, workers and runtimes are told it, and the environment that goes with it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from lazyd.core.spec import ModelSpec


def as_told(spec: ModelSpec, environment: dict[str, str] | None = None) -> dict[str, Any]:
    """Builtins alone, defaults left out; `environment`: the merged one, where a process is started with it.

    What its URL names is told as the path where it is now. That blocks, as a link is read.
    """
    told: dict[str, Any] = msgspec.to_builtins(spec)
    if (fetched := told.pop("fetched", None)) is not None:
        told["path"] = os.path.realpath(fetched)
    return told if environment is None else {**told, "env": environment}


def told_with_files(spec: ModelSpec, more: Mapping[str, str]) -> dict[str, Any]:
    """With all that its files say, and `more` variables, which win. Blocks; raises as `merged_environment`."""
    return as_told(spec, {**merged_environment(spec), **more})


def merged_environment(spec: ModelSpec) -> dict[str, str]:
    """What the spec says, on top of what its `env_file` says. Reads that file, so it is called in a thread.

    The file has lines ``NAME=value``; blank lines and those that begin with ``#`` are skipped,
    and one pair of quotes around a value is taken off, as in systemd's ``EnvironmentFile=``.

    Raises:
        OSError: the file cannot be read.
        ValueError: a line is no assignment. The message does not show it: it may be a secret.
    """
    if spec.env_file is None:
        return dict(spec.env)
    environment: dict[str, str] = {}
    with open(spec.env_file, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            name, equals, value = line.partition("=")
            if not equals or not name.strip().isidentifier():
                raise ValueError(f"{spec.env_file}:{number}: expected NAME=value")
            environment[name.strip()] = _unquoted(value.strip())
    return {**environment, **spec.env}


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value
