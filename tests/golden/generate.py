#!/usr/bin/env python3
"""Makes the goldens: what every step of every lesson, and every attention function, has to give.

    generate.py [NAME ...]            writes those of tests/golden/NAME.npz whose numbers are others now; without a name, all
    generate.py --check [NAME ...]    only compares what is committed with what PyTorch and NumPy give now; 1 where they differ

Where PyTorch is missing, those that need it are skipped; the exit code is 77 then.

Numbers are others where they differ by more than 1e-12 of their size: PyTorch adds in another order on another processor, so
that the last bits of a sum say nothing.

In float64, by PyTorch and NumPy from the mathematics; nothing here reads a trace, runs a program of attn, or knows a
formula's text. Where PyTorch has the whole function, its result is held against the steps that lead to it.
"""

import importlib
import io
import sys
import zipfile
from pathlib import Path

import numpy as np

SKIPPED = 77
HERE = Path(__file__).resolve().parent

# Each by the function that makes it; its module is imported when it is made, since many need PyTorch.
GOLDENS = {
    "01_single_query": "first_lessons.single_query",
    "02_all_queries": "first_lessons.all_queries",
    "03_scale_and_softmax": "first_lessons.scale_and_softmax",
    "04_scoring": "first_lessons.scoring",
    "05_masking": "lessons.masking",
    "06_multi_head": "lessons.multi_head",
    "07_self_and_cross": "lessons.self_and_cross",
    "08_positions": "lessons.positions",
    "09_feed_forward_and_norm": "lessons.feed_forward_and_norm",
    "10_encoder_layer": "lessons.encoder_layer",
    "11_encoder_stack": "lessons.encoder_stack",
    "23_pitfalls": "lessons.pitfalls",
    "12_decoder": "decoder.lesson_12",
    "13_transformer": "decoder.lesson_13",
    "14_gradients": "backward.lesson_14",
    "20_restricted": "restricted.lesson_20",
    "21_recurrence": "recurrent.lesson",
    "16_rotary_and_alibi": "lessons.rotary_and_alibi",
    "22_low_rank_and_talking_heads": "restricted.lesson_22",
    "24_smaller_caches": "smaller_caches.lesson_24",
    "25_windows_and_sinks": "windows.lesson_25",
    "26_experts": "mixture.lesson_26",
    "27_state": "states.lesson_27",
    "28_many_calls": "many_calls.lesson_28",
    "29_many_sequences": "many_sequences.lesson_29",
    "30_choosing": "choosing.lesson_30",
    "31_fewer_bits": "fewer_bits.lesson_31",
    "17_story": "story.story",
    "18_flash_attention": "flash.lesson_18",
    "19_across_machines": "machines.lesson_19",
    "19_on_ranks": "machines.lesson_19_on_ranks",
    "attention": "attention.attention",
    "layers": "layers.layers",
    "recurrent": "recurrent.recurrences",
    "convolution": "recurrent.convolutions",
    "restricted": "restricted.cases",
    "decoder": "decoder.cases",
    "llama": "llama.llama_golden",
    "experts": "experts.cases",
    "latent_attention": "latent_attention.cases",
    "gated_attention": "gated_attention.cases",
    "gated_delta_net": "gated_delta_net.cases",
    "differential_attention": "differential_attention.cases",
    "sinks": "sinks.cases",
    "fewer_bits": "fewer_bits.cases",
    "small_model": "small_model.small_model",
    "training": "training.training",
    "15_training": "training.lesson_15",
    "stories": "training.stories",
}

# Those that keep samples of large arrays.
SAMPLED = {"08_positions", "11_encoder_stack", "14_gradients", "25_windows_and_sinks", "26_experts", "28_many_calls", "29_many_sequences", "30_choosing", "31_fewer_bits", "small_model", "15_training"}

# -------------------------------------------------------------------------------------------------------------- files


def sampled(golden, most=256):
    """A large array NAME as NAME~: rank, sizes, mean, standard deviation, least, greatest, and every so many-th number."""
    small = {}
    for name, array in golden.items():
        array = np.asarray(array)
        if array.size <= most:
            small[name] = array
            continue
        with np.errstate(invalid="ignore"):  # minus infinity where a mask forbids
            statistics = [array.mean(), array.std(), array.min(), array.max()]
        stride = -(-array.size // 32)
        small[f"{name}~"] = np.concatenate([[array.ndim], array.shape, statistics, array.reshape(-1)[::stride]])
    return small


def made(name):
    module, function = GOLDENS[name].split(".")
    golden = getattr(importlib.import_module(module), function)()
    return sampled(golden) if name in SAMPLED else golden


def path_of(name):
    return HERE.parents[1] / "lessons/small_model/stories.npz" if name == "stories" else HERE / f"{name}.npz"


def write(path, golden):
    """As numpy.savez_compressed does, but always the same bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, array in golden.items():
            data = io.BytesIO()
            array = np.asarray(array)
            np.save(data, array if array.dtype in (bool, np.uint8) else array.astype(np.float64))
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0)), data.getvalue(), zipfile.ZIP_DEFLATED)


def difference(path, golden):
    """What is not as committed; empty where all is."""
    if not path.exists():
        return "missing"
    committed = np.load(path)
    if committed.files != list(golden):
        others = sorted(set(committed.files) ^ set(golden))
        return f"has other steps, or another order: {len(others)} are in one of them only, such as {others[:3]}"
    for name, array in golden.items():
        array = np.asarray(array)
        if committed[name].shape != array.shape:
            return f"{name} has another shape"
        scale = np.max(np.abs(array[np.isfinite(array)]), initial=1) if array.dtype != bool else 0
        # A number near zero has the roundings of those that it is the difference of, which processors add in different orders.
        if not np.allclose(committed[name].astype(float), array.astype(float), rtol=1e-12, atol=1e-13 * scale, equal_nan=True):
            return f"{name} has other numbers"
    return ""


def main(arguments):
    checks = arguments[:1] == ["--check"]
    names = arguments[checks:]
    for name in names:
        if name not in GOLDENS:
            print(f"script/regenerate-goldens: it makes no golden {name}; those that it makes are {', '.join(sorted(GOLDENS))}", file=sys.stderr)
            return 2
    failed = skipped = False
    for name in names or GOLDENS:
        path = path_of(name)
        try:
            golden = made(name)
        except ModuleNotFoundError as error:
            if error.name != "torch":
                raise
            print(f"{path.name}: skipped, there is no PyTorch")
            skipped = True
            continue
        found = difference(path, golden)
        if not found:
            print(f"{path.name}: {len(golden)} arrays as committed")
        elif checks:
            print(f"{path.name}: {found}: script/regenerate-goldens {name} writes it anew")
            failed = True
        else:
            write(path, golden)
            print(f"{path.name}: {found}, now written")
    return 1 if failed else SKIPPED if skipped else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
