"""Random schedules on the stand-in driver, through the real manager, host and workers.

A schedule is drawn from a seed: GPUs, models that hold, peak, leak, park and run out of memory, and some seconds of
what people, strangers, reserved programs and accidents do to them. What must hold, whatever happens:

- nothing is admitted over budget, as lazyd itself knows it (`admissions`);
- nobody runs out of memory where lazyd could have known better (`refusals`);
- every request is answered within its limit, with an error of the interface or none (`answers`);
- in the end not a byte is booked, foreign or in use, and every model can be had (`ending`).

``make soak`` runs 500 of them; ``python -m tests.soak --seed N`` one again, and tells its story. Unlike the
simulation of the core (`tests/sim`) two runs of a seed do the same, but not at the same microseconds.
"""
