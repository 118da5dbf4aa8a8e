"""A stand-in for the manager as systemd sees it, that fails as a test wants: no model, no ledger, no varlink.

It takes the inherited socket, says READY, feeds the watchdog, answers what a connection sends with its pid, and
notes in its state directory the signals it gets. It exits with 78 while /etc/lazyd/broken exists, with 1 while
/etc/lazyd/fails does.
"""

import os
import selectors
import signal
import socket
import sys
import time
from pathlib import Path

STATE = Path("/var/lib/lazyd")
HOST_SOCKET = "/run/lazyd/host/host.sock"


def main() -> int:
    if Path("/etc/lazyd/broken").exists():
        return 78
    if Path("/etc/lazyd/fails").exists():
        return 1
    wakeup, signals = socket.socketpair()
    signals.setblocking(False)
    wakeup.setblocking(False)
    signal.set_wakeup_fd(wakeup.fileno())
    for each in (signal.SIGUSR1, signal.SIGTERM):
        signal.signal(each, lambda *_: None)
    listener = socket.socket(fileno=3)
    listener.setblocking(False)
    host = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    deadline = time.monotonic() + 10
    while host.connect_ex(HOST_SOCKET) != 0:
        if time.monotonic() > deadline:
            return 1
        time.sleep(0.01)
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    selector.register(signals, selectors.EVENT_READ)
    notify("READY=1")
    pause_s = int(os.environ.get("WATCHDOG_USEC", "30000000")) / 3e6
    while True:
        notify("WATCHDOG=1")
        for key, _ in selector.select(pause_s):
            if key.fileobj is signals:
                for number in signals.recv(64):
                    with open(STATE / "told", "a") as told:
                        told.write(f"{signal.Signals(number).name}\n")
                    if number == signal.SIGTERM:
                        return 0
            elif key.fileobj is listener:
                connection, _ = listener.accept()
                selector.register(connection, selectors.EVENT_READ)
            else:
                assert isinstance(key.fileobj, socket.socket)
                if key.fileobj.recv(4096):
                    key.fileobj.sendall(f"{os.getpid()}\n".encode())
                else:
                    selector.unregister(key.fileobj)
                    key.fileobj.close()


def notify(text: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
        out.sendto(text.encode(), os.environ["NOTIFY_SOCKET"])


if __name__ == "__main__":
    sys.exit(main())
