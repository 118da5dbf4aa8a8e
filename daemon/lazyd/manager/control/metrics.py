"""Figures for Prometheus, in its text format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from lazyd.core import view
from lazyd.core.core import Core

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

DEVICE_STATES = ("ok", "lost", "silent")

OUTCOMES = ("equal", "different", "failed", "skipped")

Rows = Iterable[tuple[Mapping[str, str], float]]


def text(core: Core, uptime_s: float, deaths: Mapping[str, int], clients: int) -> str:
    """All figures. Models that nobody has asked for are counted by state alone."""
    devices = view.devices(core)
    counts = view.counts(core)
    states = Counter(count.state for count in counts.values())
    states["cold"] += len(view.known(core.world)) - len(counts)
    lines: list[str] = []

    def family(name: str, kind: str, meaning: str, rows: Rows) -> None:
        lines.append(f"# HELP lazyd_{name} {meaning}")
        lines.append(f"# TYPE lazyd_{name} {kind}")
        lines.extend(f"lazyd_{name}{_labels(labels)} {value!r}" for labels, value in rows)

    def per_device(name: str, meaning: str, field: str) -> None:
        values = ((device.name, getattr(device, field)) for device in devices)
        rows = [({"device": name}, float(value)) for name, value in values if value is not None]
        if rows:
            family(f"device_{name}", "gauge", meaning, rows)

    def per_model(name: str, kind: str, meaning: str, field: str) -> None:
        values = ((key, getattr(count, field)) for key, count in counts.items())
        family(f"model_{name}", kind, meaning, [({"model": key}, value) for key, value in values if value is not None])

    family("uptime_seconds", "gauge", "How long the manager has been up.", [({}, uptime_s)])
    family("clients", "gauge", "Open connections of the control socket.", [({}, clients)])
    family("task_deaths_total", "counter", "Background tasks that died.", [({"task": t}, n) for t, n in deaths.items()])
    per_device("total_bytes", "What the device has.", "total_bytes")
    per_device("budget_bytes", "What lazyd may use of it.", "budget_bytes")
    per_device("booked_bytes", "What models and reservations hold of it.", "booked_bytes")
    per_device("reserved_bytes", "What reservations hold of it.", "reserved_bytes")
    per_device("foreign_bytes", "What others use of it.", "foreign_bytes")
    per_device("quarantined_bytes", "What was lazyd's and never came back; part of foreign.", "quarantined_bytes")
    per_device("margin_bytes", "What is left free.", "margin_bytes")
    per_device("free_bytes", "What could be booked now.", "free_bytes")
    per_device("temperature_celsius", "How hot it is.", "temperature_c")
    per_device("power_watts", "What it draws.", "power_w")
    in_each = [({"device": d.name, "state": s}, float(d.state == s)) for d in devices for s in DEVICE_STATES]
    family("device_state", "gauge", "1 for the state that it is in.", in_each)
    family("reservations", "gauge", "Reservations that are held.", [({}, len(view.reservations(core)))])
    family("reservations_waiting", "gauge", "Reservations that wait for room.", [({}, len(view.waited_for(core)))])
    family("models", "gauge", "Models by state.", [({"state": state}, n) for state, n in sorted(states.items())])
    per_model("loads_total", "counter", "Loads that succeeded.", "loads")
    per_model("evictions_total", "counter", "Times it made room for another.", "evictions")
    per_model("leases", "gauge", "Leases on it.", "leases")
    per_model("in_flight", "gauge", "Leases with a call in flight.", "in_flight")
    per_model("waiting", "gauge", "Requests that wait for it.", "waiting")
    per_model("last_load_seconds", "gauge", "How long its last load took.", "last_load_s")
    per_model("load_median_seconds", "gauge", "Median of its last 20 loads, without warm-ups.", "load_median_s")
    per_model("load_p95_seconds", "gauge", "What 95 % of its last 20 loads did not exceed.", "load_p95_s")
    per_model("warmup_median_seconds", "gauge", "Median of its last 20 warm-ups.", "warmup_median_s")
    per_model("warmup_p95_seconds", "gauge", "What 95 % of its last 20 warm-ups did not exceed.", "warmup_p95_s")
    per_model("warmup_success_ratio", "gauge", "Part of its last 20 warm-ups that succeeded.", "warmup_success")
    per_model("fell_back", "gauge", "1 while its warm-ups are synchronous against its configuration.", "fell_back")
    per_model("calls_total", "counter", "Calls that have ended.", "calls")
    per_model("calls_failed_total", "counter", "Calls without a result.", "calls_failed")
    compared = [
        ({"name": name, "shadow": shadow, "outcome": outcome}, float(getattr(found, outcome)))
        for (name, shadow), found in core.world.compared.items()
        for outcome in OUTCOMES
    ]
    family("shadow_calls_total", "counter", "Calls that were repeated on a shadow, by what came of them.", compared)
    return "\n".join(lines) + "\n"


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items()) + "}"
