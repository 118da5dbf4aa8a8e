"""The worker host: starts workers, ends them with all their descendants, measures them, keeps their logs.

It decides nothing: a manager orders over `host.sock`, and may come and go. Its day is in `main`;
`host` carries out orders; a `worker` is one process from the order to its last trace: its `facts`, and
what it needs of the host (`shop`).

- starting: `starting`, `recipe` (what is executed), `spawn`, `zygotes`, `newborn`
- ending: `ending`, `reaper`, `processes`, `cgroups`, `oom`, `leftovers`
- before a load: `dry_run`; `warming`, and `warmer`, the process that has models' files in RAM by `reading` them
- `proxying`, the process (`lazyd.proxy`) that takes HTTP requests to services; it and the
  warmer are each an `assistant`
- keeping: `logs`, `rounds` and `measure`, `place` (directories and who may reach them)
- staying: `door` (the manager's connection), `linger` (without one), `presence` (where managers look),
  `upgrade` (the next version of itself), `helper` (short programs that they ask)

Nobody imports this; it is run as ``python -m lazyd.host``. It imports `lazyd.worker` for packets
and the loop, `lazyd.runtimes` for environments, and little else: it is the parent of everything.
"""
