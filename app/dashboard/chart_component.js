// Draws an answer in place: words, numbers, charts and tables. Text from outside goes in as text, never as markup.
// A change redraws only the charts whose figure changed: those in sight at once, the others one by one after a frame,
// and tables that are out of sight before those.

const AXES = ["xaxis", "yaxis"];
const CONFIG = { displayModeBar: false };
const NUMBER = new Intl.NumberFormat("en-US", { maximumFractionDigits: 4 }); // a number's own would make one for each
const MARGIN = { l: 57, r: 12, t: 12, b: 49 }; // what most axes need: a chart whose margins grow is drawn twice
const LEGEND = 48; // above it, where it takes one line
const components = new WeakMap();

// A moved slider changes the address in place, so that Back leads from page to page.
const pageOf = address => {
  const { pathname, searchParams } = new URL(address, location.href);
  return searchParams.get("page") ?? pathname.split("/").at(-1);
};
if (!history.rooftree) {
  const { pushState, replaceState } = history;
  history.rooftree = true;
  history.pushState = function (data, unused, address) {
    const here = address && pageOf(address) === pageOf(location.href);
    return (here ? replaceState : pushState).call(history, data, unused, address);
  };
  document.addEventListener("click", ({ target }) => {
    if (target.matches(".rooftree-code button")) copied(target.parentElement.querySelector("code"));
  });
}

function copied(code) {
  getSelection().selectAllChildren(code);
  document.execCommand("copy"); // which works on plain http too
}

// Plotly, from its file once the words are drawn, or from the session's messages where there is no file.
const plotly = address => self.rooftreePlotly ??= new Promise(done => {
  if (self.Plotly) return done();
  if (!address) return addEventListener("rooftree-plotly", done, { once: true });
  requestAnimationFrame(() => setTimeout(() => {
    const script = make("script", undefined, { src: address });
    script.onload = done;
    document.head.append(script);
  }));
});

function make(tag, text, attributes = {}) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

// Replaces the children of a place where what they say has changed.
function put(place, said, build) {
  const now = JSON.stringify(said);
  if (place.dataset.said === now) return;
  place.dataset.said = now;
  place.replaceChildren(...build(said));
}

function themed({ data, layout }, place) {
  const style = getComputedStyle(place);
  const ink = name => style.getPropertyValue(name).trim();
  const text = ink("--st-text-color"), line = ink("--st-border-color-light");
  const named = data.filter(each => each.showlegend ?? each.type !== "heatmap").length;
  const out = {
    ...layout, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", autosize: true,
    margin: layout.showlegend ?? named > 1 ? { ...MARGIN, t: LEGEND } : MARGIN,
    font: { family: ink("--st-font") || "sans-serif", size: 13, color: text },
    hoverlabel: { bgcolor: ink("--st-background-color"), bordercolor: line, align: "left", font: { color: text } },
  };
  for (const name of AXES) {
    // labels that may be hidden would be measured one by one at every change; their margins leave them room
    out[name] = { gridcolor: line, linecolor: line, zerolinecolor: line, ticklabeloverflow: "allow", ...layout[name] };
  }
  return out;
}

function draw(card) {
  card.stale = false;
  self.Plotly.react(card.plot, card.figure.data, themed(card.figure, card.plot), CONFIG);
  card.plot.dataset.shown = card.asked;
  if (card.listens) return;
  card.listens = true;
  card.plot.on("plotly_click", ({ points: [point] }) => { // a text that a point carries is shown below, to be copied
    if (typeof point.customdata !== "string") return;
    card.code.textContent = point.customdata;
    card.picked.hidden = false;
  });
}

function inSight(place) {
  const { top, bottom } = place.getBoundingClientRect();
  return bottom > 0 && top < innerHeight;
}

function newCard() {
  const section = make("section", undefined, { class: "rooftree-card" });
  const title = make("h3"), note = make("p"), plot = make("div", undefined, { role: "img" });
  const picked = make("div", undefined, { class: "picked" }), code = make("code"), copy = make("button", "Copy");
  picked.hidden = true;
  picked.append(code, copy);
  copy.addEventListener("click", () => copied(code));
  section.append(title, note, plot, picked);
  let width = 0;
  new ResizeObserver(([seen]) => { // of the window, or of a grid that more cards have come to
    const now = seen.contentRect.width;
    if (now && width && now !== width && plot.data) self.Plotly.Plots.resize(plot);
    width = now || width;
  }).observe(plot);
  return { section, title, note, plot, picked, code, drawn: "", stale: true };
}

function dropCards(component, kept) {
  for (const gone of component.cards.splice(kept)) {
    self.Plotly?.purge(gone.plot);
    gone.section.remove();
  }
}

// The charts that come later stand in one grid with the first ones, behind them; those that are drawn before the first
// ones have a place wait in a grid of their own.
const gridOf = (component, name) =>
  (name === "rest" && document.querySelector("[data-part=charts] > .cards")) || component.places.cards;

