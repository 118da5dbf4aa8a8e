"""`make demo`: what lazyd does, told on real models through the commands that a person types.

`stage` is a private lazyd in a temporary directory (the benchmarks use it too), `screen` what is
drawn, `baseline` the same work without lazyd, `story` the steps.
"""
