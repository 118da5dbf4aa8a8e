"""What the manager keeps and finds out so that models are ready before they are asked for.

- `history.py`, `uses.py` which models were used when: the file ``history.db``, for ``lazyctl simulate``
- `remembering.py`, `memories.py` habits, how loads went, warm-ups made: the file ``readiness.db``
- `schedules.py`, `wallclock.py` cron lines: when models are needed by the time of day
"""
