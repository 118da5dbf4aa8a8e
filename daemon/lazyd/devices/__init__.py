"""What memory there is: how large each device is and how much of it is used.

`source` is the seam that every kind of device fulfils; `ram` is the machine's own memory, or
what a cgroup leaves of it. Sampling reads files, so the manager does it in a thread. Only
`lazyd.manager` imports this; it imports nothing of lazyd.
"""
