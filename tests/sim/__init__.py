"""The simulation: the real decision core in a world that can be made to go wrong.

`lazyd.core` runs unchanged. Around it stand a virtual clock, a host whose workers keep the
protocol with a truth of their own, clients with all the bad manners of real ones, and faults.
After every event the sentences of docs/architecture.md about the core are checked, each by one
function of `invariants`. Everything is drawn from one seed, so a failing run can be repeated:

    python -m tests.sim --seed 1234            one schedule, told in full if it fails
    python -m tests.sim --base 99 --events N   many schedules, as the test does it

Where things are:

    clock, channel      virtual time, processes as generators, sockets that keep order and can be cut
    scenario            which devices, models and faults a schedule has; drawn from the seed
    host, worker        the other side of the core's effects, with a truth of its own
    manager             the shell around the core: it delivers events and carries out effects
    control, clients    requests that are repeated when the manager comes back, and who makes them
    mischief            crashes, restarts, strangers on the devices, changed configurations
    told                what the core has been told and has ordered, read off its interface alone
    invariants, bound   what must hold after every event
    world, runner       one schedule, and many
    mutations           the core broken on purpose; the tests show that each is caught

Nothing outside the tests imports this package.
"""
