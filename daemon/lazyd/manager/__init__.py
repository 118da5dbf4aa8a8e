"""The asyncio shell around the decision core: it turns sockets and processes into events, and effects into deeds.

- `main` reads the command line and gathers what must be there first (`lock`, `control.sockets`, `pins`,
  `configuration`); `server` is the day: start, serve, stop; `parts` hangs the rest together.
- `driver` alone talks to the core; `effects` is the table of what the core may want done.
- `control/` answers the control socket, `processes/` speaks with the host and the workers, `memory/` looks at
  devices, `prediction/` knows what loads need, `fetching/` has files brought, `pages/` knows how much of them is in
  RAM, `readiness/` when models are needed; `state/` is how files of the state directory are kept.
- `watching` finds models in directories (`eyes`), `registering` takes what clients add (`adding`); `pins` and
  `meanings` keep what people have said of models and names.
- `journal`, `statusline`, `systemd` and `output` tell people, `phase` and `failures` are words of theirs; `signals` is
  what people tell it; `fitting` says what this machine has not;
  `tasks` and `apart` are how work goes on beside the loop, `epoch` turns the core's clock into the time of day.

Nothing here imports a model library, opens a network socket or blocks the loop. Nobody imports this
package but the command ``lazyd``; of `readiness.schedules`, which is pure, `lazyd.replay` makes use too.
"""
