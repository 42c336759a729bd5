"""Makes the golden of lesson 29: requests padded on either side, packed into one row, on seats that others leave, and in pages.

By PyTorch in float64, the model step by step as in layers.py; pages by the rules of vLLM's paper, with lists of words.
"""

import json

import numpy as np
import torch

import layers
from case import within
from small_model import FOLDER, load_safetensors

REQUESTS = ("Lily had a red ball . She took the", "Tom had a blue kite . He carried the kite to the park . The kite was", "Ben got a green hat .")
WANTED, SEATS = (3, 9, 2, 4, 6, 2), 3
SIZE, BLOCKS = 4, 10
EVENTS = [1] * 16 + [4] + [0] * 5 + [6] + [2] + [0] * 4 + [1] * 17
VOCABULARY = json.loads((FOLDER / "config.json").read_text())["vocabulary"]
STATE = {name: tensor.double() for name, tensor in load_safetensors(FOLDER / "model.safetensors").items()}
WORDS, PLACES = STATE["token_embedding.weight"], STATE["position_embedding.weight"]
TEXTS = [[VOCABULARY.index(word) for word in request.split()] for request in REQUESTS]
LENGTHS = [len(text) for text in TEXTS]
STARTS = [sum(LENGTHS[:b]) for b in range(len(TEXTS))]
LONGEST, TOKENS = max(LENGTHS), sum(LENGTHS)


def read(embedded, mask, last):
    """@param last  of each request, the index of its last word"""
    steps = {name: step for name, step in layers.encoder(embedded, STATE, 2, "pre", "relu", 4, mask).items()}
    rows = torch.stack([steps["output"][index] for index in last])
    return {"embedded": embedded, "mask": mask} | steps | {"last": rows, "chances": torch.softmax(rows @ WORDS.T, dim=-1)}


def without(name, steps):
    return {other: step for other, step in steps.items() if other != name}


def tril(n):
    return torch.ones(n, n, dtype=torch.bool).tril()


def embed(rows):
    """@param rows  of pairs (word, position)"""
    return torch.stack([WORDS[word] + PLACES[position] for word, position in rows])


def batch(side):
    """The steps of a batch before it is read: of each row the words, padding and positions, one by one."""
    steps = {name: [] for name in ("real", "positions", "source")}
    rows = []
    for text, start in zip(TEXTS, STARTS):
        empty = [None] * (LONGEST - len(text))
        places = [*range(len(text)), *empty] if side == "right" else [*empty, *range(len(text))]
        positions, position = [], 0
        for place in places:
            position = position if place is None else place
            positions.append(position)
        steps["real"].append([place is not None for place in places])
        steps["positions"].append(positions)
        steps["source"].append([TOKENS if place is None else start + place for place in places])
        rows.append([(0 if place is None else text[place], position) for place, position in zip(places, positions)])
    columns = [length - 1 if side == "right" else LONGEST - 1 for length in LENGTHS]
    steps = {name: torch.tensor(array) for name, array in steps.items()}
    steps["ends"] = torch.tensor([b * LONGEST + column for b, column in enumerate(columns)])
    return steps, rows, list(enumerate(columns))


def padded():
    of_right, right_rows, right_ends = batch("right")
    of_left, left_rows, left_ends = batch("left")
    causal = tril(LONGEST)

    def run(steps, rows, ends):
        mask = torch.stack([causal & real for real in steps["real"]])
        embedded = torch.stack([embed(row) for row in rows])
        return {"embedded": embedded, "padding": steps["real"], "causal": causal} | read(embedded, mask, ends)

    right = of_right | run(of_right, right_rows, right_ends)
    left = of_left | run(of_left, left_rows, left_ends)
    last = torch.stack([right["output"][b, -1] for b in range(len(TEXTS))])
    column = {"last": last, "chances": torch.softmax(last @ WORDS.T, dim=-1)}
    by_column = [[(word, column) for column, (word, _) in enumerate(row)] for row in left_rows]
    columns = torch.arange(LONGEST).expand(len(TEXTS), -1)
    counted = {"columns": columns} | run(of_left, by_column, left_ends)
    embedded = {"embedded": left["embedded"], "causal": causal}
    seen = embedded | read(left["embedded"], causal, left_ends)
    layers.expect(right["chances"], left["chances"])
    steps = within("right", right) | within("left", left) | within("right.column", column)
    return steps | within("left.counted", counted) | within("left.seen", seen), right["chances"]


def packed():
    pairs = [(word, position) for text in TEXTS for position, word in enumerate(text)]
    owner = torch.tensor([b for b, text in enumerate(TEXTS) for _ in text])
    ends = [start + length - 1 for start, length in zip(STARTS, LENGTHS)]
    causal, same = tril(TOKENS), owner[:, None] == owner
    steps = {"begun": owner[:, None] >= torch.arange(len(TEXTS)), "request": owner, "positions": torch.tensor([position for _, position in pairs]),
             "same": same, "causal": causal, "mask": same & causal, "ends": torch.tensor(ends)}  # fmt: skip
    steps |= read(embed(pairs), same & causal, ends)
    leaking = read(steps["embedded"], causal, ends)
    row = read(embed([(word, i) for i, (word, _) in enumerate(pairs)]), same & causal, ends)
    steps |= within("leaking", without("embedded", leaking)) | within("row", without("mask", row))
    scores = {"padded": len(TEXTS) * LONGEST**2, "packed": TOKENS**2, "needed": sum(length**2 for length in LENGTHS)}
    return steps | within("scores", scores)


