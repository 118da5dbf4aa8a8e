"""Each thing that goes wrong is one clear line, and disturbs nothing else."""

from __future__ import annotations

import os
import resource
import signal
import subprocess

import pytest

from .conftest import LIMIT_S, Daemon, Refused, gone


def refused(daemon: Daemon, *arguments: str) -> tuple[int, str]:
    """Exit status and output of a start that must fail."""
    running = daemon.process
    process = daemon.spawn(*arguments, stderr=subprocess.PIPE)
    output = process.communicate(timeout=LIMIT_S)[1].decode()
    daemon.process = running
    return process.returncode, output


# Starting.


def test_a_second_daemon_is_refused_and_told_who_is_there(daemon: Daemon) -> None:
    with daemon.start() as client:
        pid = client.call("Status")["daemon"]["pid"]
        status, output = refused(daemon)
        assert status == 1
        assert output.count("\n") == 1
        assert f"pid {pid}" in output
        assert "--replace" in output
        assert client.call("Health")["live"]


def test_the_socket_of_another_live_daemon_is_refused_with_who_holds_it(daemon: Daemon) -> None:
    with daemon.start() as client:
        pid = client.call("Status")["daemon"]["pid"]
        status, output = refused(daemon, "--runtime-dir", str(daemon.root / "other"))
        assert status == 1
        assert output.count("\n") == 1
        assert f"live daemon (pid {pid}, lazyd" in output
        assert client.call("Health")["live"]


def test_the_socket_of_a_dead_daemon_is_taken_over(daemon: Daemon) -> None:
    daemon.start().close()
    daemon.kill()
    assert os.path.exists(daemon.socket)
    daemon.start().close()


def test_a_wrong_configuration_with_nothing_accepted_before_exits_78(daemon: Daemon) -> None:
    daemon.configure('@echo idle_timeout="5parsecs"\n[models.b]\nruntme="python"')
    status, output = refused(daemon)
    assert status == 78
    assert "idle_timeout" in output
    assert "runtme" in output


def test_a_wrong_configuration_keeps_the_last_accepted_one(daemon: Daemon) -> None:
    with daemon.start() as client:
        pid = client.call("Call", model="echo", method="pid")["result"]
        daemon.until(lambda: (daemon.state / "accepted.msgpack").exists())
        daemon.kill()
    daemon.configure("@other idle_timeout=5")
    with daemon.start() as client:
        status = client.call("Status")
        assert [model["name"] for model in status["models"]] == ["echo"]
        assert any("idle_timeout" in problem for problem in status["daemon"]["problems"])
        assert client.call("Call", model="echo", method="pid")["result"] == pid
    assert "idle_timeout" in daemon.log_text()


def test_a_wrong_reload_changes_nothing_and_names_every_problem(daemon: Daemon) -> None:
    with daemon.start() as client:
        pid = client.call("Call", model="echo", method="pid")["result"]
        daemon.configure('@echo idle_timeout=5 colour="red"\n@more')
        with pytest.raises(Refused) as wrong:
            client.call("Reload")
        assert wrong.value.name == "io.lazyd.InvalidConfig"
        assert len(wrong.value.parameters["problems"]) == 2
        assert [model["name"] for model in client.call("Status")["models"]] == ["echo"]
        assert client.call("Call", model="echo", method="pid")["result"] == pid


def test_a_reload_disturbs_only_what_changed(daemon: Daemon) -> None:
    daemon.configure("@same\n@changes\n@goes")
    with daemon.start() as client:
        pids = {name: client.call("Call", model=name, method="pid")["result"] for name in ("same", "changes", "goes")}
        daemon.configure('@same idle_timeout="1h"\n@changes options.x=1\n@comes')
        assert client.call("Reload") == {"added": ["comes"], "changed": ["changes", "same"], "removed": ["goes"]}
        daemon.until(lambda: gone(pids["changes"]) and gone(pids["goes"]))
        assert client.call("Call", model="same", method="pid")["result"] == pids["same"]
        assert client.call("Call", model="changes", method="pid")["result"] != pids["changes"]


# Loading.


def load_error(daemon: Daemon, model: str) -> str:
    with daemon.client() as client, pytest.raises(Refused) as failed:
        client.call("Load", model=model)
    assert failed.value.name == "io.lazyd.LoadFailed", failed.value
    reason: str = failed.value.parameters["reason"]
    assert "\n" not in reason
    assert failed.value.parameters["retryAfterSec"] > 0
    return reason


@pytest.fixture
def failing(daemon: Daemon) -> Daemon:
    """A daemon with a model that works and several that do not."""
    truncated = daemon.root / "truncated.gguf"
    truncated.write_bytes(b"GGUF\x03\x00\x00\x00\x01")
    nonsense = daemon.root / "nonsense.gguf"
    nonsense.write_bytes(os.urandom(4096))
    secret = daemon.root / "secret.gguf"
    secret.write_bytes(b"GGUF")
    secret.chmod(0)
    missing = daemon.root / "missing.gguf"
    missing.write_bytes(b"GGUF")
    daemon.configure(
        f"""
        @works
        @broken factory="actors:broken"
        @leaves factory="actors:leaves"
        @nowhere factory="actors:nobody"
        @elsewhere factory="no_such_module:thing"
        [models.truncated]
        runtime = "llama_cpp"
        path = "{truncated}"
        [models.nonsense]
        runtime = "llama_cpp"
        path = "{nonsense}"
        [models.missing]
        runtime = "llama_cpp"
        path = "{missing}"
        [models.secret]
        runtime = "llama_cpp"
        path = "{secret}"
        """
    )
    daemon.start().close()
    missing.unlink()
    return daemon


