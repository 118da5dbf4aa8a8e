"""The decision core: pure, without I/O, clock, asyncio or threads.

Where to look:

- `lifecycle.py` the life of a model, as a table; `records.py` what is remembered, `world.py` all of it, and the few
  ways to change it
- `events.py`, `effects.py`, `answers.py` what the core is told, and what it says
- `core.py` the two tables (events, alarms) and the order in which things are done
- `rules.py` the rules about one model: serve, leave, be turned away, retire when idle; `wear.py` when its worker has
  served long enough, `failure.py` how long it is left alone after a failure
- `names.py` which model a name means: `routes.py` where it may mean several, `swaps.py` when it comes to mean another,
  `promotions.py` what people say of it, `meanings.py` what is remembered of that
- `replicas.py` models with several workers
- `fetching.py` models whose files are not on this machine yet
- `room.py` and `line.py` the line of those who wait, `seekers.py` who they are; `plans.py` room being made;
  `placement.py` where they could go, `together.py` with all that they use (`uses.py`)
- `eviction.py` who may leave, `victims.py` which of them do, `cost.py` and `heat.py` what that costs
- `habits.py` when a model will be needed, from the gaps (`intervals.py`) and the beats (`beats.py`) of its uses;
  `expecting.py` what follows for its idle time, `prewarming.py` and `guesses.py` for loads before they are asked for
- `fallbacks.py` what answers in place of a model, `waiting.py` in whose lines a request stands meanwhile
- `warmups.py` which warm-up is due, `warming.py` what comes of it, `monitoring.py` how recent loads went (`middle.py`)
- `ledger.py` devices and bookings; `samples.py`, `strangers.py`, `pace.py` what is seen of them, and how often;
  `needs.py` what loads need, `growth.py` what they used; `release.py` bytes that come back
- `reservations.py` memory for others, `shares.py` how much for one user; `locks.py` and `locked.py` files kept in RAM;
  `parking.py` a process without its GPU memory; `shortage.py` out of memory;
  `crowding.py` devices that hold too much; `refusals.py` what can never fit; `cycles.py` nested waiting
- `leases.py`, `lives.py`, `requests.py`, `unloads.py`, `pins.py` the steps that rules take
- `reports.py`, `deaths.py`, `adoption.py`, `agreement.py`, `configuring.py` what comes from outside;
  `remembering.py` what an earlier manager has learned
- `why.py`, `held_up.py`, `holders.py`, `wording.py` the reasons, in words; `view.py` what is shown
  (`versions.py`, `readiness.py`), `shown.py` how
- `spec.py` the configuration (`services.py`)

It imports nothing of lazyd but itself and `lazyd.digest`. The manager owns one `Core`; the simulation drives the
same one.
"""
