"""Imported before OpenVINO: keeps its telemetry off, which sends events at the import and at each conversion.

The only switch is a file in the user's home; without the package `openvino_telemetry` neither OpenVINO nor NNCF sends
anything. Its import would start a thread, too, after which the process could not be forked.
"""

import sys

sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