function setCards(component, grid, given, asked, scheme) {
  dropCards(component, given.length);
  given.forEach((each, place) => {
    const card = component.cards[place] ?? (component.cards[place] = newCard());
    if (card.section.parentElement !== grid) {
      grid.insertBefore(card.section, grid === component.places.cards ? grid.children[place] : null);
    }
    const now = scheme + JSON.stringify(each.figure);
    if (card.title.textContent !== each.title) card.title.textContent = each.title;
    if (card.note.textContent !== each.note) card.note.textContent = each.note;
    card.plot.setAttribute("aria-label", `${each.title}. ${each.note}`);
    card.plot.style.height = `${each.figure.layout.height}px`;
    Object.assign(card, { figure: each.figure, asked, stale: card.stale || card.drawn !== now, drawn: now });
    if (card.stale) card.picked.hidden = true;
    if (!card.stale) card.plot.dataset.shown = asked;
  });
}

function cell(value, tag, numeric) {
  const known = value !== null && value !== undefined && value !== "";
  const text = typeof value === "number" ? NUMBER.format(value) : String(value);
  return make(tag, known ? text : "–", { ...(numeric && { class: "number" }), ...(tag === "th" && { scope: "row" }) });
}

function tableOf({ title, columns, rows }) {
  const numeric = columns.map((_, at) => rows.some(row => typeof row[at] === "number"));
  const table = make("table"), body = make("tbody"), head = make("tr");
  const heads = columns.map((name, at) => {
    const cellOfHead = make("th", undefined, { scope: "col", ...(numeric[at] && { class: "number" }) });
    const button = make("button", name, { type: "button" });
    cellOfHead.append(button);
    button.addEventListener("click", () => {
      const down = cellOfHead.getAttribute("aria-sort") === "descending";
      heads.forEach(each => each.removeAttribute("aria-sort"));
      cellOfHead.setAttribute("aria-sort", down ? "ascending" : "descending");
      fill([...rows].sort((a, b) => (down ? 1 : -1) * (
        numeric[at] ? (a[at] ?? -Infinity) - (b[at] ?? -Infinity) : String(a[at]).localeCompare(String(b[at])))));
    });
    return cellOfHead;
  });
  const fill = ordered => body.replaceChildren(...ordered.map(row => {
    const line = make("tr");
    line.append(...row.map((value, at) => cell(value, at ? "td" : "th", numeric[at])));
    if (columns.at(-1) === "command") line.lastChild.className = "command";
    return line;
  }));
  fill(rows);
  head.append(...heads);
  table.append(make("thead"), body);
  table.tHead.append(head);
  const scroll = make("div", undefined, { class: "scroll", tabindex: "0", role: "region", "aria-label": title });
  scroll.append(table);
  return [make("h3", title), scroll];
}

function newComponent(parent) {
  const root = make("div", undefined, { class: "rooftree-answer" });
  const places = {
    headline: make("h2"), numbers: make("dl"), notes: make("div", undefined, { class: "notes" }),
    cards: make("div", undefined, { class: "cards" }), tables: make("div"),
  };
  root.append(...Object.values(places));
  parent.append(root);
  const component = { root, places, cards: [], turn: 0 };
  return component;
}

async function show(component, data) {
  const turn = ++component.turn, { places } = component;
  component.root.dataset.part = data.name;
  places.headline.hidden = !data.headline;
  places.headline.textContent = data.headline ?? "";
  put(places.numbers, data.numbers, said => said.map(([label, value]) => {
    const pair = make("div");
    pair.append(make("dt", label), make("dd", value));
    return pair;
  }));
  put(places.notes, data.notes, said => said.map(text => make("p", text)));
  const scheme = getComputedStyle(component.root).getPropertyValue("--st-text-color");
  setCards(component, gridOf(component, data.name), data.cards, data.asked, scheme);
  if (data.name === "charts") places.cards.append(...document.querySelectorAll("[data-part=rest] > .cards > *"));
  const fill = () => component.turn === turn && put(places.tables, data.tables, said => said.flatMap(tableOf));
  const loaded = plotly(data.library);
  if (!self.Plotly && data.cards.length) await loaded;
  const stale = () => component.turn === turn ? component.cards.filter(card => card.stale) : [];
  stale().filter(card => inSight(card.plot)).forEach(draw);
  if (inSight(places.tables)) fill();
  component.root.dataset.shown = data.asked;
  const next = () => {
    fill();
    const [first] = stale();
    if (first) draw(first);
    if (stale().length) setTimeout(next);
    else if (component.turn === turn) component.root.dataset.settled = data.asked;
  };
  requestAnimationFrame(() => setTimeout(next));
}

export default function ({ data, parentElement }) {
  const component = components.get(parentElement) ?? newComponent(parentElement);
  components.set(parentElement, component);
  show(component, data);
  return () => setTimeout(() => { // its cards stand elsewhere where Streamlit took the element away
    if (parentElement.isConnected) return;
    component.turn++;
    dropCards(component, 0);
  });
}
