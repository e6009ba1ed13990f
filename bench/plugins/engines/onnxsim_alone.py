"""Imported before onnxsim: the package, imported without PyTorch and SymPy, which take it 1.5 s to import.

Its quantizers use PyTorch and its table of a model uses SymPy; `simplify` uses neither. Both may be imported later.
"""

import importlib.util
import sys

UNUSED = ("torch", "sympy")

_hidden = [name for name in UNUSED if name not in sys.modules]
sys.modules.update(dict.fromkeys(_hidden))  # type: ignore[arg-type]
try:  # an import of these fails now as if they were not installed
    if importlib.util.find_spec("onnxsim"):
        import onnxsim as onnxsim
finally:
    for _name in _hidden:
        del sys.modules[_name]
