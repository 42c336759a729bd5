// Search of all pages, without a server: their texts are loaded when the reader begins. Sections and questions are ranked by BM25
// with fields (Robertson and Zaragoza 2009): a word counts by how rare it is, and by where in a section it stands.
const attnSearch = (() => {
    const mostResults = 20, excerptLength = 200;
    const fields = { heading: 5, term: 2, title: 1.5, text: 1 }; // what one occurrence counts there
    const kinds = { question: 1.1, lesson: 1, exercise: 0.9, page: 0.8, library: 0.6 };
    const saturation = 1.5, byLength = 0.5, forNeighbours = 0.3;
    const leastScore = 0.3; // of 1: below it the words stand somewhere, but nothing is about them

    // Words that tell nothing about what is asked.
    const empty = new Set(
        ("a about after all also am an and any are as at be because been between but by can cannot come could difference different do does " +
        "doing done during each else even ever exactly exist explain find for from get gets give go goes had happen happens has have having " +
        "he help her here him his how if in instead into is it its itself just kind let like made make makes many may me mean means might " +
        "more most much must my need needed needs no not of off on only or other our over please quite rather really same say see shall she " +
        "should so some still such take tell than that the their them then there these they thing things this those though to too up us use " +
        "used uses using versus very vs want was way we well were what when where whether which while who whom whose why will with without " +
        "work works would you your").split(" "));

    // A word without what grammar puts at its end: masks, masked and masking are mask.
    const stems = new Map();
    const stem = word => stems.get(word) ?? stems.set(word, stemOf(word)).get(word);
    function stemOf(word) {
        const one = word.length > 3 && !/(ss|us|is)$/.test(word) ? word.replace(/ies$/, "y").replace(/s$/, "") : word;
        const root = one.replace(/i[sz](?:ation|e[dr]?|ing)$/, "iz").replace(/(?:ation|ing|ed|er|or|al|e)$/, "");
        return root.length < 3 || !/[aeiouy]/.test(root) ? one : root.replace(/([bdfgmnprt])\1$/, "$1");
    }

    // The words of a text, where they stand, and their terms. Of key_padding_mask, warm-up or W^O these are the parts, and the whole.
    function wordsOf(text) {
        return [...text.matchAll(/√|[\p{L}\p{N}²]+(?:[-_^][\p{L}\p{N}]+)*/gu)].map(match => {
            const word = match[0].toLowerCase().replace("²", "2").replace("√", "root");
            const parts = word.split(/[-_^]/).filter(part => part.length > 1 && !empty.has(part)).map(stem);
            const whole = /[-_^]/.test(word) ? [stem(word.replace(/[-_^]/g, ""))] : [];
            return { parts, whole, at: match.index, end: match.index + match[0].length };
        });
    }
    const termsOf = text => wordsOf(text).flatMap(({ parts, whole }) => [...parts, ...whole]);
    // Of what is typed the parts, or the whole where its parts are letters.
    const typedTermsOf = text => wordsOf(text).flatMap(({ parts, whole }) => (parts.length > 0 ? parts : whole));

    // By term and place in the texts: how often it stands there, weighted by field and by the field's length.
    function indexOf(texts, synonyms) {
        const terms = texts.map(([title, heading, , text, , term]) => ({ title: termsOf(title), heading: termsOf(heading || title), text: termsOf(text), term: termsOf(term) }));
        const weights = new Map();
        for (const [field, weight] of Object.entries(fields)) {
            const mean = terms.reduce((sum, entry) => sum + entry[field].length, 0) / terms.length;
            terms.forEach((entry, place) => {
                const one = weight / (1 - byLength + byLength * entry[field].length / mean);
                for (const term of entry[field]) {
                    const places = weights.get(term) ?? weights.set(term, new Map()).get(term);
                    places.set(place, (places.get(place) ?? 0) + one);
                }
            });
        }
        // A word that no text has may be the very point or a way of speaking: it counts less than one that a single text has.
        const rarity = term => Math.log(1 + texts.length / (weights.get(term)?.size ?? Math.cbrt(texts.length)));
        return { texts, terms, weights, rarity, synonyms: synonyms.map(group => group.map(typedTermsOf)) };
    }

    let index = null, loading = null;

    async function load() {
        await new Promise((resolve, reject) => {
            const script = document.createElement("script");
            script.src = "search_texts.js";
            script.onload = resolve;
            script.onerror = () => reject(new Error(`${script.src} is missing`));
            document.head.append(script);
        });
        index = indexOf(window.attnTexts, window.attnSynonyms);
    }
    const ready = () => (loading ??= load());

    // What was asked for, one thing after the other: its terms, and all terms that say the same. The last word may be a beginning.
    function thingsIn(terms) {
        const things = [];
        for (let i = 0; i < terms.length;) {
            const stands = phrase => phrase.length > 0 && phrase.every((term, k) => term === terms[i + k]);
            const longest = Math.max(1, ...index.synonyms.flat().filter(stands).map(phrase => phrase.length));
            const typed = terms.slice(i, i + longest);
            const same = index.synonyms.filter(group => group.some(phrase => phrase.length === longest && stands(phrase))).flat();
            i += longest;
            const isBeginning = i === terms.length && longest === 1 && typed[0].length > 2 && !index.weights.has(typed[0]) && same.length === 0;
            const longer = isBeginning ? [...index.weights.keys()].filter(term => term.startsWith(typed[0])).map(term => [term]) : [];
            things.push({ typed, phrases: [typed, ...same, ...longer] });
        }
        return things;
    }

    const sum = numbers => numbers.reduce((all, one) => all + one, 0);

    // How well a place answers, for each place that has a term: 1 if everything that was asked for stood in its heading again and again.
    function scores(things) {
        const found = new Map();
        const asked = sum(things.map(({ typed }) => sum(typed.map(index.rarity))));
        for (const { typed, phrases } of things) {
            const best = new Map();
            for (const phrase of phrases) {
                const whole = sum(phrase.map(index.rarity)), of = new Map();
                for (const term of phrase) {
                    index.weights.get(term)?.forEach((weight, place) => {
                        of.set(place, (of.get(place) ?? 0) + index.rarity(term) / whole * weight / (weight + saturation));
                    });
                }
                of.forEach((share, place) => best.set(place, Math.max(share, best.get(place) ?? 0)));
            }
            const weight = sum(typed.map(index.rarity)) / asked;
            best.forEach((share, place) => found.set(place, (found.get(place) ?? 0) + weight * share));
        }
        return found;
    }

    // Of the neighbours in what was asked, such as weight decay, the share that are neighbours in a place, too.
    function together(terms, place) {
        const pairs = terms.slice(1).map((term, i) => [terms[i], term]);
        const stand = ([a, b]) => Object.values(index.terms[place]).some(field => field.some((term, k) => term === a && field[k + 1] === b));
        return pairs.length === 0 ? 0 : pairs.filter(stand).length / pairs.length;
    }

    // The entries that answer, best first; of each its score. None where the site does not cover what was asked.
    function find(words) {
        const terms = typedTermsOf(words);
        const ranked = [...scores(thingsIn(terms))].map(([place, score]) => {
            const [title, heading, address, text, kind] = index.texts[place];
            return { title, heading, address, text, kind, score: score * kinds[kind] * (1 + forNeighbours * together(terms, place)) };
        });
        const seen = new Set();
        const isLibrary = ({ kind }) => kind === "library"; // what it declares comes after what is explained
        return ranked.filter(({ score }) => score >= leastScore).sort((a, b) => isLibrary(a) - isLibrary(b) || b.score - a.score)
            .filter(({ address }) => !seen.has(address) && seen.add(address)).slice(0, mostResults);
    }

    // The part of a text that has most of the words, of an answer all of it, with these marked: pieces of text, and whether each is one
    // of the words.
    function excerpt(text, words, kind) {
        const length = kind === "question" ? Infinity : excerptLength;
        const there = new Set(termsOf(text)), things = thingsIn(typedTermsOf(words));
        const wanted = new Set(things.flatMap(({ typed, phrases }) => [typed, ...phrases.filter(phrase => phrase.every(term => there.has(term)))].flat()));
        const hits = wordsOf(text).filter(({ parts, whole }) => [...parts, ...whole].some(term => wanted.has(term)));
        const within = from => sum(hits.filter(({ at, end }) => at >= from && end <= from + length).map(() => 1));
        const first = text.length <= 1.5 * length ? undefined : hits.map(({ at }) => Math.max(0, at - 40)).reduce((best, at) => (within(at) > within(best) ? at : best), 0);
        const begin = first ? text.indexOf(" ", first) + 1 : 0, end = first === undefined ? text.length : Math.min(text.length, begin + length);
        const pieces = [[begin > 0 ? "… " : "", false]];
        let done = begin;
        for (const hit of hits.filter(({ at, end: last }) => at >= begin && last <= end)) {
            pieces.push([text.slice(done, hit.at), false], [text.slice(hit.at, hit.end), true]);
            done = hit.end;
        }
        return [...pieces, [text.slice(done, end) + (end < text.length ? " …" : ""), false]];
    }

    function marked(tag, text, words, kind) {
        const element = document.createElement(tag);
        element.append(...excerpt(text, words, kind).map(([piece, isWord]) => (isWord ? Object.assign(document.createElement("mark"), { textContent: piece }) : piece)));
        return element;
    }

    function show(panel, words) {
        const results = find(words);
        panel.replaceChildren(...results.map(({ title, heading, address, text, kind }) => {
            const link = document.createElement("a");
            link.href = address;
            link.append(marked("strong", kind === "question" || !heading ? heading || title : `${title}: ${heading}`, words), marked("span", text, words, kind));
            return link;
        }));
        if (results.length === 0) {
            panel.textContent = "Not covered: no page answers this.";
        }
        panel.hidden = typedTermsOf(words).length === 0;
    }

    function install() {
        const field = document.getElementById("search-field"), panel = document.createElement("div");
        panel.id = "found";
        panel.hidden = true;
        field.parentElement.append(panel);
        field.parentElement.hidden = false;
        field.addEventListener("focus", () => ready());
        field.addEventListener("input", async () => {
            await ready();
            show(panel, field.value);
        });
        field.addEventListener("keydown", event => {
            if (event.key === "Enter" && panel.querySelector("a") !== null) {
                window.location.href = panel.querySelector("a").href;
            } else if (event.key === "ArrowDown" && panel.querySelector("a") !== null) {
                panel.querySelector("a").focus();
            } else if (event.key === "Escape") {
                panel.hidden = true;
            }
            event.stopPropagation();
        });
        panel.addEventListener("keydown", event => {
            const next = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
            if (next !== undefined) {
                (document.activeElement[next] ?? field).focus();
                event.preventDefault();
            }
        });
        document.addEventListener("click", event => {
            if (!panel.contains(event.target) && event.target !== field) {
                panel.hidden = true;
            }
        });
    }

    document.addEventListener("DOMContentLoaded", install);
    return { ready, find, excerpt };
})();
