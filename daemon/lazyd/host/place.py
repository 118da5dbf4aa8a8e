"""The host's directories and sockets, and who may reach them.

When host and manager are two users the manager's group may connect and read logs (sockets 0660,
logs 0640). When all run as one user, everything is that user's alone (0600).
"""

from __future__ import annotations

import contextlib
import fcntl
import grp
import os
import pwd
import socket

from .. import places

_BACKLOG = 128


class InUse(Exception):
    """Another host lives here."""


class Place:
    """Everything below the runtime directory that is the host's."""

    def __init__(self, runtime_dir: str, manager_user: str | None) -> None:
        self.runtime_dir = places.runtime_dir(runtime_dir)
        self.host_dir = places.host_dir(self.runtime_dir)
        self.manager_uid, self._gid = _manager(manager_user)

    def prepare(self) -> None:
        """Makes the directories that are missing."""
        os.makedirs(self.runtime_dir, mode=0o700, exist_ok=True)
        for path in self._directories():
            if not os.path.isdir(path):
                os.mkdir(path, 0o700)
                self._share_path(path, 0o750)

    def lock(self) -> int:
        """Holds the pid file for as long as the descriptor is open. Raises `InUse`."""
        fd = os.open(places.host_pid_file(self.runtime_dir), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
            os.close(fd)
            raise InUse(f"a host runs already in {self.host_dir} (pid {holder or 'unknown'})") from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        return fd

    def lock_anew(self, lock: int) -> None:
        """After the pid file was deleted: `lock` holds a new one. Raises `InUse`."""
        fd = self.lock()
        os.dup2(fd, lock, inheritable=False)
        os.close(fd)

    def is_ours(self, lock: int) -> bool:
        """Whether the pid file is the one that `lock` holds, and so no other host lives here."""
        try:
            return os.path.samestat(os.stat(places.host_pid_file(self.runtime_dir)), os.fstat(lock))
        except FileNotFoundError:
            return False

    def is_whole(self, lock: int) -> bool:
        """Whether all is there that managers and workers need."""
        found = os.path.exists(places.host_socket(self.runtime_dir)) and all(map(os.path.isdir, self._directories()))
        return found and self.is_ours(lock)

    def exchange_identity(self, identity: str | None) -> str | None:
        """Writes down what this host is called, or that it has left nothing; what stood there before."""
        path = os.path.join(self.host_dir, "host.identity")
        before = None
        with contextlib.suppress(FileNotFoundError), open(path) as file:
            before = file.read().strip()
        if identity is None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        else:
            with open(path, "w") as file:
                file.write(f"{identity}\n")
        return before

    def leave(self, lock: int) -> None:
        """Tidies up. The locked file stays, as another host may have it open already."""
        if not self.is_ours(lock):
            return  # what is here now is another's
        with contextlib.suppress(OSError):
            os.unlink(places.host_socket(self.runtime_dir))
        self.exchange_identity(None)
        os.ftruncate(lock, 0)

    def listen(self, path: str, kind: int) -> socket.socket:
        """A listening socket at `path`. Raises `OSError` with a line that says why."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        sock = socket.socket(socket.AF_UNIX, kind)
        try:
            before = os.umask(0o177)
            try:
                sock.bind(path)
            finally:
                os.umask(before)
            self._share_path(path, 0o660)
            sock.listen(_BACKLOG)
        except OSError as error:
            sock.close()
            raise OSError(f"cannot listen at {path}: {error}") from None
        return sock

    def share(self, fd: int) -> None:
        """Lets the manager read a file."""
        if self._gid is not None:
            os.fchown(fd, -1, self._gid)

    def may_connect(self, uid: int) -> bool:
        return uid in (os.geteuid(), self.manager_uid)

    def remove_old_sockets(self) -> None:
        """Data sockets of workers that died with their host."""
        workers = os.path.dirname(places.data_socket(self.runtime_dir, "w"))
        for name in os.listdir(workers):
            os.unlink(os.path.join(workers, name))

    def _directories(self) -> tuple[str, str, str]:
        workers = os.path.dirname(places.data_socket(self.runtime_dir, "w"))
        logs = os.path.dirname(places.worker_log(self.runtime_dir, "w"))
        return self.host_dir, workers, logs

    def _share_path(self, path: str, mode: int) -> None:
        if self._gid is not None:
            os.chown(path, -1, self._gid)
            os.chmod(path, mode)


def _manager(user: str | None) -> tuple[int, int | None]:
    """The manager's uid, and the group that it is reached by if it is another user.

    Raises `LookupError` if there is no such user.
    """
    if user is None:
        return os.geteuid(), None
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        raise LookupError(f"there is no user {user!r} (--manager-user)") from None
    if entry.pw_uid == os.geteuid():
        return entry.pw_uid, None
    with contextlib.suppress(KeyError):
        return entry.pw_uid, grp.getgrnam(user).gr_gid
    return entry.pw_uid, entry.pw_gid
