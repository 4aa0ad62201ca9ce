// Draws an answer in place: words, numbers, charts and tables. Text from outside goes in as text, never as markup.
// A change redraws only the charts whose figure changed: those in sight at once, the others one by one after a frame,
// and tables that are out of sight before those. A point whose `customdata` begins as the query of an address asks
// another question when it is pressed; another text of a point is shown below the chart, to be copied.

const AXES = ["xaxis", "yaxis"];
const CONFIG = { displayModeBar: false };
const NUMBER = new Intl.NumberFormat("en-US", { maximumFractionDigits: 4 }); // a number's own would make one for each
const MARGIN = { l: 57, r: 12, t: 12, b: 49 }; // what most axes need: a chart whose margins grow is drawn twice
const LEGEND = 48; // above it, where it takes one line
const HEAD = 64; // above a picture, for its title and question
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
  card.width = card.plot.getBoundingClientRect().width;
  self.Plotly.react(card.plot, card.figure.data, themed(card.figure, card.plot), CONFIG);
  card.plot.dataset.shown = card.asked;
  if (card.listens) return;
  card.listens = true;
  card.plot.on("plotly_click", ({ points: [point] }) => press(card, point.customdata));
}

const asks = text => typeof text === "string" && text.startsWith("?");

function press(card, text) {
  if (asks(text)) return card.ask(text);
  if (typeof text !== "string" || !text) return;
  card.code.textContent = text;
  card.picked.hidden = false;
}

// The points of a chart that do something when pressed, in rows: those of a line, or of a row of a map.
function rowsOfPoints(data) {
  return data.flatMap(({ customdata, visible }, curveNumber) => {
    if (!customdata?.length || visible === "legendonly") return [];
    const point = (text, pointNumber) => ({ text, curveNumber, pointNumber });
    const rows = Array.isArray(customdata[0])
      ? customdata.map((row, up) => row.map((text, along) => point(text, [up, along])))
      : [customdata.map(point)];
    return rows.map(row => row.filter(({ text }) => text)).filter(row => row.length);
  });
}

const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
const within = (place, list) => Math.min(Math.max(place, 0), list.length - 1);

// The keyboard's way: arrows go from point to point, Enter presses the one that is reached.
function byKeyboard(card, event) {
  const rows = rowsOfPoints(card.figure.data);
  if (!rows.length || !card.plot.data || !(event.key in STEPS || event.key === "Enter")) return;
  event.preventDefault();
  const [across, up] = STEPS[event.key] ?? [0, 0];
  if (card.reached) {
    card.reached.row = within(card.reached.row + up, rows);
    card.reached.at = within(card.reached.at + across, rows[card.reached.row]);
  } else card.reached = { row: 0, at: 0 };
  const { row, at } = card.reached, point = rows[row][at];
  if (event.key === "Enter") return press(card, point.text);
  const { curveNumber, pointNumber } = point, [y, x] = Array.isArray(pointNumber) ? pointNumber : [];
  self.Plotly.Fx.hover(card.plot, [y === undefined ? { curveNumber, pointNumber } : { curveNumber, xval: x, yval: y }]);
  card.spoken.textContent = wordsOf(card.figure, point);
}

function wordsOf({ data, layout }, { curveNumber, pointNumber }) {
  const { hovertext, name, x, y } = data[curveNumber];
  const shown = [pointNumber].flat().reduce((part, place) => part?.[place], hovertext);
  const values = () => `${axisOf(layout, "xaxis")} ${x[pointNumber]}, ${axisOf(layout, "yaxis")} ${y[pointNumber]}`;
  return plain(shown ?? `${name ? `${name}, ` : ""}${values()}`);
}

const axisOf = (layout, axis) => plain(layout[axis]?.title?.text ?? axis[0]);

// What a text of a chart says without its markup, which a document that is never shown reads.
const plain = text =>
  new DOMParser().parseFromString(String(text).replaceAll("<br>", ", "), "text/html").body.textContent;

function saved(name, address) {
  make("a", undefined, { download: name, href: address }).click();
}

