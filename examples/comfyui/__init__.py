"""ComfyUI beside a language model, on one GPU."""
