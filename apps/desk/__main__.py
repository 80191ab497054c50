"""`python -m apps.desk [MODEL]`: the window from a checkout, without the command line's options."""

from __future__ import annotations

import argparse
import os
import sys

from edgespec import EdgeSpecError, EngineOptions

from .start import start


def main() -> int:
    parser = argparse.ArgumentParser(prog="desk", description="Chat with a local model in a window.")
    parser.add_argument("model", nargs="?", help="a GGUF file, a name from 'edgespec models', or hf:user/repo[:quant]")
    parser.add_argument("--threads", type=int, help="threads the model runs on; one per core if not given")
    is_offline = os.environ.get("EDGESPEC_OFFLINE", "").lower() not in ("", "0", "false", "no", "off")
    parser.add_argument("--offline", action="store_true", default=is_offline, help="use no network at all")
    given = parser.parse_args()
    try:
        return start(given.model, EngineOptions(threads=given.threads), None, given.offline)
    except EdgeSpecError as error:
        print(f"Error: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
