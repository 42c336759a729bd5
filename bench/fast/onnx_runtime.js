// ONNX Runtime's encoder layer, timed once per line that is read: a peer of bench/fast/fast.py.
//
//     node bench/fast/onnx_runtime.js MODULES MODEL.onnx NAME THREADS        lines: encoder 8 128
//
// MODULES is a folder node_modules with onnxruntime-node. The first line of output says who answers.
const path = require("path");
const readline = require("readline");

const [modules, model, name, threads] = process.argv.slice(2);
const folder = path.resolve(modules, "onnxruntime-node");
const ort = require(folder);
const D_MODEL = 512;

function randomTokens(b, n) {
    const numbers = Float32Array.from({ length: b * n * D_MODEL }, () => 2 * Math.random() - 1);
    return new ort.Tensor("float32", numbers, [b, n, D_MODEL]);
}

async function main() {
    const session = await ort.InferenceSession.create(model, {
        intraOpNumThreads: Number(threads), interOpNumThreads: 1, graphOptimizationLevel: "all",
    });
    console.log(`ONNX Runtime ${require(path.join(folder, "package.json")).version}, attention ${name}, MLAS`);
    for await (const line of readline.createInterface({ input: process.stdin })) {
        const [, b, n] = line.trim().split(" ").map(Number);
        const x = randomTokens(b, n);
        const start = process.hrtime.bigint();
        await session.run({ x });
        console.log(Number(process.hrtime.bigint() - start) / 1e9);
    }
}

main();
