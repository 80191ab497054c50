"""A program that answers as llama-server does, for tests: no model, tokens counted up from the prompt's last one.

The prompt's first token says what goes wrong: see the constants.
"""

from __future__ import annotations

import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

CRASHES, HANGS, REFUSES, BABBLES, FORGETS = range(1001, 1006)
END_TOKEN = 0
EXIT_CODE = 7


class Handler(BaseHTTPRequestHandler):
    loading = True

    def do_GET(self) -> None:
        """The first time as if the model was still being loaded."""
        self._reply(503 if Handler.loading else 200, {"status": "ok"})
        Handler.loading = False

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt, n = asked["prompt"], asked["n_predict"]
        assert asked["temperature"] == 0.0
        assert asked["cache_prompt"] is False
        assert asked["return_tokens"] is True
        if prompt[0] == CRASHES:
            print("GGML_ASSERT(false) failed", file=sys.stderr, flush=True)
            os._exit(EXIT_CODE)
        if prompt[0] == HANGS:
            time.sleep(60)
        if prompt[0] == REFUSES:
            self._reply(400, {"error": "no"})
        elif prompt[0] == BABBLES:
            self._reply(200, {"content": "no timings"})
        else:
            self._answer(prompt, n)

    def _answer(self, prompt: list[int], n: int) -> None:
        """An answer of up to 5 tokens that the model ends by itself."""
        tokens = [prompt[-1] + i for i in range(1, min(n, 5) + 1)]
        if n > 5:
            tokens.append(END_TOKEN)
        timings = {
            "cache_n": 0,
            "prompt_n": 1 if prompt[0] == FORGETS else len(prompt),
            "prompt_ms": 10.0,
            "predicted_n": len(tokens),
            "predicted_ms": 250.0,
        }
        self._reply(200, {"content": "text", "tokens": tokens, "stop_type": "limit", "timings": timings})

    def _reply(self, status: int, fields: dict[str, object]) -> None:
        body = json.dumps(fields).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        return


def main() -> None:
    if "dies" in sys.argv:
        print("error loading model", file=sys.stderr)
        sys.exit(3)
    HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler).serve_forever()


if __name__ == "__main__":
    main()
