"""Writes `etc/lazyd.toml` and the tables of `docs/configuration.md` from the table of keys.

    python -m lazyd.config.reference toml > etc/lazyd.toml
    python -m lazyd.config.reference markdown

In the TOML text a line that begins with ``#`` and no blank is a key to uncomment; with a
blank it is words. So the defaults stand where one changes them.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable

from . import keys
from .keys import Group, Key

_WIDTH = 96


def toml() -> str:
    """The commented default configuration: it changes nothing as it stands."""
    lines = [
        "# lazyd: what the daemon is given, and which models it owns. Every key there is stands here.",
        "#",
        "# Remove the # in front of a key to set it. In [daemon], [budget] and [fetch] the values shown are",
        "# the defaults, in models they are examples.",
        '# Quantities carry units: "250ms", "30s", "10min", "1h 30min"; "700MiB", "20GiB", "2GB"; "80%".',
        "# Files in lazyd.d beside this one are read after it, in name order, and override it key by key.",
        "# Check with: lazyd --check      Put in force with: lazyctl reload",
        "",
        "[daemon]",
        *_keys(keys.DAEMON),
        "[budget]",
        *_keys(keys.BUDGET),
        "[fetch]",
        *_keys(keys.FETCH),
        '# One table a model, [models.NAME] or [models."NAME:VERSION"]; names with . / : * are quoted.',
        "#[models.gemma]",
        *_keys(_usable(("llama_cpp",))),
        *_groups(("models", "gemma"), _usable(("llama_cpp",))),
        "# Answers for gemma, see its fallback.",
        "#[models.gemma-small]",
        '#runtime = "llama_cpp"',
        '#path = "/var/lib/lazyd/models/smollm2-135m-q4_1.gguf"',
        "",
        "# A family: strategy/alpha, strategy/beta, … share one process.",
        '#[models."strategy/*"]',
        '#runtime = "python"',
        "",
        *_keys(_only("python")),
        "# A service: any program with a port.",
        "#[models.comfyui]",
        '#runtime = "service"',
        "",
        *_keys(_only("service")),
        *_groups(("models", "comfyui"), _only("service")),
        *_words(keys.DISCOVER),
        '#[discover."/srv/models/**/*.gguf"]',
        '#idle_timeout = "5min"',
        "",
        "# Other names of models. One may mean several, each with a weight, and a shadow that repeats their calls.",
        "[aliases]",
        '#reader = "gemma"',
        '#writer = {"gemma" = 90, "gemma-small" = 10, "strategy/alpha" = "shadow"}',
        "",
    ]
    return "\n".join(lines)


def markdown() -> str:
    """One table of keys per table of the configuration."""
    top = ((("daemon",), keys.DAEMON), (("budget",), keys.BUDGET), (("fetch",), keys.FETCH))
    return "\n".join(line for path, table in (*top, (("models", "NAME"), keys.MODEL)) for line in _table(path, table))


def _table(path: tuple[str, ...], table: tuple[Key, ...]) -> Iterable[str]:
    yield from (f"### `[{'.'.join(path)}]`", "", "| key | value | default | |", "|---|---|---|---|")
    yield from (_row(key) for key in table)
    yield ""
    for key in table:
        if isinstance(key.kind, Group):
            yield from _table((*path, key.name), key.kind.keys)


def _usable(runtimes: tuple[str, ...]) -> Iterable[Key]:
    return (key for key in keys.MODEL if not key.only or set(key.only) & set(runtimes))


def _only(runtime: str) -> Iterable[Key]:
    return (key for key in keys.MODEL if key.only == (runtime,))


def _keys(table: Iterable[Key]) -> Iterable[str]:
    for key in table:
        value = key.default or key.example
        if isinstance(key.kind, Group):
            continue  # its table comes after all keys
        if key.apart:
            yield from _words(f"Or: {key.name} = {value}. {key.meaning}")
        elif key.kind is None:
            yield from _words(f"Not built yet: {key.name} = {value}. {key.meaning}")
        else:
            yield from _words(key.meaning)
            yield f"#{key.written} = {value}"
        yield ""


def _groups(path: tuple[str, ...], table: Iterable[Key]) -> Iterable[str]:
    """The tables inside a table."""
    for key in table:
        if isinstance(key.kind, Group):
            here = (*path, key.name)
            yield from _words(key.meaning)
            yield f"#[{'.'.join(here)}]"
            yield from _keys(key.kind.keys)
            yield from _groups(here, key.kind.keys)


def _words(text: str) -> Iterable[str]:
    return (f"# {line}" for line in textwrap.wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False))


def _row(key: Key) -> str:
    if key.kind is None:
        return f"| `{key.name}` | not built yet | | {key.meaning} |"
    value = key.kind.words.replace("|", "\\|")
    default = f"`{key.default}`" if key.default else ""
    return f"| `{key.name}` | {value} | {default} | {key.meaning} |"


if __name__ == "__main__":
    writers = {"toml": toml, "markdown": markdown}
    if len(sys.argv) != 2 or sys.argv[1] not in writers:
        sys.exit(f"usage: python -m lazyd.config.reference {' | '.join(writers)}")
    sys.stdout.write(writers[sys.argv[1]]())
