"""Trains the small model on the grammar's stories, and measures it on stories of other combinations.

    train.py [FOLDER]

Writes untrained.safetensors, model.safetensors, config.json, report.json and sentence.txt to FOLDER, by default its
own. One thread and fixed seeds: a second run on the same machine prints the same losses.
"""

import json
import math
import sys
from pathlib import Path

try:
    import torch
except ImportError:
    sys.exit("train.py: there is no PyTorch; Debian's package is python3-torch")

import grammar
from measure import batch_of, loss_of, report, say
from model import SmallModel, configuration, save

SEED = 8
STEPS, STORIES_PER_STEP, LEARNING_RATE, WEIGHT_DECAY = 2000, 48, 5e-3, 0.01
WARM_UP = 100  # steps
TRAINING_STORIES, HELD_OUT_STORIES = 20000, 1000


def rate(step):
    """The share of the learning rate that a step has: a warm-up, and a cosine down to zero."""
    return min(1, (step + 1) / WARM_UP) * 0.5 * (1 + math.cos(math.pi * step / STEPS))


def train(model, stories):
    """AdamW, through the stories again and again."""
    optimizer = torch.optim.AdamW(model.parameters(), LEARNING_RATE, betas=(0.9, 0.98), weight_decay=WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    for step in range(STEPS):
        first = step * STORIES_PER_STEP % len(stories)
        ids, targets = batch_of(stories[first : first + STORIES_PER_STEP])
        loss = loss_of(model(ids)[0], targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 250 == 0 or step == STEPS - 1:
            print(f"step {step:4}  loss {loss.item():.6f}", flush=True)


def main(arguments):
    if len(arguments) > 1 or arguments[:1] == ["--help"]:
        print(__doc__, file=sys.stderr)
        return 2
    folder = Path(arguments[0]) if arguments else Path(__file__).resolve().parent
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(SEED)
    model = SmallModel()
    save(folder / "untrained.safetensors", model)
    train(model, grammar.stories(TRAINING_STORIES, held_out=False, seed=1))
    save(folder / "model.safetensors", model)
    found = report(model, grammar.stories(HELD_OUT_STORIES, held_out=True, seed=2))
    say(found)
    (folder / "report.json").write_text(json.dumps(found, indent=1) + "\n")
    (folder / "config.json").write_text(json.dumps(configuration()) + "\n")
    (folder / "sentence.txt").write_text("\n".join(grammar.SENTENCE.split()) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
