"""What another configuration would have cost: a history is played through the real core, in virtual time.

- `facts.py` what has to be known of the machine and its models: bytes, load times
- `machine.py` a host, its workers and devices as the core sees them
- `run.py` plays the uses one after the other, and counts
- `outcome.py` what came of it: cold starts, waits, what was held
- `histories.py` a history from a CSV file
"""
