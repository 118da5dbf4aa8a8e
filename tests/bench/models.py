"""The real models that the figures about loading use."""

from __future__ import annotations

from demo.stage import MODELS

N_CTX = 512
PROMPT = "The capital of France is"
GEMMA = MODELS / "gemma.gguf"

GEMMA_TABLE = f"""
[models.gemma]
runtime = "llama_cpp"
path = "{GEMMA}"
idle_timeout = "never"
[models.gemma.options]
n_ctx = {N_CTX}
"""
