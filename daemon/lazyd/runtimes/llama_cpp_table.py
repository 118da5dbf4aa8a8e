"""The options of llama.cpp's models: the arguments of ``llama_cpp.Llama`` that are plain data, and ours.

At a load the library itself is asked which it has; this table is for who checks a file without it.
"""

from __future__ import annotations

from typing import Any

from .checked import wrong
from .option_tables import NUMBER, SWITCH, TEXT, Kind, Option, list_of, table_of, whole_number


def _plain(name: str, value: Any) -> Any:
    if not isinstance(value, (bool, int, float, str)):
        raise wrong(name, "a number, a text, true or false", value)
    return value


def _numa(name: str, value: Any) -> Any:
    if not isinstance(value, int):
        raise wrong(name, "true, false, or a whole number", value)
    return value


_ANY = whole_number()
_THREADS = whole_number(1)

OPTIONS = (
    Option("n_ctx", whole_number(0), "Tokens of the context. 0: as many as the model was made for.", "4096, or fewer"),
    Option("n_batch", whole_number(1), "Tokens of a prompt that are computed at once.", "512"),
    Option("n_ubatch", whole_number(1), "Tokens that are computed in one step; more need more memory.", "512"),
    Option("n_gpu_layers", _ANY, "The most layers that are tried on a GPU. -1: all.", "-1"),
    Option(
        "main_gpu", whole_number(0), "0: a model sees only the GPU that it is placed on; device names another.", "0"
    ),
    Option("split_mode", whole_number(0), "lazyd's to say: it divides a model over GPUs as there is room.", "1"),
    Option("tensor_split", list_of(NUMBER, "list of numbers"), "lazyd's to say, as split_mode."),
    Option("use_mmap", SWITCH, "Weights in RAM are pages of the file, which the kernel may drop.", "true"),
    Option("use_mlock", SWITCH, "Weights are locked in RAM. Needs use_mmap = false; or use ram_lock.", "false"),
    Option("vocab_only", SWITCH, "Only the vocabulary is loaded: for tokenize.", "false"),
    Option("kv_overrides", table_of(Kind("value", _plain), "table"), "Keys of the file that are read otherwise."),
    Option("seed", _ANY, "Of the random choice of tokens.", "4294967295: another one each time"),
    Option("n_threads", _THREADS, "Threads that compute one token."),
    Option("n_threads_batch", _THREADS, "Threads that compute a prompt."),
    Option(
        "rope_scaling_type", _ANY, "How positions are scaled, as llama.cpp numbers it. -1: as the model has it.", "-1"
    ),
    Option(
        "pooling_type",
        _ANY,
        "How vectors of tokens become one, as llama.cpp numbers it. -1: as the model has it.",
        "-1",
    ),
    Option("attention_type", _ANY, "Causal or not, as llama.cpp numbers it. -1: as the model has it.", "-1"),
    Option("rope_freq_base", NUMBER, "Base frequency of positions. 0: as the model has it.", "0.0"),
    Option("rope_freq_scale", NUMBER, "Scale of the frequencies of positions. 0: as the model has it.", "0.0"),
    Option("yarn_ext_factor", NUMBER, "YaRN: how much is extrapolated. -1: as the model has it.", "-1.0"),
    Option("yarn_attn_factor", NUMBER, "YaRN: scale of the attention.", "1.0"),
    Option("yarn_beta_fast", NUMBER, "YaRN: low correction dimension.", "32.0"),
    Option("yarn_beta_slow", NUMBER, "YaRN: high correction dimension.", "1.0"),
    Option("yarn_orig_ctx", whole_number(0), "YaRN: the context of the training. 0: as the model has it.", "0"),
    Option(
        "logits_all", SWITCH, "Scores of every token are kept, not of the last alone; needs memory for them.", "false"
    ),
    Option("embedding", SWITCH, "Memory for embedding is booked and taken at the load.", "false"),
    Option("offload_kqv", SWITCH, "The cache of a layer on a GPU lies there too.", "true"),
    Option("flash_attn", SWITCH, "Attention is computed without a matrix of all scores.", "false"),
    Option("op_offload", SWITCH, "Operations on the host's tensors are given to the GPU, too."),
    Option("swa_full", SWITCH, "The cache of layers with a sliding window is as long as the context."),
    Option("no_perf", SWITCH, "llama.cpp takes no times of its own.", "false"),
    Option("last_n_tokens_size", whole_number(0), "Tokens that are looked back at for repetitions.", "64"),
    Option("lora_base", TEXT, "The model that the adapter in lora_path was made for."),
    Option("lora_path", TEXT, "A file with an adapter (LoRA); the model is not mapped then."),
    Option("lora_scale", NUMBER, "How much of the adapter is used.", "1.0"),
    Option("numa", Kind("true, false, or a whole number", _numa), "How memory is spread over NUMA nodes.", "false"),
    Option("chat_format", TEXT, "The form of a conversation, by its name in llama-cpp-python.", "the model's own"),
    Option("type_k", whole_number(0), "ggml's number of the type of the cache's keys.", "1: f16"),
    Option("type_v", whole_number(0), "ggml's number of the type of the cache's values.", "1: f16"),
    Option("spm_infill", SWITCH, "Infilling asks in the order suffix, prefix, middle.", "false"),
    Option(
        "verbose", SWITCH, "Nothing is done with it: what llama.cpp says of errors is in the log in any case.", "false"
    ),
)
