"""TOML files -> an accepted `lazyd.core.spec.Config`, or every problem with file, key and remedy.

Imported by the manager (and by ``lazyctl config check``); of the rest it imports `lazyd.core.spec`,
`lazyd.places`, `lazyd.durable` and, of `lazyd.runtimes`, `llama_cpp_locked` and `service_words` alone. Who only checks
or explains a configuration asks the runtimes as well (`contents`, `explaining`).

- `loading` is what a caller wants: at a start, at a reload, for a check. `changes`: what a reload changed.
  `fitting`: what of it cannot work on this machine, which only the daemon knows.
- `files` are read and laid over each other by `sources` (`lines` finds a key again), and checked by
  `checking` (which reads each table by `tables`), `aliases`, `references`, `names` and `reachable`.
- `templates` are tables of which many models are made: `patterns` of paths, looked for by `walking` (`whole`: is it all
  there), become specs in `found`. `registered` is what clients have added (`whole_paths`). `composing` puts changes
  of these two into a configuration.
- `keys`, `readiness` and `services` are the table of keys, `rows` what a row is. `kinds` and `compounds` are what
  values they take, `schedules` cron lines, `recipes` a warm-up's arguments, `quantities` how durations and sizes
  are written. `problems` and `given` put into words what is wrong.
- `accepted` is the quick form in the state directory; `shown` and `reference` are for people.

What only the files themselves need (tomllib, the table of keys) is imported when they are really read.
"""

from .changes import Changes, diff, differ
from .files import Files, find
from .loading import Loaded, Origin, accept, check, load, load_again, load_for_start
from .problems import Problem

__all__ = [
    "Changes",
    "Files",
    "Loaded",
    "Origin",
    "Problem",
    "accept",
    "check",
    "diff",
    "differ",
    "find",
    "load",
    "load_again",
    "load_for_start",
]
