"""From a function of one's own to a verdict, on inputs that tell mistakes apart."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from attn_record.tensors import kind_of

import attn_record

from .arrays import array_of
from .calls import CallsReport
from .calls_attention import AttentionCalls, check_calls_of, in_two_calls
from .calls_schedules import EPSILONS
from .inputs import FIRST, GROUPS, MASKED_FIRST, MEMORY, OTHER_WIDTH, SHAPE, Case, cases, draw, draw_mask, drawn_type, fitted, shape_text
from .program import Error, OwnFolder
from .report import Report, report_of
from .trace import Array, Trace, run, with_step

SENSES = {"mask": lambda allowed, _: allowed, "hidden": lambda allowed, _: ~allowed, "bias": lambda allowed, bias: np.where(allowed, bias, -np.inf)}
OPTIONS = ("scale", "softcap", "left_window", "right_window", "kept")  # flags of attn run attention that say what a function computes
EMPTY = "a query that can attend to nothing"
MOST_DIAGNOSED = 5  # inputs that show something wrong, in the search for one that leaves one mistake


def check_function(function: Callable[..., Any], what: str, *, causal: bool | str = False, mask: str | None = None, hidden: str | None = None,
                   bias: str | None = None, mask_axes: str | None = None, axes: int | None = None, layout: str | None = None,
                   kv_heads: int | None = None, groups: bool = True, like: Callable[[Array], Any] | str | None = None, dtype: str | None = None,
                   sinks: str | None = None, lse: bool = False, max_tokens: int | None = None, backward: Callable[[Any], Any] | None = None, seed: int = 0,
                   cache: Any = None, **options: Any) -> Report | CallsReport:
    """Calls function(queries, keys, values) with inputs that tell mistakes apart, and says which it makes, on the first that shows it.

    Its own tensors are recorded, so that the report names file and line. Where an input leaves several mistakes possible, the
    report is about a later one that leaves one of them. Where all is right, report.case says at which sizes it looked.

    function   a function, or a module of PyTorch. Of several results the first is the output; another one is the weights, or see lse
    what       "attention": attn run attention is what it should compute
    causal     no query attends to a later key; True where the last query stands at the last key, as a cache needs it, and
               "top-left" where the first query stands at the first key, as is_causal of PyTorch and JAX has it
    mask       the name of its argument that is true where a query can attend
    hidden     instead: of its argument that is true where a query can't attend
    bias       instead: of its argument that is added to the scaled scores, minus infinity where a query can't attend
    mask_axes  the axes of this argument: "nm", "bm", "b1nm"; unless given, all that it takes are tried
    axes       2 for (n, d), 3 for a batch (b, n, d), 4 for heads, (b, h, n, d)
    layout     instead: the axes of its arguments, in order: "bnhd"
    kv_heads   keys and values have so many heads, which those of the queries share; unless given, fewer are tried, and may be refused
    groups     False where keys have as many heads as queries
    like       makes its arguments of NumPy's arrays: "torch", "jax" or a function, torch.from_numpy
    dtype      of the arguments: "float64", "float32", "float16" or "bfloat16"
    sinks      the name of its argument that has one more score for each head, whose weight is dropped
    lse        its second result is log(sum(exp(scores))) of each query
    max_tokens it takes no more queries, and no more keys
    backward   the loss of what it returns, in PyTorch or JAX: the gradients of queries, keys and values are compared, too
    cache      it is called as function(queries, keys, values, cache), with those of the tokens of this call and what the last call returned, and
               returns the output and the cache; causal. True where the first call gets None, or a function of the batch that makes a new one,
               or an object that has start(batch), and reorder(), fork(), truncate(), join() as far as it can: see Calls. The answer is a
               CallsReport, or, where one prompt is wrong without any mistake with a cache, a Report
    options    flags of attn run attention that say what it should compute: scale=1, softcap=50
    raises     Error where it fails, or returns something else, with the sizes that it was called with
    """
    if what != "attention":
        raise Error(f'"{what}" can\'t be checked as a function, only "attention": a module has weights, see run() and Trace.diff()')
    if causal not in (False, True, "top-left"):
        raise Error(f'causal is {causal!r}, expected True or "top-left"')
    unknown = [name for name in options if name not in OPTIONS]
    if unknown:
        raise Error(f"{unknown[0]} is not expected: what a function should compute is said by {', '.join(OPTIONS)}, and by the arguments of check_function()")
    if kv_heads is not None and kv_heads < 1:
        raise Error(f"kv_heads is {kv_heads}, expected how many heads keys and values have, 1 or more")
    if not groups and kv_heads is not None:
        raise Error("groups=False and kv_heads contradict each other: expected one of them")
    if max_tokens is not None and max_tokens < 9:
        raise Error(f"max_tokens is {max_tokens}, expected 9 or more")
    if lse and sinks:
        raise Error("lse=True with sinks can't be checked: some count the sink in the sum, some don't")
    senses = [(sense, name) for sense, name in (("mask", mask), ("hidden", hidden), ("bias", bias)) if name is not None]
    if len(senses) > 1:
        raise Error(f"{senses[0][0]} and {senses[1][0]} are two ways to say what hides keys: expected one of them")
    if mask_axes is not None and not senses:
        raise Error("mask_axes has no effect without mask, hidden or bias")
    letters = axes_of(axes, layout)
    if kv_heads is not None and "h" not in letters:
        raise Error(f"kv_heads has no effect: {shape_text(letters)} has no heads; say axes=4 or layout=\"bnhd\"")
    form = Form(letters, {False: None, True: "causal", "top-left": "causal-top-left"}[causal], *(senses or [(None, None)])[0], sinks, lse, kv_heads, groups, max_tokens,
                *maker(like or ("torch" if hasattr(function, "state_dict") else "numpy"), dtype), options)
    for name in (form.name, sinks):
        if name is not None:
            expect_argument(function, name)
    if cache is not None and cache is not False:
        return check_with_cache(function, form, cache, mask_axes, backward, seed)
    return Check(function, form, np.random.default_rng(seed)).verdict(mask_axes, backward)


def check_with_cache(function: Callable[..., Any], form: Form, cache: Any, mask_axes: str | None, backward: Any, seed: int) -> Report | CallsReport:
    """The same tokens in several calls; and, where these have nothing to say, one call of them on all inputs."""
    refused = {"sinks": form.sinks, "lse": form.lse, "backward": backward, "right_window": form.options.get("right_window"), 'causal="top-left"': form.causal == "causal-top-left"}
    for name, given in refused.items():
        if given is not None and given is not False:
            raise Error(f"{name} can't be checked with a cache: check one call, attn.check(lambda *given: f(*given, None)[0], \"attention\", …)")
    for name, given in form.options.items():
        kinds = int if name in ("left_window", "kept") else (int, float)
        if given is not None and (not isinstance(given, kinds) or isinstance(given, bool) or name != "scale" and given < 0):
            raise Error(f"{name} is {given!r}, expected a {'whole ' * (kinds is int)}number")
    form = replace(form, has_cache=True, causal="causal")
    if cache is not True and not callable(getattr(cache, "start", cache)):
        raise Error(f"cache is of the type {type(cache).__name__}, expected True where the first call gets None, a function of the batch that makes one, "
                    "or an object that has start(batch)")
    parameters = parameters_of(function) or {}
    needs_mask = form.name in parameters and parameters[form.name or ""].default is inspect.Parameter.empty
    alone = Check(in_two_calls(AttentionCalls(function, form, cache, None, needs_mask, seed)), form, np.random.default_rng(seed))
    shapes = alone.shapes_taken(mask_axes) if form.name else []
    calls = AttentionCalls(function, form, cache, next((one for one in shapes if "b" in one), next(iter(shapes), None)), needs_mask, seed)
    report = check_calls_of(calls, form.max_tokens, seed)
    if report.verdict == "undecided" or report.first_wrong and report.first_wrong.schedule not in ("whole", "asked again"):
        return report
    if calls.cache_type:
        report.left_out["other inputs"] = f"a cache of {calls.cache_type} rounds"
        return report
    try:
        one = alone.verdict(mask_axes, None)
    except Error:
        if report:
            raise
        return report  # such as of a cache whose sizes are another request's
    if one or report.mistakes:
        report.add(one)
    return report if one or report.mistakes else one


def axes_of(axes: int | None, layout: str | None) -> str:
    if axes is not None and layout is not None:
        raise Error("axes and layout say the same: expected one of them")
    if layout is None:
        if axes not in (None, 2, 3, 4):
            raise Error(f"axes is {axes}, expected 2, 3 or 4")
        return {2: "nd", 3: "bnd", 4: "bhnd"}[axes or 2]
    if len(set(layout)) != len(layout) or not set("nd") <= set(layout) <= set("bhnd"):
        raise Error(f'layout is {layout!r}, expected the letters of "bhnd" in the order of the axes, of which b and h can be left out: "bnhd"')
    return layout


def maker(like: Callable[[Array], Any] | str, dtype: str | None) -> tuple[Callable[[Array], Any], str]:
    """What makes arguments of NumPy's arrays, and the type that they have."""
    if dtype not in (None, *EPSILONS):
        raise Error(f"dtype is {dtype!r}, expected one of {', '.join(EPSILONS)}")
    if isinstance(like, str) and like not in ("numpy", "torch", "jax"):
        raise Error(f'like is "{like}", expected "numpy", "torch", "jax", or a function that makes an argument of a NumPy array')
    if like == "numpy" and dtype == "bfloat16":
        raise Error('NumPy has no bfloat16: say like="torch" or like="jax"')
    if isinstance(like, str) and like != "numpy":
        try:
            library = importlib.import_module({"torch": "torch", "jax": "jax.numpy"}[like])
        except ImportError:
            raise Error(f'like="{like}" needs {like}, which this Python does not have') from None
    make = like if callable(like) else {"numpy": np.asarray, "torch": lambda array: library.from_numpy(array), "jax": lambda array: library.asarray(array)}[like]
    to_bfloat16 = None if callable(like) or dtype != "bfloat16" else (lambda tensor: tensor.to(library.bfloat16) if like == "torch" else tensor.astype(library.bfloat16))

    def made(array: Array) -> Any:
        tensor = make(array)
        return to_bfloat16(tensor) if to_bfloat16 and array.dtype.kind == "f" else tensor

    asked = dtype or "float64"
    found = type_of(made(np.ones((2, 2), drawn_type(asked))))
    if found not in EPSILONS or dtype not in (None, found):
        raise Error(f"like makes {found} of an array, expected {asked}: let it convert, like=lambda array: torch.from_numpy(array).to(torch.{asked})" +
                    ("; JAX has float64 after jax.config.update(\"jax_enable_x64\", True)" if asked == "float64" else ""))
    return made, found


