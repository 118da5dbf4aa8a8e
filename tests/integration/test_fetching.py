"""Models are fetched from a real S3 server, whatever the network does, and served."""

from __future__ import annotations

import hashlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import LIMIT_S, Client, Daemon, Refused

pytest.importorskip("s3fs", reason="needs s3fs")
pytest.importorskip("moto", reason="needs moto")

from tests.fakes.store import SECRET, Store, serving

MODELS = Path(__file__).parents[2] / "build" / "models"
LONG_S = 90.0


@pytest.fixture(scope="module")
def server() -> Iterator[Store]:
    with serving() as store:
        yield store


@pytest.fixture
def store(server: Store) -> Iterator[Store]:
    """The server, with a network that works at first."""
    proxy = server.proxy
    proxy.cut_after = proxy.bytes_per_s = proxy.answers = None
    proxy.refuses = False
    proxy.gate.set()
    proxy.waits.clear()
    proxy.requests.clear()
    yield server
    proxy.gate.set()


def text_model(path: str, **fields: str) -> str:
    """A model of the python runtime that tells what is in its file: any file will do."""
    lines = [f"{name} = {value}" for name, value in fields.items()]
    return "\n".join(['runtime = "python"', 'factory = "reading:Reader"', f'path = "{path}"', *lines])


def configure(daemon: Daemon, tables: dict[str, str], more: str = "") -> None:
    reader = "import os\nclass Reader:\n    def pid(self): return os.getpid()\n"
    (daemon.root / "reading.py").write_text(reader)
    path = f'python_path = ["{daemon.root}"]'
    daemon.configure(more + "\n" + "\n".join(f"[models.{name}]\n{table}\n{path}" for name, table in tables.items()))


def load(client: Client, model: str) -> list[dict[str, object]]:
    """Every step of a load."""
    client.socket.settimeout(LONG_S)
    return list(client.stream("Load", model=model, timeoutSec=LONG_S))


def content(daemon: Daemon, url: str, sha256: str | None = None) -> bytes:
    """What was fetched for a URL."""
    from lazyd.urls import key_of, name_of

    return (daemon.state / "fetched" / "models" / key_of(url, sha256) / name_of(url)).read_bytes()


def nowhere_secret(daemon: Daemon, *texts: str) -> None:
    """Neither logs nor answers have the secret."""
    logs = [path for path in daemon.root.rglob("*") if path.is_file() and path.suffix == ".log"]
    for where in [*(path.read_text(errors="replace") for path in logs), *texts]:
        assert SECRET not in where
        assert "hunter22" not in where


def test_a_real_model_is_fetched_once_for_twenty_and_answers(daemon: Daemon, store: Store) -> None:
    """Its metadata is there before it is, and what never fits is refused by that."""
    gguf = MODELS / "smollm2.gguf"
    if not gguf.exists():
        pytest.skip("needs build/models/smollm2.gguf")
    url = store.put("small/smollm2.gguf", gguf.read_bytes())
    daemon.configure(
        f"""
        [models.small]
        runtime = "llama_cpp"
        path = "{url}"
        options = {{n_ctx = 256}}
        [models.huge]
        runtime = "llama_cpp"
        path = "{url}"
        memory = "900GiB"
        """
    )
    client = daemon.start(env=store.env)
    told = client.call("Describe", model="small")
    assert told["metadata"]["architecture"] == "llama"
    assert told["metadata"]["fileBytes"] == gguf.stat().st_size
    assert told["prediction"]["ram"]
    assert told["spec"]["path"] == url
    with pytest.raises(Refused) as refused:
        load(daemon.client(), "huge")
    assert refused.value.name.endswith("NoRoom")
    fetched = [line for line in store.proxy.requests if line.startswith("GET")]
    assert len(fetched) < 8, "only the head was read"

    store.proxy.requests.clear()
    store.proxy.gate.clear()
    answers: list[list[dict[str, object]]] = []
    threads = [threading.Thread(target=lambda: answers.append(load(daemon.client(), "small"))) for _ in range(20)]
    for thread in threads:
        thread.start()
    assert store.proxy.waits.wait(LIMIT_S)
    daemon.until(lambda: daemon.model("small")["waiting"] == 20)
    shown = daemon.model("small")
    assert (shown["state"], shown["phase"], shown["bookedBytes"]) == ("loading", "fetching", {})
    store.proxy.gate.set()
    for thread in threads:
        thread.join(LONG_S)
    assert len(answers) == 20
    assert all(steps[-1]["state"] == "ready" for steps in answers)
    assert any(step["phase"] == "fetching" and step.get("fraction") for steps in answers for step in steps)
    assert content(daemon, url) == gguf.read_bytes()
    wanted = gguf.stat().st_size / (256 << 10)
    assert store.proxy.count("GET", "smollm2.gguf") <= wanted + 1, "nothing was read twice"
    said = daemon.client().call("Call", model="small", method="complete", args=["Hi"], kwargs={"max_tokens": 2})
    assert said["result"]
    nowhere_secret(daemon, str(told), str(shown), str(answers))


