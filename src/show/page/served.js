'use strict';

// Where numbers and explanations come from: attn view on this machine answers for them.

async function answerTo(question) {
    let answer;
    try {
        answer = await fetch(question);
    } catch {
        throw new Error('attn view has ended on this machine; start it again and reload this page');
    }
    if (!answer.ok) throw new Error((await answer.text()).trim());
    return answer;
}

const source = {
    /** The bytes of a tensor's .npy. */
    tensor: async (run, step) => new Uint8Array(await (await answerTo(`tensor?run=${run}&step=${step}`)).arrayBuffer()),

    /** {text, cells} of one number. */
    explanation: async (run, step, offset) => (await answerTo(`explain?run=${run}&step=${step}&offset=${offset}`)).json(),
};
