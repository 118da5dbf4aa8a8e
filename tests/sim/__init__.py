"""The simulation: the real decision core in a world that can be made to go wrong.

`lazyd.core` runs unchanged, and so do the rules of the worker's half (`lazyd.worker.admission`).
Around them stand a virtual clock, a host, clients with all the bad manners of real ones, and
faults. After every event the sentences of docs/architecture.md about the core are checked, each
by one function. Everything is drawn from one seed, so a failing run can be repeated:

    python -m tests.sim --seed 1234            one schedule, told in full if it fails
    python -m tests.sim --base 99 --events N   many schedules, as the test does it
    python -m tests.sim.schedules              10,000 short ones about memory, summed up (make schedules)

Where things are:

    clock, channel       virtual time, processes as generators, sockets that keep order and can be cut
    profiles, scenario   kinds of schedules; which devices, models and faults one has, from its seed
    worker, desk         a worker and its data socket: real rules, dice for loads and calls
    reporting, host      what workers tell of themselves; starting and ending them
    manager              the shell around the core: it delivers events and carries out effects
    control, clients     requests, repeated when the manager comes back, and who makes them
    programs             who reserves memory, and what runs there
    callers, timetable   who comes at a period, and what a schedule says; expected draws both
    recollection         what is kept of models from one manager to the next
    pages, lockers       files that are locked in RAM, and who wants that
    memory, driver       what devices really hold, and what is seen of that; sampler tells the manager
    appetite             what models need; consumption takes it, loads and predicting foretell and draw it
    mischief             crashes, restarts, strangers on the devices, people with lazyctl
    told, books, truth   what the core was told and ordered, what must be booked, what is really so
    expectations         when models are expected, and what guesses have come to
    invariants           the table of what must hold; the checks are in about_* and peace, with bound
    world, runner        one schedule, and many; schedules sums up thousands
    naming               a day of names that mean several versions: a small world of its own, with its clients
                         and checks (naming_machine, naming_clients, naming_checks)
    mutations, broken    the core broken on purpose; the tests show that each is noticed

Nothing outside the tests imports this package.
"""
