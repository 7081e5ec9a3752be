"""The search of the built site: the hits of a query, as `searchtools.js` of Sphinx orders them."""

import json
import math
import re
from pathlib import Path

from source_rules import ROOT, text_of
from sphinx.search.en import SearchEnglish

TITLE, PART_OF_TITLE, TERM, PART_OF_TERM = 15, 7, 5, 2
NAME, PART_OF_NAME = 11, 6
PRIORITY = {0: 15, 1: 5, 2: -5}
SCORER = ROOT / "docs" / "static" / "scorer.js"
WEIGHTS = json.loads(re.search(r"WEIGHTS = (\{.*?\});", text_of(SCORER), re.DOTALL)[1])


class SiteSearch:
    """The index of a built site."""

    def __init__(self, folder: Path):
        text = (folder / "searchindex.js").read_text(encoding="utf-8")
        self.index = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))
        self.language = SearchEnglish({})

    def hits(self, query: str) -> list[str]:
        """The pages of the hits, the best first; a page may occur with several of its sections."""
        query = query.strip()
        words = [word for word in re.split(r"[^\w]+", query) if word]
        later, entries = self._entries(query.lower())
        found = [*self._titles(query.lower()), *entries]
        found += self._names({word.lower(): None for word in words})
        found += self._pages(words)
        results = {}
        for group in (found, later):  # what comes first is kept; of equals that is the last
            scored = [(self._score(query, *hit), *hit[1:]) for hit in reversed(group)]
            for score, title, key in sorted(scored, key=lambda hit: (-hit[0], hit[1].lower())):
                results.setdefault(key, (score, title))
        return [self.index["docnames"][page] for page, *_ in results]

    def _stems(self, text):
        words = [word for word in re.split(r"[^\w]+", text.lower()) if word]
        return {self.language.stem(w): None for w in words if w not in self.language.stopwords}

    def _score(self, query, score, title, key):
        """What `scorer.js` makes of a score."""
        wanted, words = self._stems(query), self._stems(title)
        if wanted:
            share = WEIGHTS["title"] * len([w for w in wanted if w in words]) / len(wanted)
            score += math.floor(share + 0.5)
        if key[-1] == "name" and title.count(".") == 1:
            score += WEIGHTS["whole name"]
        page = self.index["docnames"][key[0]]
        return score + sum(more for start, more in WEIGHTS.items() if page.startswith(start))

    def _titles(self, query):
        titles = self.index["titles"]
        for title, places in self.index["alltitles"].items():
            if query in title.lower().strip() and len(query) >= len(title) / 2:
                for page, anchor in places:
                    score = math.floor(TITLE * len(query) / len(title) + 0.5) + (
                        titles[page] == title
                    )
                    shown = title if titles[page] == title else f"{titles[page]} > {title}"
                    yield score, shown, (page, shown, f"#{anchor}" if anchor else "", None)

    def _entries(self, query):
        """Entries of the index: those that are not the main ones come after all else."""
        later, main = [], []
        for entry, places in self.index["indexentries"].items():
            if query in entry and len(query) >= len(entry) / 2:
                for page, anchor, is_main in places:
                    title = self.index["titles"][page]
                    hit = (
                        math.floor(100 * len(query) / len(entry) + 0.5),
                        title,
                        (page, title, f"#{anchor}", None),
                    )
                    (main if is_main else later).append(hit)
        return later, main

    def _names(self, words):
        """Public names: the others of several words must be in what is said of the name."""
        titles, kinds = self.index["titles"], self.index["objnames"]
        for word in words:
            for prefix, matches in self.index["objects"].items():
                for page, kind, priority, _, name in matches:
                    full = f"{prefix}.{name}" if prefix else name
                    last = full.lower().rpartition(".")[2]
                    said = f"{prefix} {name} {kinds[str(kind)][2]} {titles[page]}".lower()
                    if word in full.lower() and all(other in said for other in words):
                        exact = NAME if word in (full.lower(), last) else 0
                        score = exact or (PART_OF_NAME if word in last else 0)
                        yield score + PRIORITY.get(priority, 0), full, (page, full, full, "name")

    def _pages(self, words):
        """Pages in which all words occur that occur anywhere; the best word counts."""
        terms, of_titles = self.index["terms"], self.index["titleterms"]
        wanted = [w for w in words if w.lower() not in self.language.stopwords and not w.isdigit()]
        stems = {self.language.stem(word.lower()): None for word in wanted}
        scores: dict[int, dict[str, int]] = {}
        for stem in stems:
            records = [(terms.get(stem), TERM), (of_titles.get(stem), TITLE)]
            if len(stem) > 2:
                for known, score in ((terms, PART_OF_TERM), (of_titles, PART_OF_TITLE)):
                    if stem not in known:
                        records += [(known[term], score) for term in known if stem in term]
            for pages, score in records:
                for page in [pages] if isinstance(pages, int) else pages or ():
                    scores.setdefault(page, {})[stem] = score
        long = sum(len(stem) > 2 for stem in stems)
        for page, of_words in scores.items():
            if len(of_words) in (len(stems), long):
                title = self.index["titles"][page]
                yield max(of_words.values()), title, (page, title, "", None)
