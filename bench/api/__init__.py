"""The names that the author of a plugin imports: see `bench.api.plugin`, and of runtimes `bench.api.runtime`."""

from bench.api.mixture import Part as Part
from bench.api.plugin import UNKNOWN as UNKNOWN
from bench.api.plugin import Arrays as Arrays
from bench.api.plugin import Exporter as Exporter
from bench.api.plugin import Info as Info
from bench.api.plugin import Outputs as Outputs
from bench.api.plugin import Plugin as Plugin
from bench.api.plugin import Points as Points
from bench.api.plugin import Samples as Samples
from bench.api.plugin import Task as Task
from bench.api.plugin import TensorSpec as TensorSpec
from bench.api.plugin import Variant as Variant
from bench.api.runtime import NodeTime as NodeTime
from bench.api.runtime import Runtime as Runtime
from bench.api.runtime import Session as Session
