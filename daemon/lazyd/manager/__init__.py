"""The asyncio shell around the decision core: it turns sockets and processes into events, and effects into deeds.

`main` reads the command line, `server` is the day: start, serve, stop. `driver` alone talks to
the core; `effects` is the table of what it may want done. `methods` and `looking` answer the
control socket, `hostlink`, `channel` and `workers` speak with the host and its workers, `host`
keeps a host connected. Nothing here imports a model library, opens a network socket or blocks
the loop. Nobody imports this package but the command ``lazyd``.
"""
