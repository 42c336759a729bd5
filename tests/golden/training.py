#!/usr/bin/env python3
"""Makes the golden of the training of the small model, and the stories that lesson 15 trains it on.

    training.py               writes tests/golden/training.npz and lessons/small_model/stories.npz

The golden is the loss of each of the first steps of lessons/small_model/train.py, by PyTorch in float64 and in float32, from the
weights of untrained.safetensors. The stories are those of train.py, as ids, each with its end: 20,000 to train on and 1,000 with
combinations that training does not see.
"""

import io
import sys
import zipfile
from pathlib import Path

import numpy as np
import torch

HERE = Path(__file__).resolve().parent
FOLDER = HERE.parents[1] / "lessons" / "small_model"
STORIES = FOLDER / "stories.npz"
sys.path.insert(0, str(HERE.parent / "oracle"))
sys.path.insert(0, str(FOLDER))
import grammar
import train
from measure import batch_of, loss_of
from model import ID, SmallModel
from modules import load_safetensors

STEPS = 50


def losses(dtype):
    """Of the steps of train.py's recipe, each before the step."""
    model = SmallModel()
    model.load_state_dict(load_safetensors(FOLDER / "untrained.safetensors"))
    model.to(dtype)
    optimizer = torch.optim.AdamW(model.parameters(), train.LEARNING_RATE, betas=(0.9, 0.98), weight_decay=train.WEIGHT_DECAY)
    stories = grammar.stories(STEPS * train.STORIES_PER_STEP, held_out=False, seed=1)
    found = []
    for step in range(STEPS):
        first = step * train.STORIES_PER_STEP
        ids, targets = batch_of(stories[first : first + train.STORIES_PER_STEP])
        for group in optimizer.param_groups:
            group["lr"] = train.LEARNING_RATE * train.rate(step)
        loss = loss_of(model(ids)[0], targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return np.array(found)


def training():
    torch.set_num_threads(1)
    return {"losses": losses(torch.float64)}


def as_ids(stories):
    return np.array([ID[step.word] for story in stories for step in story], np.uint8)


def stories():
    return {
        "training": as_ids(grammar.stories(train.TRAINING_STORIES, held_out=False, seed=1)),
        "held_out": as_ids(grammar.stories(train.HELD_OUT_STORIES, held_out=True, seed=2)),
    }


def write_stories():
    with zipfile.ZipFile(STORIES, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, ids in stories().items():
            data = io.BytesIO()
            np.save(data, ids)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0)), data.getvalue(), zipfile.ZIP_DEFLATED)


def stories_difference():
    """What is not as committed; empty where all is."""
    committed = np.load(STORIES)
    same = committed.files == ["training", "held_out"] and all(np.array_equal(committed[name], ids) for name, ids in stories().items())
    return "" if same else "has other stories than the grammar tells"


if __name__ == "__main__":
    from generate import write

    if len(sys.argv) > 1:
        sys.exit(__doc__)
    write(HERE / "training.npz", training())
    write_stories()