def type_of(value: Any) -> str:
    kind = kind_of(value)
    return kind.numbers(value)[1] if kind else np.asarray(value).dtype.name


def expect_argument(function: Callable[..., Any], name: str) -> None:
    parameters = parameters_of(function)
    if parameters is None or name in parameters or any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
        return
    raise Error(f"it has no argument {name}: its arguments are {', '.join(parameters)}")


def parameters_of(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter] | None:
    """None where Python can't tell, as for functions that are written in C."""
    try:
        return inspect.signature(getattr(function, "forward", function)).parameters
    except (TypeError, ValueError):
        return None


@dataclass(frozen=True)
class Form:
    """How a function is called, and what it should compute."""

    axes: str  # of its arguments: "bnhd"
    causal: str | None  # as attn run has it
    sense: str | None  # a row of SENSES
    name: str | None  # of the argument that hides keys
    sinks: str | None
    lse: bool
    kv_heads: int | None
    has_groups: bool
    max_tokens: int | None
    make: Callable[[Array], Any]
    dtype: str  # that the arguments have
    options: Mapping[str, Any]
    has_cache: bool = False

    def hiding(self, allowed: Array, added: Array) -> Array:
        """What hides keys, as its argument has it."""
        return SENSES[self.sense or "mask"](allowed, added)

    def outwards(self, array: Array, memory: str | None = None) -> Array:
        """(b, h, n, d) with the axes of the arguments."""
        array = array[tuple(slice(None) if axis in self.axes else 0 for axis in "bhnd")]
        order = [axis for axis in "bhnd" if axis in self.axes]
        array = array.transpose([order.index(axis) for axis in self.axes]).copy(order="C")
        if memory in ("transposed", "column-major"):
            i, k = (self.axes.index(axis) for axis in ("nh" if "h" in self.axes and memory == "transposed" else "nd"))
            array = np.ascontiguousarray(array.swapaxes(i, k)).swapaxes(i, k)
        elif memory == "sliced":
            wide = np.full((*array.shape[:-1], array.shape[-1] + 5), 7, array.dtype)
            wide[..., 2:-3] = array
            array = wide[..., 2:-3]
        return array

    def inwards(self, array: Array, axes: str | None = None) -> Array:
        """Of the axes of the arguments as attn run has them: in the order of "bhnd", heads in a batch."""
        axes = axes or self.axes
        array = array.transpose([axes.index(axis) for axis in "bhnd" if axis in axes])
        return array[None] if "h" in axes and "b" not in axes else array

    def mask_inwards(self, array: Array, axes: str) -> Array:
        letters = iter(axes.replace("1", ""))
        sizes = dict(zip(letters, (size for size, axis in zip(array.shape, axes) if axis != "1")))
        return array.reshape([sizes.get(axis, 1) for axis in "bhnm" if axis in self.axes + "m"])

    def mask_shapes(self) -> list[str]:
        """Those that a function with these arguments can have for its mask."""
        if self.sense is None:
            return []
        return ["nm"] + {"b": ["bnm", "b1m", "bm"], "h": ["hnm"], "bh": ["b1nm", "b11m", "bhnm", "bm"], "": []}["".join(sorted(set("bh") & set(self.axes)))] + ["m"]


