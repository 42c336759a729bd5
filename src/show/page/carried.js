'use strict';

// Where numbers and explanations come from: the page carries them.

function bytesOf(id) {
    const text = atob(byId(id).textContent), bytes = new Uint8Array(text.length);
    for (let i = 0; i < bytes.length; ++i) bytes[i] = text.charCodeAt(i);
    return bytes;
}

const unpacked = new Map(); // the explanations of the steps that were looked at

const source = {
    /** The bytes of a tensor's .npy. */
    tensor: async (run, step) => bytesOf(`tensor-${run}-${step}`),

    /** {text, cells} of one number; nothing where the page does not carry it. */
    async explanation(run, step, offset) {
        const id = `explained-${run}-${step}`;
        if (!byId(id)) return null;
        if (!unpacked.has(id)) {
            const stream = new Blob([bytesOf(id)]).stream().pipeThrough(new DecompressionStream('deflate'));
            unpacked.set(id, new Response(stream).json());
        }
        return (await unpacked.get(id))[offset];
    },
};
