"""The decision core: pure, without I/O, clock, asyncio or threads.

Where to look:

- `lifecycle.py` the life of a model, as a table; `records.py` what is remembered
- `events.py`, `effects.py`, `answers.py` what the core is told, and what it says
- `core.py` the two tables (events, alarms) and the order in which things are done
- `rules.py` the rules about one model: serve, leave, be turned away, retire when idle
- `room.py` the line of those who wait; `plans.py` room being made; `eviction.py` who leaves; `placement.py` where to
- `ledger.py` devices and bookings; `refusals.py` what can never fit; `cycles.py` nested waiting;
  `crowding.py` devices that hold too much
- `leases.py`, `lives.py`, `requests.py`, `unloads.py`, `pins.py` the steps that rules take
- `reports.py`, `adoption.py`, `agreement.py`, `configuring.py` what comes from outside
- `spec.py` the configuration; `names.py` which model a name means; `view.py` what is shown, `shown.py` in which shapes

It imports nothing of lazyd but itself. The manager owns one `Core`; the simulation drives the
same one.
"""