def works_on(daemon: Daemon) -> None:
    with daemon.client() as client:
        assert client.call("Call", model="works", method="echo")["result"]["args"] == []


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("truncated", "truncated.gguf"),
        ("nonsense", "nonsense.gguf"),
        ("missing", "missing.gguf"),
        ("broken", "this model cannot be made"),
        ("leaves", "status 7"),
        ("nowhere", "nobody"),
        ("elsewhere", "no_such_module"),
    ],
)
def test_a_model_that_cannot_be_loaded_says_why_and_disturbs_nothing(failing: Daemon, model: str, words: str) -> None:
    assert words in load_error(failing, model)
    assert failing.model(model)["state"] == "failed"
    assert words in failing.model(model)["lastError"]
    works_on(failing)


def test_a_file_that_may_not_be_read_says_so(failing: Daemon) -> None:
    if os.getuid() == 0:
        pytest.skip("root may read everything")
    assert "Permission denied" in load_error(failing, "secret")
    works_on(failing)


def test_a_failing_model_is_paused_and_then_tried_again(failing: Daemon) -> None:
    """Respawned on every request, failed for ever."""
    load_error(failing, "broken")
    with failing.client() as client, pytest.raises(Refused) as paused:
        client.call("Get", model="broken")
    assert 0 < paused.value.parameters["retryAfterSec"] <= 1
    failing.until(lambda: failing.model("broken").get("retryAfterSec") is None)
    load_error(failing, "broken")
    assert failing.model("broken")["retryAfterSec"] > 1


def test_an_unknown_model_names_the_nearest(daemon: Daemon) -> None:
    with daemon.start() as client, pytest.raises(Refused) as unknown:
        client.call("Get", model="ecco")
    assert unknown.value.name == "io.lazyd.ModelNotFound"
    assert unknown.value.parameters == {"model": "ecco", "nearest": "echo"}


def test_a_worker_killed_from_outside_is_loaded_again_at_the_next_call(daemon: Daemon) -> None:
    with daemon.start() as client:
        pid = client.call("Call", model="echo", method="pid")["result"]
        os.kill(pid, signal.SIGKILL)
        daemon.until(lambda: daemon.model("echo")["state"] == "cold")
        assert client.call("Call", model="echo", method="pid")["result"] != pid


def test_a_runtime_directory_that_cannot_be_made_is_one_line(daemon: Daemon) -> None:
    (daemon.root / "file").write_text("")
    status, output = refused(daemon, "--runtime-dir", str(daemon.root / "file" / "run"))
    assert status == 1
    assert output.count("\n") == 1
    assert "--runtime-dir" in output


def test_a_runtime_directory_whose_path_is_too_long_for_sockets_is_one_line(daemon: Daemon) -> None:
    status, output = refused(daemon, "--runtime-dir", str(daemon.root / ("r" * 80)))
    assert status == 1
    assert output.count("\n") == 1
    assert "too long" in output
    assert "--runtime-dir" in output


def test_a_daemon_whose_socket_was_removed_leaves_its_successors_alone(daemon: Daemon) -> None:
    daemon.start().close()
    first = daemon.process
    assert first is not None
    os.unlink(daemon.socket)
    daemon.start("--runtime-dir", str(daemon.root / "other")).close()
    first.send_signal(signal.SIGTERM)
    assert first.wait(LIMIT_S) == 0
    with daemon.client() as client:
        assert client.call("Health")["live"]


def test_without_descriptors_clients_wait_and_the_log_says_so_once(daemon: Daemon) -> None:
    with daemon.start() as client:
        assert daemon.process is not None
        daemon.until(lambda: "connected to the host" in daemon.log_text())
        limits = resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, (32, limits[1]))
        others = [daemon.client() for _ in range(40)]
        last = daemon.client()
        last.send("Health")
        daemon.until(lambda: "open files" in daemon.log_text())
        assert client.call("Health")["live"]
        for other in others:
            other.close()
        assert last.result()["live"]
    assert daemon.log_text().count("open files") < 5
    assert "Traceback" not in daemon.log_text()


def test_a_pin_that_will_not_outlive_a_restart_is_answered_with_that(daemon: Daemon) -> None:
    with daemon.start() as client:
        daemon.until(lambda: (daemon.state / "accepted.msgpack").exists())
        kept = daemon.state.rename(daemon.state.with_name("elsewhere"))
        daemon.state.touch()  # nothing can be written below it
        with pytest.raises(Refused) as refused:
            client.call("Pin", model="echo")
        assert refused.value.name == "io.lazyd.NotKept"
        assert refused.value.parameters["change"] == "pinned"
        assert daemon.model("echo")["pinned"]
        daemon.state.unlink()
        kept.rename(daemon.state)
        client.call("Pin", model="echo")


def test_a_full_disk_is_one_line_and_the_daemon_serves(daemon: Daemon) -> None:
    """Where pins and the accepted configuration should go there is no room."""
    if os.getuid() != 0:
        pytest.skip("needs root to mount a small file system")
    daemon.state.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", str(daemon.state)], stderr=subprocess.PIPE, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("a small file system cannot be mounted here")
    try:
        with (daemon.state / "full").open("wb", buffering=0) as file:
            file.write(b"x" * 4096)
        with daemon.start() as client:
            with pytest.raises(Refused, match="No space left on device"):
                client.call("Pin", model="echo")
            assert client.call("Call", model="echo", method="echo")["result"]["args"] == []
        assert "No space left on device" in daemon.log_text()
        assert "Traceback" not in daemon.log_text()
    finally:
        subprocess.run(["umount", str(daemon.state)], check=True)
