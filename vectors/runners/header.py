#!/usr/bin/env python3
"""Makes one C header of vectors: header.py CASES vectors.h, or header.py cases kernels vectors.h

What it holds is described at its head. The intermediate steps are left out. Exit code 2 where CASES has no vectors, or one is damaged.
"""

import json
import math
import sys
from pathlib import Path

from check import TYPES, UNITS, Damaged, call_of, files_in, scopes_of

HEAD = """// Test vectors of attention that name mistakes. Made by vectors/runners/header.py; CC0.
#ifndef ATTN_VECTORS_H
#define ATTN_VECTORS_H
#include <math.h>
#include <stddef.h>
#include <string.h>

enum attn_type { ATTN_FLOAT64, ATTN_FLOAT32, ATTN_FLOAT16, ATTN_BFLOAT16 };

typedef struct { const char *name; int rank; size_t shape[5], size; const double *values; unsigned rule; } attn_array; // row-major; booleans are 0 and 1
typedef struct { const char *name, *value; } attn_parameter;                                            // a number, a word, or JSON
// A tolerance by attn_type. Of a large result `kept` numbers are given: those at places, then signed sums of blocks; the tolerance of each
// is multiplied by its scale.
typedef struct { attn_array array; double tolerance[4]; int kept, places; const int *place; size_t block; const double *scale; double rough[4]; } attn_output;
// By output the values, NULL where it is right; of large results some, and at which of the numbers that are kept.
typedef struct { const char *name; const double *const *values; const int *const *at; const int *counts; } attn_alternative;
typedef struct attn_case {
    const char *id, *function;
    int parameters; const attn_parameter *parameter;
    int inputs; const attn_array *input;                // weights among them
    int outputs; const attn_output *output;
    int rows; const int *row;                           // which rows of the output are given; 0 for all
    int accepted, wrong; const attn_alternative *alternative; // those accepted first
    int calls; const struct attn_case *call;            // of a function that is called several times; their outputs are this one's, in order
    int begins;                                         // it is the first call of a request: without a state
} attn_case;

static inline const attn_array *attn_input(const attn_case *one, const char *name) {  // NULL where it has none
    for (int i = 0; i < one->inputs; ++i) if (!strcmp(one->input[i].name, name)) return &one->input[i];
    return NULL;
}
static inline const char *attn_parameter_of(const attn_case *one, const char *name) { // the same
    for (int i = 0; i < one->parameters; ++i) if (!strcmp(one->parameter[i].name, name)) return one->parameter[i].value;
    return NULL;
}
"""


def number(value):
    return {"NaN": "NAN", "Infinity": "INFINITY", "-Infinity": "-INFINITY"}.get(value, repr(value))


def values(entry):
    if "multiplier" in entry:
        return [((entry["multiplier"] * place + entry["offset"]) % 251 - 125) / 64 for place in range(math.prod(entry["shape"]))]
    return entry["values"]


