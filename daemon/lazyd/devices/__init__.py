"""What memory there is: how large each device is, how much of it is used, and by whom.

`source` is the seam that every kind of device fulfils; `ram` is the machine's own memory, or
what a cgroup leaves of it; `nvml` are NVIDIA's GPUs, of which `nvml_device` asks one; `pressure`
hears of programs that stall for want of RAM. All of it blocks, a driver's call perhaps for ever,
so the manager asks every device in a thread of its own. Only `lazyd.manager` imports this; it
imports nothing of lazyd.
"""
