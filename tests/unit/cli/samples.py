"""Replies as the daemon gives them; `test_samples` holds them against the interface file."""

from __future__ import annotations

from typing import Any

MIB = 2**20
GIB = 2**30


def model(name: str = "gemma", **fields: Any) -> dict[str, Any]:
    """A cold model, but for `fields`."""
    return {
        "name": name,
        "version": "",
        "aliases": [],
        "runtime": "llama_cpp",
        "tier": "on-demand",
        "state": "cold",
        "residency": "cold",
        "warmup": "none",
        "pinned": False,
        "source": "/etc/lazyd/lazyd.toml",
        "workers": [],
        "devices": [],
        "bookedBytes": {},
        "measuredBytes": {},
        "leases": 0,
        "inFlight": 0,
        "waiting": 0,
        "idleTimeoutSec": 600.0,
        "loads": 0,
        "evictions": 0,
        **fields,
    }


def hot(name: str = "gemma", **fields: Any) -> dict[str, Any]:
    """A model that serves, idle for two minutes of ten."""
    given = {
        "state": "ready",
        "residency": "hot",
        "workers": [worker()],
        "devices": ["ram"],
        "bookedBytes": {"ram": 450 * MIB},
        "measuredBytes": {"ram": 412 * MIB},
        "cachedFraction": 1.0,
        "idleSec": 120.0,
        "loads": 3,
        "lastLoadSec": 0.61,
        **fields,
    }
    return model(name, **given)


def worker(**fields: Any) -> dict[str, Any]:
    return {
        "id": "w7",
        "pid": 4712,
        "devices": ["ram"],
        "bookedBytes": {"ram": 450 * MIB},
        "measuredBytes": {"ram": 412 * MIB},
        "inFlight": 0,
        "uptimeSec": 754.0,
        **fields,
    }


def device(name: str = "ram", **fields: Any) -> dict[str, Any]:
    """16 GiB, of which lazyd may use 12.8: 3.2 booked, 4 used by others, 5.6 free."""
    return {
        "name": name,
        "kind": "host" if name == "ram" else "cuda",
        "totalBytes": 16 * GIB,
        "budgetBytes": 128 * GIB // 10,
        "marginBytes": 0,
        "bookedBytes": 32 * GIB // 10,
        "foreignBytes": 4 * GIB,
        "quarantinedBytes": 0,
        "freeBytes": 88 * GIB // 10,
        "reservedBytes": 0,
        "state": "ok",
        **fields,
    }


def gpu(name: str = "gpu0", **fields: Any) -> dict[str, Any]:
    """22 GiB: 7 booked for models, 8 reserved, 3 used by others, half a GiB of margin."""
    return device(
        name,
        **{
            "totalBytes": 22 * GIB,
            "budgetBytes": 22 * GIB,
            "marginBytes": GIB // 2,
            "bookedBytes": 15 * GIB,
            "reservedBytes": 8 * GIB,
            "foreignBytes": 3 * GIB,
            "freeBytes": 7 * GIB // 2,
            "uuid": "GPU-5a1f",
            "label": "NVIDIA GeForce RTX 2080 Ti",
            "temperatureC": 64,
            "powerW": 171.3,
            **fields,
        },
    )


def status(*models: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {
        "schema": 1,
        "daemon": {"version": "0.1.0", "pid": 4711, "uptimeSec": 11520.0, "state": "running"},
        "devices": [device()],
        "models": list(models),
        "reservations": [],
        **fields,
    }


def stranger(**fields: Any) -> dict[str, Any]:
    """A process of somebody else's."""
    return {"pid": 4711, "bytes": 2 * GIB, "name": "comfyui", **fields}


def reservation(**fields: Any) -> dict[str, Any]:
    return {"id": "r1", "device": "gpu0", "bytes": 8 * GIB, "pid": 99, "command": "train.py", **fields}


def wish(**fields: Any) -> dict[str, Any]:
    """A reservation that waits."""
    why = ["It needs 8.0 GiB of gpu0, where 3.5 GiB of 21.5 GiB are free: llava holds 7.0 GiB: a call is in flight."]
    given = {"device": "gpu0", "bytes": 8 * GIB, "pid": 98, "command": "./render.sh", "waitedSec": 12.4, "why": why}
    return {**given, **fields}


def health(**models: str) -> dict[str, Any]:
    return {"status": "ready", "live": True, "ready": True, "models": models}


def describe() -> dict[str, Any]:
    return {
        "model": model(),
        "spec": {
            "runtime": "llama_cpp",
            "path": "/models/gemma.gguf",
            "idle_timeout": "5min",
            "options": {"n_ctx": 4096},
        },
        "metadata": {
            "architecture": "gemma3",
            "parameters": 268098176,
            "fileBytes": 253 * MIB,
            "bytesByType": {"Q8_0": 30 * MIB},
            "metadata": {"general.architecture": "gemma3", "tokenizer.chat_template": "{{ bos_token }}\n" * 200},
        },
        "prediction": {
            "gpu": {
                "source": "learned",
                "peakBytes": {"gpu": 700 * MIB, "ram": 310 * MIB},
                "serviceBytes": {"gpu": 640 * MIB, "ram": 310 * MIB},
            },
            "ram": {
                "source": "file size",
                "peakBytes": {"ram": 450 * MIB},
                "fileBytes": 253 * MIB,
                "factor": 1.25,
            },
        },
    }


def event(kind: str = "ready", **fields: Any) -> dict[str, Any]:
    return {"seq": 1, "time": 1767225600.0, "kind": kind, "model": "gemma", "data": {}, "dropped": 0, **fields}


def known(*models: str, **fields: Any) -> dict[str, Any]:
    """The first reply of ``History``: models that take 1 GiB and load in 4 s."""
    names = models or ("gemma",)
    ways = {"ram": {"peak": {"ram_bytes": GIB}, "source": "learned"}}
    return {
        "config": {
            "settings": {"budget": {"ram": 0.8}},
            "models": {name: {"name": name, "runtime": "llama_cpp"} for name in names},
        },
        "pins": [],
        "facts": {
            "devices": [{"name": "ram", "kind": "host", "totalBytes": 16 * GIB}],
            "models": {name: {"loadSec": 4.0, "ways": ways} for name in names},
        },
        "kept": 200_000,
        **fields,
    }


def used(*uses: tuple[float, str, float]) -> dict[str, Any]:
    """A page of ``History``."""
    return {"uses": [{"began": began, "model": model, "busySec": busy} for began, model, busy in uses]}