def test_what_breaks_is_taken_up_where_it_broke_whoever_is_killed(daemon: Daemon, store: Store) -> None:
    data = os.urandom(3 << 20)
    url, other = store.put("cut/a.bin", data), store.put("cut/b.bin", data[::-1])
    configure(daemon, {"a": text_model(url), "b": text_model(other)})
    daemon.start(env=store.env)
    store.proxy.gate.clear()
    daemon.client().send("Load", {"model": "a"})
    assert store.proxy.waits.wait(LIMIT_S)
    daemon.kill()
    store.proxy.cut_after = 400_000
    store.proxy.gate.set()
    client = daemon.start(env=store.env)
    assert load(client, "a")[-1]["state"] == "ready"
    assert content(daemon, url) == data

    store.proxy.cut_after = None
    store.proxy.waits.clear()
    store.proxy.gate.clear()
    client.send("Load", {"model": "b"})
    assert store.proxy.waits.wait(LIMIT_S)
    (fetcher,) = (pid for pid in daemon.processes() if b"lazyd.fetch" in Path(f"/proc/{pid}/cmdline").read_bytes())
    os.kill(fetcher, signal.SIGKILL)
    store.proxy.gate.set()
    assert client.result()["state"] == "ready"
    assert content(daemon, other) == data[::-1]


def test_what_cannot_be_had_is_said_in_one_line(daemon: Daemon, store: Store) -> None:
    """Whatever the reason, no secret is told, and the model is paused like after any failed load."""
    good = store.put("one/good.bin", b"x" * 5000)
    sha256 = hashlib.sha256(b"something else").hexdigest()
    tables = {
        "missing": text_model("s3://models/one/missing.bin"),
        "wrong": text_model(good, sha256=f'"{sha256}"'),
        "denied": text_model(f"http://ana:hunter22@127.0.0.1:{store.proxy.port}/models/one/good.bin?sig=hunter22"),
        "large": text_model(store.put("one/large.bin", b"y" * 40_000)),
        "elsewhere": text_model("gs://bucket/a.bin"),
    }
    configure(daemon, tables, '[fetch]\ndisk = "20KiB"')
    client = daemon.start(env=store.env)
    said = {}
    for name in tables:
        store.proxy.answers = (
            b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" if name == "denied" else None
        )
        with pytest.raises(Refused) as refused:
            load(daemon.client(), name)
        assert refused.value.name.endswith("LoadFailed"), refused.value
        assert refused.value.parameters["retryAfterSec"] > 0
        said[name] = refused.value.parameters["reason"]
    assert "there is no such file" in said["missing"]
    assert f"and {sha256} is configured (sha256)" in said["wrong"]
    assert "access is denied" in said["denied"]
    assert "disk in [fetch]" in said["large"]
    assert "lazyd[gcs]" in said["elsewhere"]
    assert [path.name for path in (daemon.state / "fetched" / "blobs").iterdir()] == []
    nowhere_secret(daemon, str(said), str(client.call("Status")), str(client.call("Describe", model="denied")))


def test_a_file_that_changes_meanwhile_is_begun_anew(daemon: Daemon, store: Store) -> None:
    url = store.put("changes/a.bin", b"1" * (1 << 20))
    configure(daemon, {"a": text_model(url)})
    client = daemon.start(env=store.env)
    store.proxy.gate.clear()
    client.send("Load", {"model": "a"})
    assert store.proxy.waits.wait(LIMIT_S)
    store.put("changes/a.bin", b"2" * (1 << 20))
    store.proxy.gate.set()
    client.socket.settimeout(LONG_S)
    assert client.result()["state"] == "ready"
    assert content(daemon, url) == b"2" * (1 << 20)


