"""The page that `bench pick` writes: it runs a model without this project, from a folder that a web server has."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from bench.api import npm
from bench.api.errors import InputError

_HTML = """\
<!doctype html>
<meta charset="utf-8">
<title>{title}</title>
<p id="state">loading</p>
<script type="module">
  const state = document.getElementById('state');
  try {{
    const {{ predict }} = await import('./run.mjs'); // outputs = await predict(feeds), arrays by name
    globalThis.predict = predict;
    state.textContent = 'ready';
  }} catch (error) {{
    state.textContent = `failed: ${{error.message}}`;
  }}
</script>
"""
_ORT = """\
// Runs {artifact}: predict({{name: {{dtype, shape, values}}}}) gives outputs in the same form.
import * as ort from './packages/{bundle}';

ort.env.wasm.numThreads = {threads}; // more than 1 takes the headers that serve.py sends
ort.env.wasm.wasmPaths = new URL('./packages/', import.meta.url).href;
const session = await ort.InferenceSession.create('{artifact}', {{ executionProviders: ['{provider}'] }});

export async function predict(feeds) {{
  const tensors = {{}};
  for (const [name, {{ dtype, shape, values }}] of Object.entries(feeds)) {{
    tensors[name] = new ort.Tensor(dtype, values, shape);
  }}
  const outputs = await session.run(tensors, {outputs});
  return Object.fromEntries(Object.entries(outputs).map(([name, {{ type, dims, data }}]) => [
    name, {{ dtype: type, shape: dims, values: data }},
  ]));
}}
"""
_SERVE = '''\
"""Serves this folder at http://127.0.0.1:8000/run.html, with the headers that threads of WebAssembly need."""

import http.server
import pathlib

FOLDER = pathlib.Path(__file__).resolve().parent


class Handler(http.server.SimpleHTTPRequestHandler):
    extensions_map = {**http.server.SimpleHTTPRequestHandler.extensions_map, ".mjs": "text/javascript"}

    def __init__(self, *arguments):
        super().__init__(*arguments, directory=str(FOLDER))

    def end_headers(self):
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()


if __name__ == "__main__":
    http.server.ThreadingHTTPServer(("127.0.0.1", 8000), Handler).serve_forever()
'''


def of_ort(artifact: str, outputs: Sequence[str], *, provider: str, threads: int, title: str) -> dict[str, str | Path]:
    """By path, the files of a page that runs an ONNX file by onnxruntime-web, with the packages as measured.

    Raises:
        InputError: the packages are not installed.
    """
    if npm.version("onnxruntime-web") is None:
        raise InputError("onnxruntime-web is not installed, of which the page has a copy", fix="`bench install npm`")
    dist = npm.folder() / "node_modules" / "onnxruntime-web" / "dist"
    kind = ".asyncify" if provider == "webgpu" else ""
    bundle = f"ort.{provider}.min.mjs"
    names = (bundle, f"ort-wasm-simd-threaded{kind}.mjs", f"ort-wasm-simd-threaded{kind}.wasm")
    script = _ORT.format(
        artifact=artifact,
        bundle=bundle,
        provider=provider,
        threads=threads,
        outputs=json.dumps([str(name) for name in outputs]),
    )
    return {
        "run.html": _HTML.format(title=title),
        "run.mjs": script,
        "serve.py": _SERVE,
        **{f"packages/{name}": dist / name for name in names},
    }
