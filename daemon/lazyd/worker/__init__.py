"""The process that holds models, and the zygote that it is forked from.

- `boot` is the script that an interpreter is started with; it makes `lazyd` importable.
- `zygote` imports a model library once and forks workers; `checks` says whether it may, and
  `process` puts right what a fork has left wrong.
- `dry_run` is what a newborn may become instead of a worker.
- `main` is the worker: an I/O loop in the main thread, and a thread or more for each loaded object
  (`holdings`, `objects`, `crew`, `answering`, `calls`); clients come through `reception` (`connection`, `outbox`).
- `warmup` makes the calls of a warm-up: `recipes` their arguments, and `outputs` looks at what they answer.
- `admission` holds all rules about leases, calls and drains (`records`), and does no I/O;
  `reporter` tells the host what there is.
- `shadows` repeats calls on another model, for comparison (`alike`).
- `allocator` gives memory back to the kernel.
- `link` and `loop` carry packets and wait for them; the host uses both.

Standard library only, Python 3.9 and later, because a model may name its own interpreter. The
host imports from here; this imports `lazyd.wire`, `lazyd.errors`, `lazyd.runtimes`, and `lazyd.client`
for models that call models.
"""
