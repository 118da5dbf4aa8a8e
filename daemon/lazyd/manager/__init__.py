"""The asyncio shell around the decision core: it turns sockets and processes into events, and effects into deeds.

- `main` reads the command line and gathers what must be there first (`lock`, `sockets`, `roles`,
  `pins`, `configuration`); `server` is the day: start, serve, stop; `parts` hangs the rest together.
- `driver` alone talks to the core; `effects` is the table of what the core may want done.
- `interface` is the table of methods: `looking`, `methods` and `calling` (over `bulk`) answer them,
  `requests` brings the core's answers to who waits.
- `hostkeeper` keeps a host connected: `hostlink` is the connection, `adoption` takes over its workers
  (`catching_up`), `preparing` tells it what may be needed. `workers` starts and stops them, `channel`
  speaks with one of them; `packets` and `messages` are how.
- `measuring` and `prediction` tell the core of memory; `journal`, `logs`, `metrics`, `statusline`,
  `systemd` and `output` tell people.

Nothing here imports a model library, opens a network socket or blocks the loop. Nobody imports this
package but the command ``lazyd``.
"""
