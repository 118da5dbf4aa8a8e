"""The table of all keys: what each accepts, its default, and what it means.

Validation, `etc/lazyd.toml` and `docs/configuration.md` all come from here, so that they
cannot disagree. A key without a `kind` belongs to a later capability: naming it is an error.
"""

from __future__ import annotations

from ..core.spec import Swap, Tier
from . import compounds, kinds, services
from .readiness import FALLBACK, PREWARM, WARMUP
from .rows import EACH_GPU, Each, Group, Key

__all__ = [
    "ALIAS",
    "BUDGET",
    "BUILT_RUNTIMES",
    "DAEMON",
    "DISCOVER",
    "EACH_GPU",
    "FETCH",
    "MODEL",
    "OF_THE_FACTORY",
    "REQUIRED",
    "TABLES",
    "Each",
    "Group",
    "Key",
]

BUILT_RUNTIMES = ("llama_cpp", "onnx", "paddle", "python", "torchscript", "service")

REQUIRED = {
    "llama_cpp": {"path": '"/var/lib/lazyd/models/gemma-3-270m-q4_k_m.gguf"'},
    "onnx": {"path": '"/var/lib/lazyd/models/ocr/det.onnx"'},
    "paddle": {"path": '"/var/lib/lazyd/models/ch_PP-OCRv4_det_infer"'},
    "python": {"factory": '"autoquant.strategies:load"'},
    "torchscript": {"path": '"/var/lib/lazyd/models/silero_vad.jit"'},
    "service": {"command": services.EXAMPLE},
}
"""Keys without which a runtime has nothing to load, and an example of each."""

ONE_AT_A_TIME = ("llama_cpp",)
"""Runtimes whose models answer one call at a time."""

CALLS_AT_ONCE = {"service": 64}
"""How many calls a model of a runtime answers at once where nothing is said; one, if it is not here."""

DAEMON = (
    Key(
        "idle_timeout",
        "A model that nobody has used for so long is freed, unless it has a time of its own.",
        kinds.Duration(never=True),
        "idle_timeout_s",
        '"10min"',
    ),
    Key(
        "load_timeout",
        "A load that has shown no progress for so long has failed, unless the model has a time of its own.",
        kinds.Duration(never=True),
        "load_timeout_s",
        '"2min"',
    ),
    Key(
        "first_call_timeout",
        "How long a caller without a deadline waits while the model loads.",
        kinds.Duration(never=True),
        "first_call_timeout_s",
        '"5min"',
    ),
    Key(
        "linger",
        "How long workers wait for a manager that was killed (without systemd).",
        kinds.Duration(never=True),
        "linger_s",
        '"10min"',
    ),
    Key(
        "max_zygotes",
        "Processes that have a model library imported already, kept so that loads start sooner.",
        kinds.Count(0, 64),
        default="4",
    ),
    Key(
        "history",
        "So many uses are kept, the latest, for lazyctl simulate. 0: none.",
        kinds.Count(0, 10_000_000),
        default="200000",
    ),
)

BUDGET = (
    Key(
        "ram",
        "What models and reservations may use, of what the cgroup or the machine has.",
        kinds.SizeOrFraction(),
        default='"80%"',
    ),
    Key("gpu_margin", "Left free on every GPU.", kinds.Size(nothing=True), "gpu_margin_bytes", '"512MiB"'),
    Key(
        EACH_GPU,
        "What models and reservations may use of one GPU, as gpu0 or gpu1. Without it all but the margin.",
        kinds.SizeOrFraction(),
        example='"20GiB"',
    ),
    Key(
        "max_pinned",
        "What pinned and resident models may hold of a device's budget together.",
        kinds.Fraction(),
        default='"75%"',
    ),
    Key(
        "max_reserved",
        "What the reservations of one user may hold of a device's budget together.",
        kinds.Fraction(),
        default='"75%"',
    ),
    Key(
        "max_hold",
        "The longest time for which a client may make its lease irrevocable.",
        kinds.Duration(),
        "max_hold_s",
        '"10min"',
    ),
)

