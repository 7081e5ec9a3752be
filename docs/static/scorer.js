// How the search orders its hits: as Sphinx does, and by how much of the query is in a title.
// tests/support/site_search.py computes the same, with these weights.
const WEIGHTS = {
    "title": 20,
    "whole name": 6,
    "internals/": -20,
    "api/": -3,
    "operations": -6,
    "scipy_names": -6,
    "accuracy": -6,
    "index": -6
};

const stemsOf = (text) => {
    const stemmer = new Stemmer();
    const words = splitQuery(text.toLowerCase()).filter((word) => !stopwords.has(word));
    return new Set(words.map((word) => stemmer.stemWord(word)));
};

var Scorer = {
    objNameMatch: 11,
    objPartialMatch: 6,
    objPrio: {0: 15, 1: 5, 2: -5},
    objPrioDefault: 0,
    title: 15,
    partialTitle: 7,
    term: 5,
    partialTerm: 2,
    score: ([page, title, anchor, description, score, file, kind]) => {
        const query = new URLSearchParams(window.location.search).get("q") || "";
        const wanted = stemsOf(query), words = stemsOf(title);
        const found = [...wanted].filter((word) => words.has(word)).length;
        let more = wanted.size ? Math.round(WEIGHTS["title"] * found / wanted.size) : 0;
        if (kind === "object" && title.split(".").length === 2) more += WEIGHTS["whole name"];
        for (const [start, weight] of Object.entries(WEIGHTS))
            if (page.startsWith(start)) more += weight;
        return score + more;
    },
};
