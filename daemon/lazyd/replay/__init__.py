"""What another configuration would have cost: a history is played through the real core, in virtual time.

- `facts.py` what has to be known of the machine and its models: devices, bytes, load times
- `histories.py` a history from a CSV file
- `policies.py` configurations to compare with, and which uses both sides of a comparison have models for
- `machine.py` a host, its workers and devices as the core sees them
- `run.py` plays the uses one after the other, and counts
- `outcome.py`, `course.py` what came of it: cold starts, waits, what was held, in all and over time

Reservations, what others use of the devices, calls of models by models, parking and failures are not played.
Imports the core, of the manager the schedules alone, and is imported by lazyctl and the manager.
"""