MODEL = (
    Key(
        "runtime",
        "What loads it. Required.",
        kinds.OneOf(BUILT_RUNTIMES),
        example='"llama_cpp"',
    ),
    Key(
        "path",
        "The model's file, or a URL (s3://, gs://, oss://, https://, file://) that it is fetched from when it is first "
        "needed; one that ends in / means all files below it. Required by llama_cpp, onnx, torchscript and paddle.",
        kinds.Path(urls=True),
        example='"/var/lib/lazyd/models/gemma-3-270m-q4_k_m.gguf"',
    ),
    Key(
        "sha256",
        "Of the file that a URL in path names. What has another one is not used, and what has this one is never "
        "looked up again.",
        kinds.Sha256(),
        example='"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"',
        apart=True,
    ),
    Key(
        "factory",
        "What makes the object. Called with the options as keyword arguments; in a family with the part "
        "that * matched before them. Required by python.",
        kinds.Attribute(),
        example='"autoquant.strategies:load"',
        only=("python",),
    ),
    Key(
        "tier",
        "resident: loaded at start and always. on-demand: loaded at first use, freed when idle. "
        "transient: freed as soon as its last lease ends.",
        kinds.OneOf(tuple(Tier), made=Tier),
        default='"on-demand"',
    ),
    Key(
        "idle_timeout",
        "As in [daemon], for this model.",
        kinds.Duration(never=True),
        "idle_timeout_s",
        example='"5min"',
    ),
    Key(
        "load_timeout",
        "As in [daemon], for this model.",
        kinds.Duration(never=True),
        "load_timeout_s",
        example='"30s"',
    ),
    Key(
        "device",
        "Where it may be loaded. auto: a GPU if its runtime can use one and it fits, else ram. gpu: any GPU. "
        "A list: no other device than these.",
        compounds.Device(),
        default='"auto"',
    ),
    Key(
        "memory",
        "The most it is expected to need, until it has been measured. Default: by a dry run, by its file, or 256MiB.",
        kinds.Size(),
        "memory_bytes",
        example='"700MiB"',
    ),
    Key(
        "hard_limit",
        "Once it uses much more than it was booked with it is ended as soon as it is idle.",
        kinds.Bool(),
        default="false",
    ),
    Key(
        "beside",
        "Models that it is used with: the GPU that one of them is on is preferred.",
        compounds.Strings(),
        default="[]",
    ),
    Key(
        "uses",
        "Models that its calls call: loaded with it, or, as long as there is no room for all, none of them. "
        "They are kept as long as it is.",
        compounds.Strings(),
        default="[]",
    ),
    Key(
        "park_timeout",
        "How long it stays parked (its process kept, its device memory given back), if its runtime can park; "
        "then it is ended.",
        kinds.Duration(never=True),
        "park_timeout_s",
        '"10min"',
    ),
    Key("pin", "Never evict it. Loads nothing by itself.", kinds.Bool(), default="false"),
    Key(
        "min_residency",
        "Once ready it is not evicted sooner than this (nor before twice its load time).",
        kinds.Duration(),
        "min_residency_s",
        '"0s"',
    ),
    Key(
        "max_wait",
        "A request that waited so long makes the models in its way finish and leave.",
        kinds.Duration(),
        "max_wait_s",
        '"2s"',
    ),
    Key(
        "max_loaded",
        "A family only: how many members are loaded at once. The least recently used leave first.",
        kinds.Count(1, 100_000),
        example="10",
        only=("python",),
    ),
    Key(
        "swap",
        "What happens when a name that meant another version, which is in memory, comes to mean this one. overlap: the "
        "old one answers until this one is loaded and warmed up. stop-first: the old one finishes and leaves first.",
        kinds.OneOf(tuple(Swap), made=Swap),
        default='"overlap"',
    ),
    Key(
        "max_calls",
        "Its process is restarted when it has answered so many calls: when it is next idle, or after max_wait when its "
        "calls have ended. No call fails. For what leaks. Changed, it holds from the next load on.",
        kinds.Count(1, 1_000_000_000),
        example="100000",
    ),
    Key(
        "max_growth",
        "The same when it has grown by so much, on any device, since it was ready.",
        kinds.Size(),
        "max_growth_bytes",
        example='"1GiB"',
    ),
    Key(
        "concurrency",
        "Calls that it answers at once, in as many threads; its code must allow that. llama_cpp answers one at a time, "
        "a service 64 where nothing is said.",
        kinds.Count(1, 1000),
        default="1",
    ),
    Key(
        "replicas",
        "So many workers of it at most. One more is loaded, into what is free, when all that are there are busy; the "
        "least busy one answers, and each leaves after its own idle time. What is said of keeping the model holds for "
        "the first.",
        kinds.Count(1, 64),
        default="1",
    ),
    Key(
        "idempotent",
        "Methods that may be repeated when the connection was lost in the middle.",
        compounds.Strings(),
        default="[]",
    ),
    Key(
        "env",
        "Variables of its process. Never shown again.",
        compounds.Environment(),
        example='{OMP_NUM_THREADS = "2"}',
    ),
    Key(
        "env_file",
        "A file of NAME=value lines, for secrets.",
        kinds.Path(),
        example='"/etc/lazyd/gemma.env"',
    ),
    Key(
        "python",
        "Another interpreter (3.9 or later). Without it lazyd's own.",
        kinds.Program(),
        example='"/opt/tts/venv/bin/python"',
    ),
    Key(
        "python_path",
        "Directories put first on sys.path.",
        compounds.Strings(kinds.Path(), "list of paths"),
        example='["/opt/autoquant"]',
    ),
    Key(
        "imports",
        "Modules that its code imports and that take long. A zygote of its own imports them once, beside what the "
        "runtime needs, and the model's workers are forked from it.",
        compounds.Strings(kinds.Module(), "list of modules"),
        example='["tensorflow"]',
    ),
    Key(
        "trust",
        "Load its file although that runs what its author wrote: a pickle, or an exported program of PyTorch.",
        kinds.Bool(),
        default="false",
    ),
    Key(
        "ram_lock",
        "warm --tier ram locks its files in memory, as far as LimitMEMLOCK lets it, and they are booked. "
        "Without it they are not, and the kernel may drop them.",
        kinds.Bool(),
        default="false",
    ),
    Key(
        "priority",
        "Residents are loaded in this order, the highest first.",
        kinds.Count(-1000, 1000),
        default="0",
    ),
    Key(
        "load_slow_above",
        "A load that takes so many times the usual is slow. Until it has recovered, the model is ready only "
        "after its load and its warm-up.",
        kinds.Factor(),
        default='"3x"',
    ),
    Key("options", "Passed to the runtime, which knows their names.", compounds.Options(), example="{n_ctx = 4096}"),
    Key(
        "warmup",
        "Calls that are made before others may rely on it. When they are changed, that holds from the next load on.",
        WARMUP,
    ),
    Key("prewarm", "When to load it before it is asked for.", PREWARM),
    Key("fallback", "What answers, marked as degraded, when it cannot be had in time.", FALLBACK),
    Key(
        "version_policy",
        "Where its path has ${version} in it: which of the versions that are found are configured. latest: the "
        "highest, and the one before it to go back to.",
        compounds.Versions(),
        example='"latest"',
        apart=True,
    ),
    *services.KEYS,
)

FETCH = (
    Key(
        "disk",
        "What fetched files may hold of the disk that they are on. What was used least recently leaves first, and "
        "never what is in memory.",
        kinds.SizeOrFraction(),
        "fetch_disk",
        '"50%"',
    ),
    Key(
        "revalidate",
        "When a model is loaded, and what was fetched for it was compared longer ago than this with what is there "
        "now, that is done again. never: it is fetched once.",
        kinds.Duration(never=True),
        "revalidate_s",
        '"10min"',
    ),
)

TABLES = ("daemon", "budget", "fetch", "models", "discover", "aliases")

DISCOVER = "Every file that a pattern finds becomes a model, as long as it is there; the keys are those of all of them."
ALIAS = "Another name of a model; or of several, with a weight each, and a shadow that repeats their calls."
OF_THE_FACTORY = "Given to the factory, by this name."