class Header:
    def __init__(self):
        self.known, self.lines = {}, []

    def doubles(self, numbers):
        text = ",".join(map(number, numbers))
        if text not in self.known:
            self.known[text] = f"attn_v{len(self.known)}"
            self.lines.append(f"static const double {self.known[text]}[] = {{{text}}};")
        return self.known[text]

    def array(self, name, entry):
        shape = entry["shape"]
        sizes = ",".join(map(str, shape)) or "1"
        given = f'NULL, {entry["rule"]}u' if "rule" in entry else f"{self.doubles(values(entry))}, 0"
        return f'{{{json.dumps(name)}, {len(shape)}, {{{sizes}}}, {math.prod(shape)}, {given}}}'

    def output(self, of, name, entry):
        if "places" not in entry:
            return f"{{{self.array(name, entry)}, {{{','.join(repr(entry['tolerance'][kind]) for kind in TYPES)}}}, 0, 0, NULL, 0, NULL, {{0}}}}"
        by_type = [",".join(repr(UNITS[kind] * entry[which].get(kind, 0)) for kind in TYPES) for which in ("roundings", "rough")]
        return (f"{{{self.array(name, entry)}, {{{by_type[0]}}}, {len(entry['values'])}, {self.table('int', of, list(map(str, entry['places'])))}, "
                f"{entry['block']}, {self.doubles(entry['scale'])}, {{{by_type[1]}}}}}")

    def forms(self, of, case, which):  # of the mistakes of large results: one for each form
        rows = []
        for name, form in ((name, form) for name, all_forms in case[which].items() for form in all_forms):
            parts = [form.get(output) for output in case["outputs"]]
            pointers = [[self.doubles(part["values"]) if part else "NULL" for part in parts],
                        [self.table("int", f"{of}_{which[0]}{len(rows)}_{i}", list(map(str, part["at"]))).split(", ")[1] if part else "NULL" for i, part in enumerate(parts)],
                        [str(len(part["at"])) if part else "0" for part in parts]]
            tables = [self.table(kind, f"{of}_{which[0]}{len(rows)}{end}", row).split(", ")[1]
                      for kind, end, row in zip(("double *const", "int *const", "int"), "vpn", pointers)]
            named = json.dumps(f"{name} ({form['form']})" if form["form"] else name)
            rows.append(f"{{{named}, {', '.join(tables)}}}")
        return rows

    def table(self, kind, name, rows):
        if rows:
            self.lines.append(f"static const {kind} {name}[] = {{{', '.join(rows)}}};")
        return f"{len(rows)}, {name if rows else 'NULL'}"

    def calls(self, of, function, group, case):
        if "requests" not in case:
            return "0, NULL"
        rows = []
        for request in scopes_of(case):
            for scope in request:
                def own(part, scope=scope):
                    return {name.removeprefix(scope): entry for name, entry in case[part].items() if name.startswith(scope) or call_of(name) is None}
                one = {"id": case["id"], "inputs": own("inputs"), "outputs": own("outputs"), "weights": case.get("weights", {}), "wrong": {}}
                rows.append(self.case(f"{of}_{len(rows)}", function, group, one, scope == request[0]))
        return self.table("attn_case", of + "_s", rows)

    def case(self, of, function, group, case, begins=True):
        if "requests" in case:
            case["outputs"] = dict(sorted(case["outputs"].items(), key=lambda one: call_of(one[0])))
        parameters = [f"{{{json.dumps(name)}, {json.dumps(value if isinstance(value, str) else json.dumps(value))}}}"
                      for name, value in group["parameters"].items()]
        inputs = [self.array(name, entry) for part in ("inputs", "weights") for name, entry in case.get(part, {}).items()]
        outputs = [self.output(f"{of}_w{i}", name, entry) for i, (name, entry) in enumerate(case["outputs"].items())]
        alternatives, counts = [], [len(case.get("accepted", {})), len(case["wrong"])]
        is_large = any("places" in entry for entry in case["outputs"].values())
        if is_large:
            both = [self.forms(of, case, which) for which in ("accepted", "wrong")]
            counts, alternatives = list(map(len, both)), [*both[0], *both[1]]
        for which in () if is_large else ("accepted", "wrong"):
            for name, entry in case.get(which, {}).items():
                pointers = [self.doubles(entry[output]) if output in entry else "NULL" for output in case["outputs"]]
                _, table = self.table("double *const", f"{of}_a{len(alternatives)}", pointers).split(", ")
                alternatives.append(f'{{{json.dumps(name)}, {table}, NULL, NULL}}')
        parts = [self.table("attn_parameter", of + "_p", parameters), self.table("attn_array", of + "_i", inputs),
                 self.table("attn_output", of + "_o", outputs), self.table("int", of + "_r", [str(row) for row in case.get("rows", [])])]
        _, table = self.table("attn_alternative", of + "_a", alternatives).split(", ")
        return (f'{{"{case["id"]}", "{function}", {", ".join(parts)}, {counts[0]}, {counts[1]}, {table}, '
                f'{self.calls(of, function, group, case)}, {int(begins)}}}')


def main(*words):
    try:
        files, output = [file for folder in words[:-1] for file in files_in(folder).values()], words[-1]
    except Damaged as error:
        print(f"header.py: {error}", file=sys.stderr)
        return 2
    header, cases = Header(), []
    for file in files:
        for group in file["groups"]:
            for case in group["cases"]:
                cases.append(header.case(f"attn_c{len(cases)}", file["function"], group, case))
    rows = ",\n    ".join(cases)
    lines = [HEAD, *header.lines, f"static const attn_case attn_cases[] = {{\n    {rows}}};", f"enum {{ ATTN_CASES = {len(cases)} }};\n#endif\n"]
    Path(output).write_text("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
