"""What memory there is: how large each device is, how much of it is used, and by whom.

`source` is the seam that every kind of device fulfils; `ram` is the machine's own memory, or
what a cgroup leaves of it; `nvml` are NVIDIA's GPUs, which `nvml_driver` finds, `numbering` names and
`nvml_device` asks; `first_look` begins with them early; `pressure` hears of programs that stall for
want of RAM. All of it blocks, a driver's call perhaps for ever,
so the manager asks every device in a thread of its own. Only `lazyd.manager` imports this; it
imports nothing of lazyd.
"""