// The chart as it stands on the page, with its title and the question above it.
function picture(card) {
  const layout = themed(card.figure, card.plot), escaped = make("i"), style = getComputedStyle(card.plot);
  const { width, height } = card.plot.getBoundingClientRect();
  const markup = text => { escaped.textContent = text; return escaped.innerHTML; };
  self.Plotly.downloadImage({
    data: card.figure.data,
    layout: {
      ...layout, width, height: height + HEAD, margin: { ...layout.margin, t: layout.margin.t + HEAD },
      font: { ...layout.font, family: "sans-serif" }, // an image knows no font of the page
      paper_bgcolor: style.getPropertyValue("--st-background-color").trim() || "#fff",
      title: {
        text: `${markup(card.title.textContent)}<br><sub>${markup(card.question)}</sub>`, x: 0.01, xanchor: "left",
        y: 1, yref: "container", yanchor: "top", pad: { t: 14 }, font: { size: 16 },
      },
    },
    config: CONFIG,
  }, { format: "png", filename: card.file, width, height: height + HEAD, scale: 2 });
}

// The numbers of a chart, a row a point: lines that only guide the eye are left out, and those over a map whose axes
// count places.
function values({ data, layout }) {
  const x = axisOf(layout, "xaxis"), y = axisOf(layout, "yaxis"), out = [];
  const counts = data.some(each => each.meta);
  for (const trace of data.filter(each => each.hoverinfo !== "skip" && (each.z || !counts))) {
    const marks = trace.meta ?? trace, line = plain(trace.name ?? "");
    if (trace.z) {
      const z = plain(trace.colorbar?.title?.text ?? "value");
      trace.z.forEach((row, up) => row.forEach((value, along) =>
        out.push({ line, [x]: marks.x?.[along] ?? along, [y]: marks.y?.[up] ?? up, [z]: value })));
      continue;
    }
    const bar = trace.error_y;
    (trace.x ?? trace.y ?? []).forEach((_, at) => out.push({
      line, [x]: trace.x?.[at], [y]: trace.y?.[at],
      ...(bar?.array && { low: trace.y[at] - (bar.arrayminus ?? bar.array)[at], high: trace.y[at] + bar.array[at] }),
    }));
  }
  return out;
}

