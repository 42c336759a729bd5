"""Attention computed step by step, and compared with yours: a library over the program attn.

    import attn

    report = attn.check(model, x)           # a PyTorch module that attn run knows: where does it first go wrong?
    print(report)

    trace = attn.run("encoder-layer", layer, x=x, heads=2)
    trace["self_attn.head.0.weights"]       # an array; every step has a name
    trace.explain("self_attn.head.0.weights[2,1]")
    trace.diff({"scores": scores, "out": out}).first_wrong

    attn.check_port("my-model", ids, logits)        # a port of a published model, from its last logits

    attn.exercise("06_multi_head", my_merged_heads)     # is the exercise of lesson 6 right?

It needs NumPy, and the program attn: on PATH, named by the environment's ATTN, or built in the checkout that this package is in.
Tensors of PyTorch, JAX and TensorFlow are taken where NumPy's arrays are; none of these is imported. docs/python.md has the rest.
"""

from attn_record import to as record

from .calls import CallsReport, check_calls
from .calls_schedules import Call, Calls, Row, Schedule
from .checking import check
from .comparison import Comparison, Growth, Pair, Side, compare
from .exercises import exercise
from .formats import read_dump
from .functions import check_function
from .port import PortReport, check_port
from .program import Error
from .report import Mistake, Place, Report, Window
from .trace import Page, Picture, Step, Trace, Verified, load, pitfalls, run

__all__ = ["Call", "Calls", "CallsReport", "Comparison", "Error", "Growth", "Mistake", "Page", "Pair", "Picture", "Place", "Report", "Row", "Schedule", "Side",
           "Step", "Trace", "Verified", "Window", "check", "check_calls", "check_function", "check_port", "compare", "exercise", "load", "pitfalls", "read_dump", "record", "run"]
