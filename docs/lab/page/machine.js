// The library in the page: asks lab.js, in a worker where the browser lets one start, else here. A file that a lesson reads is loaded
// when the program lacks it.
// lab.ask({do: "run", lesson: "01_single_query"}) is a promise of the answer, or of an Error that says why there is none.

"use strict";

const lab = (() => {
    const folder = document.currentScript.src.replace(/[^/]*$/, "");

    // The same code in a worker and in the page: it loads and unpacks the program, and answers a question at a time.
    // @param load  loads a script of this folder
    async function start(load) {
        await load("lab.js");
        const unpacked = async name => {
            const packed = Uint8Array.from(atob(attnLab.packed[name]), letter => letter.charCodeAt(0));
            return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
        };
        let printed = [];
        const wasmBinary = await unpacked("lab.wasm");
        const begin = () => attnLab({ wasmBinary, print: line => printed.push(line), printErr: line => printed.push(line) });
        let program = await begin();

        // A file that a lesson reads.
        async function give(name) {
            await load(`files/${name}.js`);
            const path = `/lessons/${name}`;
            program.FS.mkdirTree(path.replace(/[/][^/]*$/, ""));
            program.FS.writeFile(path, new Uint8Array(await unpacked(name)));
        }

        async function answerTo(question) {
            let answer;
            printed = [];
            try {
                const asked = program.stringToNewUTF8(JSON.stringify(question));
                answer = JSON.parse(program.UTF8ToString(program._lab(asked)));
                program._free(asked);
            } catch (error) { // of WebAssembly itself: what is left of the program can't be trusted
                program = await begin();
                return { error: `the program broke: ${error.message}` };
            }
            if (answer.lacks !== undefined) {
                try {
                    await give(answer.lacks);
                } catch {
                    return { error: `lab/files/${answer.lacks}.js can't be read` };
                }
                return answerTo(question);
            }
            if (answer.count !== undefined) {
                const at = program._lab_numbers() / 8;
                answer.numbers = program.HEAPF64.slice(at, at + answer.count);
                answer.printed = printed.join("\n");
            }
            return answer;
        }
        let last = null; // one may wait for a file: those after it wait for it
        return question => last = Promise.resolve(last).then(() => answerTo(question));
    }

    function inWorker() {
        return new Promise((resolve, reject) => {
            const code = `const starting = (${start})(async script => importScripts(${JSON.stringify(folder)} + script));
                starting.then(() => postMessage({ready: true}), error => postMessage({failed: String(error)}));
                onmessage = async event => {
                    const answer = await (await starting)(event.data.question);
                    postMessage({number: event.data.number, answer}, answer.numbers ? [answer.numbers.buffer] : []);
                };`;
            const worker = new Worker(URL.createObjectURL(new Blob([code], { type: "text/javascript" })));
            const waiting = new Map();
            let count = 0;
            worker.onerror = event => {
                event.preventDefault();
                reject(new Error(event.message || "no worker can start"));
                for (const answered of waiting.values()) { // it had started, and is gone
                    answered({ error: `the program broke: ${event.message || "its worker has ended"}` });
                }
                waiting.clear();
            };
            worker.onmessage = ({ data }) => {
                if (data.failed) {
                    reject(new Error(data.failed));
                } else if (data.ready) {
                    resolve(question => new Promise(answered => {
                        waiting.set(++count, answered);
                        worker.postMessage({ number: count, question });
                    }));
                } else {
                    waiting.get(data.number)(data.answer);
                    waiting.delete(data.number);
                }
            };
        });
    }

    function inPage() {
        return start(source => new Promise((resolve, reject) => {
            const script = document.createElement("script");
            script.src = folder + source;
            script.onerror = () => reject(new Error(`lab/${source} can't be read`));
            script.onload = resolve;
            document.head.append(script);
        }));
    }

    let started = null;
    let lastRun = null; // the question of the run that "explain", "verify" and "mistakes" are about

    // @param of  the question of the run that this one is about; it is run again where another has been asked for since
    async function ask(question, of = null) {
        if (typeof WebAssembly !== "object" || typeof DecompressionStream !== "function") {
            throw new Error("this browser has no WebAssembly, or can't unpack what is compressed");
        }
        const answerTo = await (started ??= inWorker().catch(inPage));
        if (question.do === "run") {
            lastRun = question;
        } else if (of && of !== lastRun) {
            answerTo(lastRun = of);
        }
        const answer = await answerTo(question);
        if (answer.error !== undefined) {
            throw new Error(answer.error);
        }
        return answer;
    }
    return { ask };
})();
