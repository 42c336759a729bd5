// Asks lab.js the questions of a file, in node, and writes the answers: node lab_answers.mjs lab.js QUESTIONS.json ANSWERS.json
// An answer's "loaded" are the files that it needed, since each question finds none; "wasted" the seconds until it lacked the last.

import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { gunzipSync } from "node:zlib";

const [file, questions, answers] = process.argv.slice(2);
const attnLab = createRequire(import.meta.url)(file);
const unpacked = (script, name) => gunzipSync(Buffer.from(readFileSync(script, "utf8").split(`attnLab.packed["${name}"] = "`)[1].split('"')[0], "base64"));
const wasmBinary = unpacked(file, "lab.wasm");
const start = () => attnLab({ wasmBinary, print: () => {}, printErr: () => {} });
let program = await start();

function give(name) {
    const path = `/lessons/${name}`;
    program.FS.mkdirTree(dirname(path));
    program.FS.writeFile(path, unpacked(join(dirname(file), "files", `${name}.js`), name));
}

async function answer(question, loaded = [], wasted = 0) {
    const began = process.cpuUsage().user;
    try {
        const asked = program.stringToNewUTF8(JSON.stringify(question));
        const found = JSON.parse(program.UTF8ToString(program._lab(asked)));
        program._free(asked);
        if (found.lacks !== undefined) {
            give(found.lacks);
            return await answer(question, [...loaded, found.lacks], wasted + (process.cpuUsage().user - began) / 1e6);
        }
        loaded.forEach(name => program.FS.unlink(`/lessons/${name}`));
        Object.assign(found, { loaded, wasted });
        if (found.count !== undefined) {
            const at = program._lab_numbers() / 8;
            found.numbers = Buffer.from(program.HEAPF64.slice(at, at + found.count).buffer).toString("base64");
        }
        return found;
    } catch (error) { // of WebAssembly itself: what is left of the program can't be trusted
        program = await start();
        return { error: `the program broke: ${error.message}` };
    }
}

const found = [];
for (const question of JSON.parse(readFileSync(questions, "utf8"))) {
    found.push(await answer(question));
}
writeFileSync(answers, JSON.stringify(found));
