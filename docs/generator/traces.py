"""Reads traces: arrays by path, and the ordered steps."""

import json
import re
import zipfile

import numpy as np

from .errors import PageError

# Lessons, and runs of the small model: on its first sentence, trained and untrained, and with a boy's name; on a story with two things,
# also without one head; and on a story with one thing, also with every number rounded to shorter types.
MODEL_RUNS = ("sentence", "tom", "untrained", "story", "things", "ablated", "no_scale", "no_output_map", "without_head_0_2", "without_head_1_3", "float32", "float16", "bfloat16")
LESSON_NAME = r"\d\d_[a-z0-9_]+|" + "|".join(MODEL_RUNS)
REFERENCE = re.compile(
    rf"(?:(?P<lesson>{LESSON_NAME}):)?(?P<path>[A-Za-z_][\w]*(?:\.\w+)*)(?:\[(?P<index>[-\d:, ]*)\])?(?::(?P<format>[^\s]+))?"
)


class Recorded(np.ndarray):
    """A step's numbers, or a part of them, that know their place: trace["mask"][1] is mask[1] of that run. What is computed
    from them does not."""

    run, path, index = None, "", ()

    def __array_finalize__(self, _):
        self.run = None

    def __array_wrap__(self, array, context=None, return_scalar=False):
        return np.asarray(array)[()]

    def __getitem__(self, key):
        part = super().__getitem__(key)
        entries = key if isinstance(key, tuple) else (key,)
        if self.run is not None and isinstance(part, Recorded) and all(isinstance(entry, (int, np.integer)) for entry in entries):
            part.run, part.path, part.index = self.run, self.path, (*self.index, *map(int, entries))
        return part


class Trace:
    """A trace file. `trace["head.0.weights"]` is a NumPy array; an alias gives the step that it means."""

    def __init__(self, path):
        if not path.is_file():
            raise PageError(f"there is no trace {path.name} in {path.parent}: run the lesson (script/docs does)")
        self.path, self.name = path, path.stem
        with zipfile.ZipFile(path) as archive:
            if "steps.json" not in archive.namelist():
                raise PageError(f"{path.name} has no member steps.json")
            document = json.loads(archive.read("steps.json"))
        self.arrays = np.load(path, allow_pickle=False)
        self.steps = document if isinstance(document, list) else document["steps"]
        self.by_path = {step["path"]: step for step in self.steps}
        aliases = [] if isinstance(document, list) else document.get("aliases", [])
        self.by_path.update({alias["path"]: self.by_path[alias["target"]] for alias in aliases})

    def step(self, path):
        if path not in self.by_path:
            last = path.rsplit(".", 1)[-1]
            near = [other for other in self.by_path if last in other] or list(self.by_path)
            raise PageError(f"{self.name} has no step '{path}'; it has {', '.join(near[:8])}")
        return self.by_path[path]

    def __getitem__(self, path):
        path = self.step(path)["path"]
        array = self.arrays[path].view(Recorded)
        array.run, array.path = self.name, path
        return array

    def __contains__(self, path):
        return path in self.by_path


def shape_text(shape):
    return f"({shape[0]},)" if len(shape) == 1 else f"({', '.join(map(str, shape))})"


def parse_index(text):
    """'0, 1:, :' as [0, slice(1, None), slice(None)]."""
    selection = []
    for entry in text.split(","):
        bounds = entry.strip().split(":")
        if not all(re.fullmatch(r"-?\d*", bound.strip()) for bound in bounds) or len(bounds) > 2 or bounds == [""]:
            raise PageError(f"cannot read the index [{text}]; write [0,1] or [0,:]")
        numbers = [int(bound) if bound.strip() else None for bound in bounds]
        selection.append(numbers[0] if len(bounds) == 1 else slice(*numbers))
    return selection


def take(array, selection):
    """The part that an index selects; an index outside the array is the page's mistake."""
    if len(selection) > array.ndim:
        raise PageError(f"the index has {len(selection)} entries, the tensor is {shape_text(array.shape)}")
    for axis, entry in enumerate(selection):
        if isinstance(entry, int) and not -array.shape[axis] <= entry < array.shape[axis]:
            raise PageError(f"index {entry} is outside axis {axis} of a tensor {shape_text(array.shape)}")
    return array[tuple(selection)]
