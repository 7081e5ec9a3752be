// Prints the hits of queries by the site's own search: node site_search.js SITE QUERY...
const fs = require("fs"), vm = require("vm");
const [site, ...queries] = process.argv.slice(2);
let query = "";
const context = {
    URLSearchParams,
    document: {addEventListener: () => {}, getElementById: () => null},
    localStorage: {setItem: () => {}},
    SPHINX_HIGHLIGHT_ENABLED: false,
    _: (text) => text,
    Documentation: {ready: () => {}},
    _ready: () => {},
    location: {get search() { return "?" + new URLSearchParams({q: query}); }},
};
context.window = context;
vm.createContext(context);
const load = (name) => fs.readFileSync(`${site}/${name}`, "utf8");
const scripts = ["_static/language_data.js", "_static/searchtools.js"].map(load);
vm.runInContext(scripts.join("\n") + "\nglobalThis.Search = Search;", context);
vm.runInContext(load("searchindex.js"), context);
const found = queries.map((one) => {
    query = one;
    return context.Search._performSearch(...context.Search._parseQuery(one)).map((hit) => hit[0]).reverse();
});
console.log(JSON.stringify(found));
