"""What memory there is and who uses it, looked at as often as the core wants.

`measuring.py` has all devices, with a `sampler.py` each; `holders.py` tells whose processes those are;
`asking.py` asks drivers that may never answer.
"""
