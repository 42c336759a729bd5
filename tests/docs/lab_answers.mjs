// Asks lab.js the questions of a file, in node, and writes the answers: node lab_answers.mjs lab.js QUESTIONS.json ANSWERS.json

import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { gunzipSync } from "node:zlib";

const [file, questions, answers] = process.argv.slice(2);
const attnLab = createRequire(import.meta.url)(file);
const packed = /attnLab\.packed = "([^"]*)"/.exec(readFileSync(file, "utf8"))[1];
const start = () => attnLab({ wasmBinary: gunzipSync(Buffer.from(packed, "base64")), print: () => {}, printErr: () => {} });
let program = await start();

async function answer(question) {
    try {
        const asked = program.stringToNewUTF8(JSON.stringify(question));
        const found = JSON.parse(program.UTF8ToString(program._lab(asked)));
        program._free(asked);
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
