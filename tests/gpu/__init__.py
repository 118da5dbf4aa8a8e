"""What only a real GPU can show: ``pytest tests/gpu`` on a machine with an NVIDIA driver.

Elsewhere they are skipped, with the reason. ``pytest tests/gpu --stand-in showing`` runs them on the stand-in driver,
which shows that the tests themselves are sound; ``hiding``, that they are so where a driver shows no processes.
"""