def test_without_a_server_what_is_here_serves_and_with_one_what_is_new_does(daemon: Daemon, store: Store) -> None:
    """Two models share the file: it is fetched once, and both go over to the new one."""
    url = store.put("shared/a.bin", b"old")
    fields = {"idle_timeout": '"never"'}
    configure(daemon, {"a": text_model(url, **fields), "b": text_model(url, **fields)}, '[fetch]\nrevalidate = "0s"')
    client = daemon.start(env=store.env)
    load(client, "a")
    load(client, "b")
    assert store.proxy.count("GET", "shared/a.bin") == 1

    store.proxy.refuses = True
    client.call("Unload", models=["a"])
    load(client, "a")
    assert "what was fetched before serves" in daemon.log_text()
    assert content(daemon, url) == b"old"

    store.proxy.refuses = False
    store.put("shared/a.bin", b"new!")
    before = daemon.model("b")["workers"][0]["pid"]
    client.call("Unload", models=["a"])
    load(client, "a")
    assert content(daemon, url) == b"new!"
    daemon.until(lambda: daemon.model("b")["state"] == "cold")
    load(client, "b")
    assert daemon.model("b")["workers"][0]["pid"] != before
    client.call("Unload", models=["a", "b"])
    load(client, "a")
    assert len(list((daemon.state / "fetched" / "blobs").iterdir())) == 1


def test_a_folder_is_fetched_whole_and_what_was_used_least_leaves(daemon: Daemon, store: Store) -> None:
    for name in ("inference.json", "deep/inference.pdiparams"):
        store.put(f"folder/{name}", name.encode() * 1000)
    tables = {"folder": text_model("s3://models/folder/"), "other": text_model(store.put("other.bin", b"o" * 50_000))}
    configure(daemon, tables, '[fetch]\ndisk = "60KiB"')
    client = daemon.start(env=store.env)
    load(client, "folder")
    (folder,) = (daemon.state / "fetched" / "models").iterdir()
    assert (folder / "deep" / "inference.pdiparams").read_bytes() == b"deep/inference.pdiparams" * 1000
    with pytest.raises(Refused) as refused:
        load(client, "other")
    assert "disk in [fetch]" in refused.value.parameters["reason"], "what is in memory stays"
    client.call("Unload", models=["folder", "other"])
    daemon.until_state("folder", "cold")
    load(client, "other")
    assert not folder.exists()
    (kept,) = client.call("Fetched")["fetched"]
    assert (kept["url"], kept["bytes"], kept["models"]) == ("s3://models/other.bin", 50_000, ["other"])
    with pytest.raises(Refused, match="Busy"):
        client.call("Discard", model="other")
    assert client.call("Discard") == {"freedBytes": 0}
    client.call("Unload", models=["other"])
    assert client.call("Discard", model="other") == {"freedBytes": 50_000}
    assert client.call("Fetched")["fetched"] == []


def test_an_unload_by_name_ends_the_download_and_a_slow_one_shows_that_it_goes_on(daemon: Daemon, store: Store) -> None:
    data = os.urandom(12 << 20)
    url = store.put("slow/a.bin", data)
    configure(daemon, {"a": text_model(url, load_timeout='"4s"')})
    client = daemon.start(env=store.env)
    store.proxy.bytes_per_s = 200_000
    client.send("Load", {"model": "a"}, more=True)
    steps = [client.result().get("fraction")]
    begun = time.monotonic()
    while not steps[-1] or time.monotonic() < begun + 6:  # longer than it may stand still
        steps.append(client.result().get("fraction"))
    daemon.client().call("Unload", models=["a"])
    with pytest.raises(Refused, match="Cancelled"):
        [*iter(client.result, None)]
    log = daemon.runtime / "fetch.log"
    daemon.until(lambda: "it is not wanted any more" in log.read_text())
    store.proxy.bytes_per_s = None
    assert sum(path.stat().st_size for path in (daemon.state / "fetched" / "parts").iterdir()) > 256 << 10
    again = daemon.client()
    assert load(again, "a")[-1]["state"] == "ready"
    assert content(daemon, url) == data


def test_the_fetcher_ends_with_the_daemon(daemon: Daemon, store: Store) -> None:
    url = store.put("end/a.bin", b"x")
    configure(daemon, {"a": text_model(url)})
    load(daemon.start(env=store.env), "a")
    daemon.signal(signal.SIGINT)
    daemon.until(lambda: not daemon.processes())
