"""The process ``lazyd-proxy``: ordinary HTTP clients reach services through it, whether they are loaded or not.

A request waits until its service is ready, keeps it in use while it lasts, and passes both ways as it comes; so do
websockets. The process is a client of the control socket like any other, started by the host for services that have a
`proxy`, and outlives managers. What is not HTTP's is not known here.

- `main` hears from the host which services there are, and tells it what is wrong;
- `listening` opens their addresses, `conversation` is one client's connection, `exchange` one of its requests, `tunnel`
  what becomes of a websocket;
- `hold` keeps a service in use; `refusals` are the answers when it cannot be had;
- `headers` says which headers are passed on, `streams` moves bytes.

The host executes it; nobody imports it. It imports `lazyd.client`, `lazyd.errors`, `lazyd.wire`, what the worker knows
of processes and packets, and h11.
"""