class Trial:
    """An input, the right result, and what the function makes of it."""

    def __init__(self, case: Case, form: Form, random: np.random.Generator):
        self.case, self.form, self.random = case, form, random
        dtype = drawn_type(form.dtype)
        self.drawn = {name: array.astype(dtype) for name, array in draw(case, random).items()}
        self.named: dict[str, Array] = {}
        inputs: dict[str, Any] = {name: form.inwards(array_of(name, form.make(form.outwards(array)))) for name, array in self.drawn.items()}
        mask = None
        if case.mask:
            allowed = draw_mask(case, random, form.causal)
            mask = form.mask_inwards(allowed, case.mask_axes)
            added = random.standard_normal(allowed.shape).astype(dtype)
            self.named[form.name or ""] = form.hiding(allowed, added)
            if form.sense == "bias":
                inputs["bias"] = full(form.mask_inwards(array_of("bias", form.make(added)), case.mask_axes), inputs)
            mask = full(mask, inputs)
        if form.sinks:
            self.named[form.sinks] = 2 * random.standard_normal(case.heads[0]).astype(dtype)
            inputs["sinks"] = array_of(form.sinks, form.make(self.named[form.sinks]))
        self.inputs, self.mask = inputs, mask

    def text(self) -> str:
        return self.case.text(self.form.axes)

    def reference(self) -> Trace:
        """Computed at the first call."""
        if not hasattr(self, "_reference"):
            hides = {} if self.mask is None and self.form.causal is None else {"mask": self.form.causal if self.mask is None else (self.mask, self.form.causal)}
            trace = run("attention", **self.inputs, **self.form.options, **hides)
            if self.form.lse:
                scores = trace.steps["weights"].formula[len("softmax("):-1]
                array = trace[scores]
                with np.errstate(all="ignore"):
                    largest = array.max(-1, keepdims=True)
                    lse = (largest + np.log(np.exp(array - largest).sum(-1, keepdims=True)))[..., 0]
                trace = with_step(trace, "lse", f"max({scores}, axis=-1) + log(sum(exp({scores} - max({scores}, axis=-1, keepdims=True)), axis=-1))", lse)
            self._reference = trace
            self.is_empty = (trace["masked"] == -np.inf).all(-1) if "masked" in trace else np.zeros(trace["weights"].shape[:-1], bool)
        return self._reference

    def arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """Made anew, since a function can change them."""
        form = self.form
        return [form.make(form.outwards(array, self.case.memory)) for array in self.drawn.values()], {name: form.make(array.copy()) for name, array in self.named.items()}

    def results(self, returned: Any) -> dict[str, Array]:
        """By the steps that they are, with the axes of the reference. raises Error where they are others than were expected"""
        form, trace = self.form, self.reference()
        parts = [one for one in returned if one is not None] if isinstance(returned, (tuple, list)) else [returned]
        if not parts or any(kind_of(one) is None and not hasattr(one, "shape") for one in parts):
            raise Error(f"it returned {'nothing' if not parts or returned is None else type(returned).__name__}, expected an array, with {self.text()}")
        arrays = [array_of("the result", one) for one in parts]
        if len(arrays) > 2 or form.lse and len(arrays) != 2:
            raise Error(f"it returned {len(arrays)} array{'s' * (len(arrays) != 1)}, expected " + ("the output and the log-sum-exp, as lse=True says" if form.lse else
                        "the output, or the output and the weights") + ": check lambda *given: f(*given)[0]")
        expected = form.outwards(np.empty((self.case.batch, self.case.heads[0], self.case.n, self.case.d_v or self.case.d))).shape
        if arrays[0].shape != expected:
            what = "an empty array" if arrays[0].size == 0 else "an array"
            raise Error(f"it returned {what} {arrays[0].shape}, expected {expected}, {shape_text(form.axes)}, with {self.text()}")
        found = {"output": form.inwards(arrays[0])}
        if len(arrays) == 2:
            step = "lse" if form.lse else "weights"
            right = trace[step].shape
            without_features = form.axes.replace("d", "")
            second = arrays[1]
            if second.shape not in (right, right[1:] if "b" not in form.axes and "h" in form.axes else right):
                inwards = form.inwards(second, without_features) if form.lse and second.ndim == len(without_features) else second
                if inwards.shape != right:
                    raise Error(f"its second result is an array {second.shape}, expected {right}, " + ("the log-sum-exp of each query" if form.lse else
                                "the weights; where it is the log-sum-exp, say lse=True; where it is something else, check lambda *given: f(*given)[0]") +
                                f", with {self.text()}")
                second = inwards
            found[step] = second.reshape(right)
        return found

    def type_of(self, returned: Any) -> str:
        """The coarsest of that of the arguments, and of the result."""
        result = returned[0] if isinstance(returned, (tuple, list)) else returned
        array = array_of("the result", result)
        found = type_of(result)
        if found == "float64" and self.form.dtype == "float64":
            with np.errstate(all="ignore"):
                narrow = array.astype(np.float32)
                if np.array_equal(narrow, array, equal_nan=True) and not np.array_equal(array.astype(np.float16), array, equal_nan=True):
                    found = "float32"
        return max((found if found in EPSILONS else "float64", self.form.dtype), key=lambda name: EPSILONS[name])

    def are_right(self, results: Mapping[str, Array], dtype: str) -> bool:
        """True where they are as near as roundings of their type leave them; false says only that attn diff has to decide."""
        trace, rows = self.reference(), ~self.is_empty
        weights, values, output = trace["weights"], trace["values"], trace["output"]
        size = abs(trace["queries"]) @ np.swapaxes(abs(trace["keys"]), -1, -2) * abs(float(self.form.options.get("scale") or self.case.d ** -0.5))
        if "bias" in trace:
            size = size + abs(trace["bias"])
        eps = EPSILONS[dtype]
        shift = np.minimum(abs((weights * trace["scaled"]).sum(-1, keepdims=True)), 0.25 / eps)  # of exp(score - lse), where lse is rounded
        terms = 2 + 0.5 * self.case.d ** 0.5, 4 + 0.5 * self.case.m ** 0.5 + shift
        apart = abs(values[..., None, :, :] - output[..., :, None, :])  # how much a change of a weight moves the output
        bounds = {"output": eps * (terms[0] * np.einsum("...nm,...nmv->...nv", weights * size, apart) + terms[1] * (weights @ abs(values)))}
        bounds["weights"] = eps * weights * (terms[0] * (size + (weights * size).sum(-1, keepdims=True)) + terms[1]) + np.finfo(np.float32).tiny
        if "lse" in results:
            bounds["lse"] = eps * (terms[0] * (weights * size).sum(-1) + terms[1][..., 0] + abs(trace["lse"]))
        with np.errstate(all="ignore"):
            return all((abs(array - trace[name]) <= bounds[name])[rows].all() for name, array in results.items())

    def call(self, function: Callable[..., Any], arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        try:
            with np.errstate(all="ignore"):
                return function(*arguments, **named)
        except (Exception, SystemExit) as error:
            raise Error(f"it fails with {self.text()}: {type(error).__name__}: {error}") from error

    def convention(self, output: Array) -> str:
        """What it gives where a query can attend to nothing, on which libraries differ."""
        mean = self.reference()["values"].mean(-2, keepdims=True)
        found = output[self.is_empty]
        if np.isnan(found).all() or not found.any():
            return "NaN" if found.any() else "zeros"
        return "the mean of all values" if np.allclose(found, (0 * output + mean)[self.is_empty], rtol=0.01, atol=0.01) else "other numbers"

    def diagnosed(self, function: Callable[..., Any], results: Mapping[str, Array], dtype: str) -> Report:
        """What attn diff says of a call that is recorded; of these results alone where that call gives others."""
        report = None if self.is_empty.any() else self.recorded(function, results, dtype)
        if report is None:  # where a query can attend to nothing, attn has a convention of its own
            rows = {name: self.is_empty.reshape(self.is_empty.shape + (1,) * (array.ndim - self.is_empty.ndim)) for name, array in results.items()}
            alone = {name: np.where(rows[name], self.reference()[name], array) for name, array in results.items()}
            report = self.reference().diff(alone, **({} if self.form.dtype == "float64" else {"type": dtype}))
        report.case = self.text()
        return report

    def recorded(self, function: Callable[..., Any], results: Mapping[str, Array], dtype: str) -> Report | None:
        folder = OwnFolder()
        path = Path(folder.name, "mine.npz")
        arguments, named = self.arguments()
        with attn_record.to(str(path), quiet=True, results=[]):  # which recorded_name() finds
            returned = self.call(function, arguments, named)
        found, own = self.results(returned), self.type_of(returned)
        if self.are_right(found, own) != self.are_right(results, dtype):
            return None
        parts = [one for one in returned if one is not None] if isinstance(returned, (tuple, list)) else [returned]
        names = {step: recorded_name(path, one) for step, one in zip(results, parts)}
        is_mapped = self.form.axes in ("nd", "bnd", "bhnd")  # attn diff finds axes in another order, and calls them wrong where they are mapped
        if not all(names.values()):
            return None
        maps = [word for step, name in names.items() for word in ("--map", f"{name}={step}")] if is_mapped else []
        report = report_of(self.reference().path, path, *maps, *([] if self.form.dtype == "float64" else ["--type", dtype]), keeps=[self.reference(), folder])
        return report if is_mapped or bool(report) == self.are_right(found, own) else None


def full(mask: Array, inputs: Mapping[str, Array]) -> Array:
    """With all axes of the scores."""
    return np.broadcast_to(mask, (*inputs["queries"].shape[:-1], inputs["keys"].shape[-2])).copy()


def recorded_name(path: Path, output: Any) -> str | None:
    """What the result is called in the recording: the last array that is the same."""
    result = array_of("the result", output)
    with np.load(path) as file:
        names = [name for name in file.files if not name.endswith(".json")]
        return next((name for name in reversed(names) if np.array_equal(file[name], result, equal_nan=True)), None)


class Check:
    """The trials of a function, and what they showed."""

    def __init__(self, function: Callable[..., Any], form: Form, random: np.random.Generator):
        self.function, self.form, self.random = function, form, random
        self.right: list[Case] = []
        self.refused: dict[str, str] = {}  # what a right function need not take, and how it failed
        self.empty: set[str] = set()  # what it gives where a query can attend to nothing
        self.held: list[tuple[Trial, Any, dict[str, Array]]] = []  # what was returned, and copies of it
        self.changed: set[str] = set()  # arguments
        self.mistakable: list[Case] = []  # that it takes at these sizes alone

    def verdict(self, mask_axes: str | None, backward: Callable[[Any], Any] | None) -> Report:
        first: Report | None = None  # that is not right
        diagnosed = 0
        for case in self.cases(self.shapes_taken(mask_axes)):
            trial = Trial(case, self.form, self.random)
            trial.reference()
            try:
                report = self.tried(trial)
            except Error as error:
                if first is not None:
                    break  # what is wrong before says more
                reason = EMPTY if trial.is_empty.any() else case.optional
                has_equal_heads = any(case.heads[0] == case.heads[1] for case in self.right)  # else they are not what kv_heads asks for
                if reason is None or reason == GROUPS and not has_equal_heads:
                    raise Error(f"{error}; where it takes no more, say max_tokens={most_tokens(self.right)}" if max(case.n, case.m) > 9 else str(error)) from error
                self.refused.setdefault(reason, str(error))
                continue
            if report is None:
                self.right.append(case)
                continue
            diagnosed += 1
            if first is None or is_clearer(report, first, case.largest > 1):
                first = report
            if report.verdict == "different" and len(first.mistakes) == 1 or diagnosed == MOST_DIAGNOSED:
                break
        for more in (self.overwritten, lambda: self.derived(backward)):
            first = more() if first is None else first
        return self.passed(backward) if first is None else first

    def cases(self, shapes: Sequence[str]) -> Iterator[Case]:
        form = self.form
        parameters = parameters_of(self.function) or {}
        has_to = form.name in parameters and parameters[form.name or ""].default is inspect.Parameter.empty
        dtypes = list(dict.fromkeys((drawn_type(form.dtype), "float64")))  # what is float32 can become float64 on the way
        keeps_memory = not is_contiguous(form.make(np.ones((2, 3), dtypes[0]).T))
        for case in (*cases(form.axes, shapes, dtypes, form.kv_heads), *self.mistakable):
            if has_to and not case.mask:
                case = replace(case, mask="all", mask_axes=shapes[0])
            if (keeps_memory or not case.memory) and (form.has_groups or case.heads[0] == case.heads[1]) and (
                    form.max_tokens is None or max(case.n, case.m) <= form.max_tokens) and (not form.has_cache or case.n == case.m or case.n < case.m and not case.mask):
                yield case

    def shapes_taken(self, mask_axes: str | None) -> list[str]:
        """Which axes its mask can have: those with which it does not fail."""
        form = self.form
        if mask_axes is not None:
            letters = mask_axes.replace("1", "")
            if "m" not in letters or [axis for axis in "bhnm" if axis in letters] != list(letters) or not set(letters) <= set(form.axes + "m"):
                raise Error(f'mask_axes is {mask_axes!r}, expected axes of the scores in the order of "bhnm", with 1 for an axis of one: "b1nm"')
            return [mask_axes]
        taken, reasons = [], []
        for shape in form.mask_shapes():
            case = fitted(replace(SHAPE, mask_axes=shape, **({"m": SHAPE.n} if form.has_cache else {})), form.axes, form.kv_heads)
            if (error := self.error_of(case)) is None:
                taken.append(shape)
                continue
            reasons.append(error)
            as_many = replace(case, batch=case.heads[1])  # where an axis of sequences can be taken for one of heads without a word
            if "b" in shape and "h" not in shape and self.error_of(as_many) is None:
                if as_many.batch > 1:
                    self.mistakable.append(as_many)
                else:
                    self.refused[f"masks {shape_text(shape)} of several sequences"] = str(error)
        if reasons and not taken:
            raise reasons[0]
        return taken

    def error_of(self, case: Case) -> Error | None:
        """With which the function fails, if it does."""
        trial = Trial(case, self.form, self.random)
        try:
            trial.results(trial.call(self.function, *trial.arguments()))
        except Error as error:
            return error
        return None

    def tried(self, trial: Trial) -> Report | None:
        """What is wrong in two calls with the same arguments; None where nothing is. raises Error where it fails"""
        arguments, named = trial.arguments()
        given = dict(zip((*trial.drawn, *named), (*arguments, *named.values())))
        before = {name: array_of(name, one).copy() for name, one in given.items()}
        calls = []
        for _ in range(2):
            returned = trial.call(self.function, arguments, named)
            results = {name: array.copy() for name, array in trial.results(returned).items()}
            calls.append((results, trial.type_of(returned)))
            self.held.append((trial, returned, results))
        changed = [name for name, one in given.items() if not np.array_equal(array_of(name, one), before[name], equal_nan=True)]
        self.changed.update(changed)
        if trial.is_empty.any():
            self.empty.add(trial.convention(calls[0][0]["output"]))
        wrong = next((call for call in calls if not trial.are_right(*call)), None)
        report = trial.diagnosed(self.function, *wrong) if wrong else None
        if report is None or report:
            return None
        if changed:
            report.hint = f"it changes its argument {changed[0]}: whoever uses that again, such as for a second call, gets other numbers"
        elif any(not np.array_equal(calls[0][0][name], calls[1][0][name], equal_nan=True) for name in calls[0][0]):
            report.hint = "two calls with the same arguments give different results: dropout is on, or something else is random or kept between calls"
        elif trial.case.mask and (others := {case.mask_axes for case in self.right if case.mask} - {trial.case.mask_axes}):
            report.hint = (f"masks {' and '.join(map(shape_text, sorted(others)))} were right: if its mask has no other axes, say so, "
                           f'mask_axes="{min(others)}"')
        elif trial.case.optional == GROUPS and any(case.heads[0] == case.heads[1] for case in self.right):
            report.hint = "as many heads of keys as of queries were right: if it takes no fewer, let it refuse them, or say groups=False"
        return report

    def overwritten(self) -> Report | None:
        """About a result that a later call changed."""
        for trial, returned, results in self.held:
            now = trial.results(returned)
            if any(not np.array_equal(now[name], results[name], equal_nan=True) for name in results):
                report = trial.reference().diff(now)
                if not report:
                    report.case, report.hint = trial.text(), "it was right, and a later call changed it: the results are in the same memory"
                    return report
        return None

    def derived(self, loss: Callable[[Any], Any] | None) -> Report | None:
        """About a gradient that is wrong."""
        form = self.form
        for case in (*FIRST[:2], *(MASKED_FIRST if "nm" in {case.mask_axes for case in self.right if case.mask} else ())) if loss else ():
            trial = Trial(fitted(case, form.axes, form.kv_heads), form, self.random)
            output, gradients = gradients_of(self.function, loss, trial)
            reference = trial.reference().grad(seed=form.inwards(array_of("the gradient of the result", output)))
            shared = "group_" if "group_keys" in trial.reference() else ""
            mine = {f"grad.{shared * (name != 'queries')}{name}": form.inwards(array_of(f"the gradient of {name}", one))
                    for name, one in zip(trial.drawn, gradients)}
            report = reference.diff(mine, **({} if form.dtype == "float64" else {"type": form.dtype}))
            if not report:
                report.case = trial.text() + ", backward"
                return report
        return None

    def passed(self, backward: Callable[[Any], Any] | None) -> Report:
        """What attn diff says of one input, and at which others it looked."""
        case = next((case for case in sorted(self.right, key=lambda case: not case.mask) if case.n != case.m and min(case.n, case.m) > 2), self.right[0])
        trial = Trial(case, self.form, self.random)
        returned = trial.call(self.function, *trial.arguments())
        report = trial.diagnosed(self.function, trial.results(returned), trial.type_of(returned))
        if report:
            report.text = f"of these {report.case}:\n{report.text}"
            report.case = "\n".join([f"each of {len(self.right)} inputs, called twice, compared as {report.type}", *self.looked_at(backward)])
        return report

    def looked_at(self, backward: Callable[[Any], Any] | None) -> list[str]:
        cases, axes = self.right, self.form.axes

        def numbers(found: Iterator[int]) -> str:
            return ", ".join(map(str, sorted(set(found))))

        other_widths, groups = (sorted({pair for case in cases if case.optional == kind for pair in [of(case)]})
                                for kind, of in ((OTHER_WIDTH, lambda case: (case.d, case.d_v)), (GROUPS, lambda case: case.heads)))
        lines = [f"{numbers(case.n for case in cases)} queries", f"{numbers(case.m for case in cases)} keys",
                 f"{numbers(case.d for case in cases)} features" + "".join(f", {d} with values of {d_v}" for d, d_v in other_widths)]
        if "h" in axes:
            lines.append(f"{numbers(case.heads[0] for case in cases)} heads" + "".join(f", {h} that share {g}" for h, g in groups))
        if "b" in axes:
            lines.append(f"{numbers(case.batch for case in cases)} sequences")
        masks = list(dict.fromkeys(shape_text(case.mask_axes) for case in cases if case.mask))
        if masks:
            lines.append("masks " + ", ".join(masks))
        lines.append("scores far from zero on both sides, equal scores" + (", arrays that are not contiguous" if any(case.memory for case in cases) else ""))
        if backward:
            lines.append("gradients of queries, keys and values")
        lines += [f"{EMPTY} gets {' or '.join(sorted(self.empty))}, where attn gives zeros"] * bool(self.empty)
        lines += [f"it changes its argument {name}" for name in sorted(self.changed)]
        return lines + [f"not looked at: {what}: {reason}" for what, reason in self.refused.items()]


def is_contiguous(value: Any) -> bool:
    """Also where its library does not tell."""
    return bool(value.flags.c_contiguous if isinstance(value, np.ndarray) else value.is_contiguous() if hasattr(value, "is_contiguous") else True)


def gradients_of(function: Callable[..., Any], loss: Callable[[Any], Any], trial: Trial) -> tuple[Any, Sequence[Any]]:
    """Of the result, and of queries, keys and values."""
    arguments, named = trial.arguments()
    name = type(arguments[0]).__module__.split(".")[0]
    if name == "torch":
        inputs = [one.requires_grad_() for one in arguments]
        returned = trial.call(function, inputs, named)
        output = returned[0] if isinstance(returned, (tuple, list)) else returned
        if not output.requires_grad:
            raise Error("nothing was recorded for a backward pass: is it inside torch.no_grad()?")
        output.retain_grad()
        loss(returned).backward()
        missing = [name for name, one in zip(trial.drawn, inputs) if one.grad is None]
        if missing or output.grad is None:
            raise Error(f"the gradient of {missing[0] if missing else 'the result'} is missing: does the loss depend on it?")
        return output.grad, [one.grad for one in inputs]
    if name in ("jax", "jaxlib"):
        import jax

        returned, pull = jax.vjp(lambda *given: function(*given, **named), *arguments)
        seed = jax.grad(loss)(returned)
        return seed[0] if isinstance(seed, (tuple, list)) else seed, pull(seed)
    raise Error(f'backward needs arguments of PyTorch or JAX, not of {name}: say like="torch" or like="jax"')


def most_tokens(cases: Sequence[Case]) -> int:
    return max((max(case.n, case.m) for case in cases), default=9)


def is_clearer(report: Report, first: Report, is_extreme: bool) -> bool:
    """True where it is different, and leaves fewer of the mistakes that the first one leaves.

    is_extreme  its scores are far from zero, where several mistakes give the same: what explains these alone explains nothing
    """
    if report.verdict != "different" or first.verdict != "different":
        return report.verdict == "different"
    names, left = ({mistake.id for mistake in one.mistakes} for one in (report, first))
    return bool(names) and (names < left or not left and not is_extreme)
