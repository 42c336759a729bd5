// The library in the page: asks lab.js, in a worker where the browser lets one start, else here.
// lab.ask({do: "run", lesson: "01_single_query"}) is a promise of the answer, or of an Error that says why there is none.

"use strict";

const lab = (() => {
    const folder = document.currentScript.src.replace(/[^/]*$/, "");

    // The same code in a worker and in the page: it unpacks the program, and answers a question at a time.
    async function start(attnLab) {
        const packed = Uint8Array.from(atob(attnLab.packed), letter => letter.charCodeAt(0));
        const unpacked = new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip")));
        let printed = [];
        const wasmBinary = await unpacked.arrayBuffer();
        const begin = () => attnLab({ wasmBinary, print: line => printed.push(line), printErr: line => printed.push(line) });
        let program = await begin();
        return async question => {
            printed = [];
            try {
                const asked = program.stringToNewUTF8(JSON.stringify(question));
                const answer = JSON.parse(program.UTF8ToString(program._lab(asked)));
                program._free(asked);
                if (answer.count !== undefined) {
                    const at = program._lab_numbers() / 8;
                    answer.numbers = program.HEAPF64.slice(at, at + answer.count);
                    answer.printed = printed.join("\n");
                }
                return answer;
            } catch (error) { // of WebAssembly itself: what is left of the program can't be trusted
                program = await begin();
                return { error: `the program broke: ${error.message}` };
            }
        };
    }

    function inWorker() {
        return new Promise((resolve, reject) => {
            const code = `importScripts(${JSON.stringify(`${folder}lab.js`)});
                const starting = (${start})(attnLab);
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
        return new Promise((resolve, reject) => {
            const script = document.createElement("script");
            script.src = `${folder}lab.js`;
            script.onerror = () => reject(new Error("lab/lab.js can't be read"));
            script.onload = () => start(window.attnLab).then(resolve, reject);
            document.head.append(script);
        });
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
