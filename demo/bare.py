"""The script that people write without lazyd: import the library, load the model, ask, end.

``python bare.py FILE N_CTX PROMPT MAX_TOKENS`` does so once and prints what it saw, as JSON; the
times are of the machine's monotonic clock. It imports nothing that such a script would not.
"""

import json
import sys
import time

from llama_cpp import Llama

model, n_ctx, prompt, max_tokens = sys.argv[1:]
llama = Llama(model, n_ctx=int(n_ctx), verbose=False)


def ask() -> tuple[str, float, float]:
    """The answer, when its first piece came, and when the last."""
    pieces: list[str] = []
    first = 0.0
    chunks = llama.create_completion(prompt, max_tokens=int(max_tokens), temperature=0.0, stream=True)
    for chunk in chunks:
        pieces.append(chunk["choices"][0]["text"])  # type: ignore[index]
        first = first or time.monotonic()
    return "".join(pieces), first, time.monotonic()


text, first_at, answer_at = ask()
with open("/proc/self/statm") as statm:
    resident_pages = int(statm.read().split()[1])
*_, again_at = ask()
print(
    json.dumps(
        {
            "text": text,
            "first_token_at": first_at,
            "answer_at": answer_at,
            "again_s": again_at - answer_at,
            "resident_pages": resident_pages,
        }
    )
)
