// Full-text search of all pages by lunr, without a server: the texts and the library are loaded when the reader begins.
const attnSearch = (() => {
    const mostResults = 20;
    let index = null;

    function load(file) {
        return new Promise((resolve, reject) => {
            const script = document.createElement("script");
            script.src = file;
            script.onload = resolve;
            script.onerror = () => reject(new Error(file + " is missing"));
            document.head.append(script);
        });
    }

    async function ready() {
        if (index !== null) {
            return;
        }
        await Promise.all([load("lunr.min.js"), load("search_texts.js")]);
        index = lunr(function () {
            this.ref("place");
            this.field("title", { boost: 4 });
            this.field("heading", { boost: 6 });
            this.field("text");
            this.b(0.5); // a longer heading is little worse
            this.pipeline.remove(lunr.stopWordFilter); // "why" and "how" tell questions apart
            const boosts = { question: 8, course: 4, library: 1 };
            window.attnTexts.forEach(([title, heading, , text, kind, synonyms], place) => {
                this.add({ place, title, heading: `${heading} ${synonyms}`, text }, { boost: boosts[kind] });
            });
        });
    }

    // All words must be there; the last may be a beginning.
    function find(words) {
        const terms = words.toLowerCase().split(/[^\p{L}\p{N}_]+/u).filter(term => term !== "");
        if (terms.length === 0) {
            return [];
        }
        const search = presence => index.query(query => terms.forEach((term, i) => {
            query.term(lunr.tokenizer(term), { presence, boost: 2 });
            if (i === terms.length - 1 && term.length > 2) {
                query.term(term, { wildcard: lunr.Query.wildcard.TRAILING, usePipeline: false });
            }
        }));
        const all = search(lunr.Query.presence.REQUIRED);
        const found = (all.length > 0 ? all : search(lunr.Query.presence.OPTIONAL)).map(result => window.attnTexts[result.ref]);
        const asked = words.trim().toLowerCase(), begins = ([, heading]) => heading.toLowerCase().startsWith(asked) ? 0 : 1;
        const of = kind => found.filter(entry => entry[4] === kind).sort((a, b) => begins(a) - begins(b));
        const ofCourse = [...of("question"), ...of("course")];
        return (ofCourse.length > 0 ? ofCourse : of("library")).slice(0, mostResults); // the library's many pages, where nothing else is found
    }

    function excerpt(text, words) {
        const term = words.toLowerCase().split(/\s+/).find(word => text.toLowerCase().includes(word));
        const at = Math.max(0, term ? text.toLowerCase().indexOf(term) - 60 : 0);
        return (at > 0 ? "… " : "") + text.slice(at, at + 160) + (at + 160 < text.length ? " …" : "");
    }

    function show(panel, words) {
        const results = find(words);
        panel.replaceChildren(...results.map(([title, heading, address, text]) => {
            const link = document.createElement("a");
            link.href = address;
            const name = document.createElement("strong");
            name.textContent = heading ? `${title}: ${heading}` : title;
            const words_around = document.createElement("span");
            words_around.textContent = excerpt(text, words);
            link.append(name, words_around);
            return link;
        }));
        if (results.length === 0) {
            panel.textContent = "No page has these words.";
        }
        panel.hidden = words.trim() === "";
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
    return { ready, find };
})();
