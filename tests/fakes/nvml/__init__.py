"""A stand-in for NVIDIA's driver: GPUs that are nothing but numbers in a file.

`nvml.c` and `state.c` make a ``libnvidia-ml.so.1`` (``make fakes``) against which the real nvidia-ml-py
runs, `cuda.c` a ``libcuda.so.1`` for programs that allocate; `driver` is what a test holds. Standard
library alone, Python 3.9 and later, so that models in other interpreters can allocate too:

    driver = StandIn(tmp_path / "driver", gpus=[22 * GIB, 22 * GIB], release_s=0)
    daemon.start(env=driver.environment())           # manager, host and workers see two GPUs
    stranger = driver.stranger(0, 6 * GIB)           # somebody else's; stranger.free()
    driver.hang("nvmlDeviceGetMemoryInfo_v2", gpu=1)  # or fail, lose, unload, divide; heal() ends it
    assert driver.used(0) == 6 * GIB
"""

from .driver import GIB, MIB, Allocation, OutOfMemory, StandIn

__all__ = ["GIB", "MIB", "Allocation", "OutOfMemory", "StandIn"]
