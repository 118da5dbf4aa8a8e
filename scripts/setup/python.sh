# shellcheck shell=bash
# Sourced by packages and venv.

# Prints the path of a Python that is new enough and can make environments; nothing if there is none.
find_python() {
    local name
    for name in ${PYTHON:-python3.11 python3.12 python3.13 python3.14 python3}; do
        "$name" -c '
import ensurepip, sys, venv
if sys.version_info < (3, 11):
    sys.exit(1)
print(sys.executable)' 2>/dev/null && return
    done
    true
}