def seats():
    batches = [WANTED[i : i + SEATS] for i in range(0, len(WANTED), SEATS)]
    steps, busy = {"wanted": WANTED, "together": sum(map(max, batches)), "busy": [[0] * SEATS]}, [0] * SEATS
    for i, wanted in enumerate(WANTED):
        until, begins = [busy], min(busy)
        seat = busy.index(begins)
        busy = [end + wanted if j == seat else end for j, end in enumerate([begins if j == seat else end for j, end in enumerate(busy)])]
        steps |= within(f"answer.{i}", {"until": until, "begins": begins, "seat": seat, "busy": [busy]})
    share = lambda calls: sum(WANTED) / (SEATS * calls)
    return steps | {"joining": max(busy), "share_together": share(steps["together"]), "share_joining": share(max(busy))}


def attended(slots, query, keys, values):
    steps = {"queries": query[None], "keys": keys[slots], "values": values[slots]}
    return {name: step for name, step in layers.attend(steps, None, None).items()}


def pages(run):
    """Blocks as lists of words; a request that leaves gives its blocks back, and what stands in them stays."""
    queries, keys, values = (run[f"layers.0.self_attn.head.0.{name}"] for name in ("queries", "keys", "values"))
    block = [[TOKENS] * SIZE for _ in range(BLOCKS)]
    tables, told = [[] for _ in TEXTS], [[] for _ in TEXTS]
    for event in EVENTS:
        request = event % len(TEXTS)
        if event == 2 * len(TEXTS):
            tables[-1], told[-1] = list(tables[0]), list(told[0])
        elif event >= len(TEXTS):
            tables[request], told[request] = [], []
        else:
            free = lambda: next(b for b in range(BLOCKS) if not any(b in table for table in tables))
            at = len(told[request])
            if at % SIZE == 0:
                tables[request].append(free())
            elif sum(tables[request][-1] in table for table in tables) > 1:
                copy = free()
                block[copy] = list(block[tables[request][-1]])
                tables[request][-1] = copy
            block[tables[request][-1]][at % SIZE] = STARTS[request] + at
            told[request].append(STARTS[request] + at)
    written = torch.tensor(block).reshape(-1)
    pool = {name: torch.cat([rows, torch.zeros_like(rows[:1])])[written] for name, rows in (("key_pool", keys), ("value_pool", values))}
    steps = {"written": written} | pool
    for request, (table, words) in enumerate(zip(tables, told)):
        rows = torch.tensor([SIZE * b + row for b in table for row in range(SIZE)])
        query = queries[words[-1]]
        read_by = lambda slots: attended(slots, query, pool["key_pool"], pool["value_pool"])
        right, wrong = read_by(rows[: len(words)]), read_by(rows)
        alone = attended(torch.tensor(words), query, keys, values)
        layers.expect(right["context"], alone["context"])
        steps |= within(f"request.{request}", {"told": words, "last": words[-1:], "table": table, "slots": rows[: len(words)]} | right)
        steps |= within(f"request.{request}.in_order", alone)
        beyond = {"table": table, "slots": rows} | wrong | {"off": (wrong["context"] - right["context"]).abs().max()}
        steps |= within(f"request.{request}.beyond", beyond)
    users = [sum(b in table for table in tables) for b in range(BLOCKS)]
    used = sum(count > 0 for count in users)
    return steps | {"tokens": [len(words) for words in told], "users": users, "rows_of_block": SIZE, "used": used, "shared": sum(map(len, tables)) - used,
                    "blocks": [len(table) for table in tables], "rest": [SIZE * len(table) - len(words) for table, words in zip(tables, told)]}  # fmt: skip


def published():
    """Of OPT-13B and Llama 3 8B, layer by layer; eight requests of 57 to 1993 tokens."""
    models = [(40, 40, 128), (32, 8, 128)]
    layers_of, groups, d_k = np.array(models).T
    number_bytes = np.array([sum(2 * 2 * g * d for _ in range(count)) for count, g, d in models])
    memory, longest, block = 12 * 2**30, 2048, 16
    held = [57, 130, 310, 499, 733, 1024, 1410, 1993]
    ways = {"reserved": sum(longest for _ in held), "padded": sum(max(held) for _ in held), "packed": sum(held),
            "paged": sum(block * -(-tokens // block) for tokens in held)}  # fmt: skip
    steps = {"layers": layers_of, "groups": groups, "d_k": d_k, "bytes": number_bytes, "memory": memory, "rows": memory // number_bytes,
             "longest": longest, "block": block, "held": held} | ways  # fmt: skip
    for way in ("reserved", "padded", "paged", "packed"):
        steps |= within(f"if_{way}", {"share": sum(held) / ways[way], "gib": ways[way] * number_bytes / 2**30})
    prompt, answer = 161.31, 337.99
    mean, rest = prompt + answer / 2, (block - 1) / 2
    return steps | {"prompt": prompt, "answer": answer, "mean": mean, "share_reserved": mean / longest, "share_paged": mean / (mean + rest),
                    "fit_reserved": steps["rows"] // longest, "fit_paged": np.floor(steps["rows"] / (mean + rest))}  # fmt: skip


def lesson_29():
    ids = [word for text in TEXTS for word in text]
    rows, chances = padded()
    row = packed()
    layers.expect(row["chances"], chances)
    golden = {"token_embedding": WORDS, "ids": ids, "lengths": LENGTHS, "starts": STARTS, "words": WORDS[[*ids, 0]], "position_embedding": PLACES}
    golden |= rows | {"padding": 1 - TOKENS / (len(TEXTS) * LONGEST)} | within("packed", row)
    golden |= {"wanted": WANTED, "seats": [SEATS]} | within("calls", seats()) | {"size": [SIZE], "blocks": [BLOCKS], "events": EVENTS}
    golden |= within("pages", pages(row)) | within("published", published())
    return {name: np.asarray(array) for name, array in golden.items()}