function table(card) {
  const rows = values(card.figure), heads = [...new Set(rows.flatMap(Object.keys))];
  const quoted = value => /[",\n\r]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value;
  const lines = [heads, ...rows.map(row => heads.map(head => row[head]))];
  const text = lines.map(line => line.map(value => quoted(String(value ?? ""))).join(",")).join("\n");
  const address = URL.createObjectURL(new Blob([`${text}\n`], { type: "text/csv" }));
  saved(`${card.file}.csv`, address);
  setTimeout(() => URL.revokeObjectURL(address));
}

function inSight(place) {
  const { top, bottom } = place.getBoundingClientRect();
  return bottom > 0 && top < innerHeight;
}

function newCard() {
  const section = make("section", undefined, { class: "rooftree-card" });
  const title = make("h3"), note = make("p"), plot = make("div", undefined, { role: "img" });
  const top = make("div", undefined, { class: "top" }), tools = make("div", undefined, { class: "tools" });
  const points = make("div", undefined, { class: "points" }), spoken = make("p", "", { "aria-live": "polite" });
  const picked = make("div", undefined, { class: "picked" }), code = make("code"), copy = make("button", "Copy");
  const card = { section, title, note, plot, points, picked, code, spoken, drawn: "", stale: true };
  for (const [word, run] of [["PNG", picture], ["CSV", table]]) {
    const button = make("button", word, { type: "button" });
    button.addEventListener("click", () => plot.data && run(card));
    tools.append(button);
  }
  spoken.className = "spoken";
  picked.hidden = true;
  picked.append(code, copy);
  copy.addEventListener("click", () => copied(code));
  points.append(plot);
  points.addEventListener("keydown", event => byKeyboard(card, event));
  points.addEventListener("blur", () => plot.data && self.Plotly.Fx.unhover(plot));
  top.append(title, tools);
  section.append(top, note, points, spoken, picked);
  new ResizeObserver(([seen]) => { // of the window, or of a grid that more cards have come to since it was drawn
    const now = seen.contentRect.width;
    if (!now || !plot.data || Math.abs(now - card.width) < 1) return;
    card.width = now;
    self.Plotly.Plots.resize(plot);
  }).observe(plot);
  return card;
}

// Only a chart of which points can be pressed is reached by the keyboard.
function setPoints(card, title) {
  const pressed = rowsOfPoints(card.figure.data).length > 0;
  card.points.classList.toggle("pressed", pressed);
  for (const [name, value] of Object.entries({
    tabindex: "0", role: "application",
    "aria-label": `Points of ${title}: arrow keys go from one to the next, Enter presses it`,
  })) pressed ? card.points.setAttribute(name, value) : card.points.removeAttribute(name);
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

function setCards(component, grid, { cards: given, asked, question, ask }, scheme) {
  dropCards(component, given.length);
  given.forEach((each, place) => {
    const card = component.cards[place] ?? (component.cards[place] = newCard());
    if (card.section.parentElement !== grid) {
      grid.insertBefore(card.section, grid === component.places.cards ? grid.children[place] : null);
    }
    const now = scheme + JSON.stringify(each.figure);
    if (card.title.textContent !== each.title) Object.assign(card, { reached: null }).title.textContent = each.title;
    const note = `${each.note} ${each.press}`.trim();
    if (card.note.textContent !== note) card.note.textContent = note;
    card.plot.setAttribute("aria-label", `${each.title}. ${each.note}`);
    card.plot.style.height = `${each.figure.layout.height}px`;
    const changed = card.stale || card.drawn !== now;
    Object.assign(card, { figure: each.figure, file: each.file, asked, question, ask, stale: changed, drawn: now });
    card.section.querySelectorAll(".tools button").forEach(button =>
      button.setAttribute("aria-label", `${button.textContent} of ${each.title}`));
    setPoints(card, each.title);
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

function folded(brief, text) {
  const fold = make("details");
  fold.append(make("summary", brief), make("div", text));
  return fold;
}

function newComponent(parent) {
  const root = make("div", undefined, { class: "rooftree-answer" });
  const places = {
    said: make("div", undefined, { class: "said" }), numbers: make("dl"), sure: make("div", undefined, { class: "sure" }),
    notes: make("div", undefined, { class: "notes" }), cards: make("div", undefined, { class: "cards" }), tables: make("div"),
  };
  root.append(...Object.values(places));
  parent.append(root);
  const component = { root, places, cards: [], turn: 0 };
  return component;
}

async function show(component, data) {
  const turn = ++component.turn, { places } = component;
  component.root.dataset.part = data.name;
  put(places.said, [data.headline, data.sure?.verdict, data.sure?.colour], ([headline, verdict, colour]) => [
    ...(headline ? [make("h2", headline)] : []),
    ...(verdict ? [make("span", `How sure: ${verdict}`, { class: `chip ${colour}` })] : []),
  ]);
  put(places.sure, data.sure, sure => sure ? [
    folded(`${sure.brief}.`, `${sure.sentence}.`), make("a", sure.more, { href: sure.address, target: "_blank", rel: "noopener" }),
  ] : []);
  put(places.numbers, data.numbers, said => said.map(([label, value]) => {
    const pair = make("div");
    pair.append(make("dt", label), make("dd", value));
    return pair;
  }));
  put(places.notes, data.notes, said => said.map(text => make("p", text)));
  const scheme = getComputedStyle(component.root).getPropertyValue("--st-text-color");
  setCards(component, gridOf(component, data.name), { ...data, ask: component.ask }, scheme);
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

export default function ({ data, parentElement, setTriggerValue }) {
  const component = components.get(parentElement) ?? newComponent(parentElement);
  components.set(parentElement, component);
  component.ask = text => setTriggerValue("pressed", text);
  show(component, data);
  return () => setTimeout(() => { // its cards stand elsewhere where Streamlit took the element away
    if (parentElement.isConnected) return;
    component.turn++;
    dropCards(component, 0);
  });
}
