"""Trains the small model on the grammar's stories, and measures it on stories of other combinations.

    train.py [FOLDER]

Writes untrained.safetensors, model.safetensors, config.json, report.json and sentence.txt to FOLDER, by default its
own. One thread and fixed seeds: a second run on the same machine prints the same losses.
"""

import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
try:
    import torch
except ImportError:
    sys.exit("train.py: there is no PyTorch; Debian's package is python3-torch")

import grammar
import recipe
from measure import batch_of, loss_of, report, say
from model import SmallModel, configuration

SEED = 8
STEPS, STORIES_PER_STEP, LEARNING_RATE, WEIGHT_DECAY = 2000, 48, 5e-3, 0.01
WARM_UP = 100  # steps
TRAINING_STORIES, HELD_OUT_STORIES = 20000, 1000


def train(model, stories):
    """Through the stories again and again."""

    def loss_at(step):
        first = step * STORIES_PER_STEP % len(stories)
        ids, targets = batch_of(stories[first : first + STORIES_PER_STEP])
        return loss_of(model(ids)[0], targets)

    recipe.train(model, loss_at, STEPS, LEARNING_RATE, WEIGHT_DECAY, WARM_UP, every=250)


def main(folder):
    torch.manual_seed(SEED)
    model = SmallModel()
    recipe.save(folder / "untrained.safetensors", model)
    train(model, grammar.stories(TRAINING_STORIES, held_out=False, seed=1))
    recipe.save(folder / "model.safetensors", model)
    found = report(model, grammar.stories(HELD_OUT_STORIES, held_out=True, seed=2))
    say(found)
    (folder / "report.json").write_text(json.dumps(found, indent=1) + "\n")
    (folder / "config.json").write_text(json.dumps(configuration()) + "\n")
    (folder / "sentence.txt").write_text("\n".join(grammar.SENTENCE.split()) + "\n")


if __name__ == "__main__":
    sys.exit(recipe.run(main, __file__, __doc__))
