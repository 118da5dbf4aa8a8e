"""The server half of varlink, and the interface file `io.lazyd.varlink` with every type.

`connection` speaks the protocol on one socket, `call` is one call under way, `parameters` has
the arguments of every method as checked structs, `service` the table of methods and
``org.varlink.service``, `peer` who is calling. What the methods do stands in `lazyd.manager`,
which alone imports this package. Clients use `lazyd.wire` and `lazyd.client`.
"""
