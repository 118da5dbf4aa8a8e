"""A stand-in for the worker host as systemd sees it: it has one worker in a sub-cgroup, and leaves when no
manager comes back."""

import os
import selectors
import signal
import socket
import subprocess
import sys
from pathlib import Path

PLACE = Path("/run/lazyd/host")


def main() -> int:
    own = Path("/sys/fs/cgroup") / Path("/proc/self/cgroup").read_text().strip().split("::/", 1)[1]
    for leaf in ("host", "worker"):
        (own / leaf).mkdir()
    (own / "host" / "cgroup.procs").write_text("0")
    worker = subprocess.Popen(["sleep", "infinity"])
    (own / "worker" / "cgroup.procs").write_text(str(worker.pid))
    (PLACE / "host.sock").unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(str(PLACE / "host.sock"))
    os.chmod(PLACE / "host.sock", 0o660)
    lazyd = os.stat("/run/lazyd").st_gid
    os.chown(PLACE / "host.sock", -1, lazyd)
    listener.listen()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
        out.sendto(b"READY=1", os.environ["NOTIFY_SOCKET"])
    manager = None
    while True:
        ready = [key.fileobj for key, _ in selector.select(0.2)]
        if manager in ready:
            selector.unregister(manager)
            manager = None
        if listener in ready:
            if manager is not None:
                selector.unregister(manager)
            manager, _ = listener.accept()
            selector.register(manager, selectors.EVENT_READ)
        if manager is None and nobody_comes_back():
            return 0


def nobody_comes_back() -> bool:
    shown = subprocess.run(
        ["systemctl", "show", "--property=ActiveState,Job", "lazyd.service"], capture_output=True, text=True, check=True
    ).stdout
    return set(shown.split()) in ({"ActiveState=inactive", "Job="}, {"ActiveState=failed", "Job="})


if __name__ == "__main__":
    try:
        status = main()
    finally:
        (PLACE / "host.sock").unlink()
    sys.exit(status)
