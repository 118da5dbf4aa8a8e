"""The script that a zygote or a plainly executed worker is started with, by whatever interpreter.

``python boot.py '{"role": "worker", "fd": 5, "host": 4711, "python_path": []}'``. It exposes the
`lazyd` that lies around it and nothing else of lazyd's environment, so that another interpreter
keeps its own site-packages. It is run by its path, never imported.
"""

import json
import os
import sys
from importlib.machinery import PathFinder

_HOME = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class OnlyLazyd:
    """Finds the package `lazyd` beside this script."""

    @staticmethod
    def find_spec(name, path=None, target=None):  # type: ignore[no-untyped-def]
        return PathFinder.find_spec(name, [_HOME], target) if name == "lazyd" and path is None else None


def main() -> None:
    arguments = json.loads(sys.argv[1])
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [*arguments["python_path"], *(entry for entry in sys.path if os.path.abspath(entry) != here)]
    sys.meta_path.insert(0, OnlyLazyd)
    sys.argv = sys.argv[:1]
    if arguments["role"] == "zygote":
        from lazyd.worker import zygote

        imports = arguments.get("imports", ())  # a host that was started before an upgrade names none
        zygote.serve(arguments["fd"], arguments["host"], arguments["runtime"], imports)
    else:
        from lazyd.worker import main as worker

        worker.run(arguments["fd"], arguments["host"])


if __name__ == "__main__":
    main()
